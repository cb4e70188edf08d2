#!/usr/bin/env python3
"""Draws what tuck-bench measured, as PNG and SVG: plot.py RESULTS.json [--out DIR] [--link GB/s] [--only NAME ...].

For the host and the GPU each: throughput and ratio against sparsity, throughput against size, the codec to swap with
over a link, and ratio against throughput. Sizes are bytes, times seconds, throughputs 1e9 bytes of the raw tensor a
second. Exits with 0 if it made a plot, 1 if there is nothing to draw, 2 if it cannot read or write a file.
"""

import argparse
import math
import os
import sys
from collections import Counter, defaultdict
from io import BytesIO
from pathlib import Path

sys.dont_write_bytecode = True  # no __pycache__ among the sources
try:
    import matplotlib
    from matplotlib.colors import ListedColormap
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator
except ImportError as error:
    sys.exit(f"plot.py needs matplotlib: {error}")

from plotting.page import FAINT, FONT, GREY, INK, LEFT, LOOK, PALE, WIDTH
from plotting.page import draw_intervals, draw_lines, handle_of, lightness, page, panel, place_legend, place_names
from plotting.page import scale, stack, tiles, wrap
from plotting.results import NONE, BadFile, Results, TooLittle
from plotting.results import duration, front, grouped, human, point, read, series, shares, shown, swaps

LINKS = {"10GbE": 1.25, "100GbE": 12.5, "PCIe 3.0 x16": 12.0, "PCIe 4.0 x16": 25.0, "PCIe 5.0 x16": 55.0}  # GB/s as
LINK = {"host": 1.25, "gpu": 25.0}  # they come out
SMALL = 64 * 1024  # bytes: up to here the call itself may be most of the time


# The plots: each takes results and a function that words its title, and gives a figure or raises TooLittle.


def plot_sparsity(results, title):
    groups = grouped(results.rows, "raw_bytes", "share")
    rows = [r for group in groups.values() for r in group]
    ends = min(r.sparsity for r in rows), max(r.sparsity for r in rows)
    lines = {size: series_of(group, "sparsity") | {"ratio": series(group, "sparsity", "ratio")}
             for size, group in groups.items()}
    copies = {size: [(x, speed) for copied, speed in results.copies if copied == size for x in ends] for size in groups}
    fig, panels = multiples(results, lines, human, title("Throughput and ratio against sparsity"),
                            point(rows, "type", "pattern", *["raw_bytes"] * (len(groups) == 1)))
    for (size, name), ax in panels.items():
        margin = 0.02 * (ends[1] - ends[0])
        ax.set_xlim(ends[0] - margin, ends[1] + margin)
        scale(ax.yaxis, [r.ratio for r in rows if r.ratio] if name == "ratio" else reach(rows, copies.values()))
        finish(ax, "raw / encoded bytes" if name == "ratio" else "GB/s of raw bytes",
               "sparsity: zeros among the values")
        draw_lines(ax, lines[size][name], results, () if name == "ratio" else copies[size], named=len(groups) == 1)
    return fig


def plot_size(results, title):
    groups = grouped(results.rows, "share", "raw_bytes")
    rows = [r for group in groups.values() for r in group]
    sizes = sorted({r.raw_bytes for r in rows})
    copies = [copy for copy in results.copies if sizes[0] <= copy[0] <= sizes[-1]]
    lines = {share: series_of(group, "raw_bytes") for share, group in groups.items()}
    fig, panels = multiples(results, lines, lambda share: f"sparsity {shares(groups[share])}",
                            title("Throughput against size"),
                            point(rows, "type", "pattern", *["sparsity"] * (len(groups) == 1)))
    for (share, name), ax in panels.items():
        scale_sizes(ax, sizes, 8 if len(groups) == 1 else 4)
        scale(ax.yaxis, reach(rows, [copies]), always_log=True)
        finish(ax, "GB/s of raw bytes", "size of the tensor")
        if len(groups) == 1:
            draw_floor(ax, [r for r in rows if r.operation == name],
                       "launch floor" if results.where == "gpu" else "shortest call")
        draw_lines(ax, lines[share][name], results, copies, named=len(groups) == 1)
    return fig


def series_of(rows, x):
    """Lines of throughput of both ways, as far as they were measured."""
    return {operation: lines for operation in ("encode", "decode")
            if (lines := series([r for r in rows if r.operation == operation], x, "gb_per_s"))}


def reach(rows, copies):
    """All throughputs that are drawn, with the ends of what is known of them."""
    return [speed for r in rows for speed in (r.gb_per_s, *r.speeds)] + [speed for of in copies for _, speed in of]


def finish(ax, y, x):
    """Words at the axes that have ticks."""
    if ax.names_y:
        ax.set_ylabel(y, fontsize=FONT, labelpad=2)
    if ax.names_x:
        ax.set_xlabel(x, fontsize=FONT)


def multiples(results, lines, name_of, title, subtitle):
    """A page with the panels of {value: {panel: lines}}, and {(value, panel): axes}. One value has names beside its
    lines. Several are beside each other, with a legend."""
    subtitle += note_losses(results.rows) + note_noise(results.rows)
    names = [name for name in ("encode", "decode", "ratio") if any(name in of for of in lines.values())]
    if len(lines) == 1:
        [(value, of)] = lines.items()
        fig, axes = stack(of, max(map(len, of.values())) + 1, title, subtitle, results)
        return fig, {(value, name): ax for name, ax in zip(of, axes)}
    keys = {key for of in lines.values() for panel_lines in of.values() for key in panel_lines}
    handles = [handle_of(codec, style, (peer, codec) in results.lossy)
               for (peer, codec), style in results.styles.items() if (peer, codec) in keys]
    handles += [Line2D([], [], color=INK, linewidth=0.8, label=results.copy_name)] * bool(results.copies)
    words = {name_of(value): value for value in lines}
    fig, panels = tiles(list(words), names, handles, title, subtitle, results)
    for word, name in [at for at in panels if at[1] not in lines[words[at[0]]]]:
        panels.pop((word, name)).set_visible(False)
    return fig, {(words[word], name): ax for (word, name), ax in panels.items()}


def note_noise(rows):
    """What faint points are, if there are any."""
    return "   (faint: noisy; bars: where the median is, 95 %)" * any(r.is_noisy for r in rows)


def worst_error(rows):
    return max(r.max_error or 0 for r in rows)


def note_losses(rows):
    """What the asterisks behind names mean, if there are any."""
    worst = worst_error(rows)
    return f"   (* lossy, errors up to {worst:.2g})" if worst else ""


def scale_sizes(ax, sizes, most):
    """A logarithmic x axis of bytes, so many of them named at most: powers of two where there are some."""
    powers = range(math.ceil(math.log2(sizes[0])), math.floor(math.log2(sizes[-1])) + 1)
    ticks = [2**power for power in powers[:: math.ceil(len(powers) / most) or 1]]
    if len(ticks) < 3:
        ticks = [sizes[0], sizes[-1]]
    margin = (sizes[-1] / sizes[0]) ** 0.02
    ax.set_xscale("log", base=2)
    ax.set_xlim(sizes[0] / margin, sizes[-1] * margin)
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_major_formatter(FixedFormatter([human(tick) for tick in ticks]))
    ax.xaxis.set_minor_locator(NullLocator())


def draw_floor(ax, rows, name):
    """The line of a call that takes as long as tuck's shortest, whatever its size."""
    known = [r for r in rows if not r.peer and r.raw_bytes <= SMALL and not r.is_noisy]
    least = min((r.median_seconds for r in known), default=None)
    if not least:
        return
    rate = least * 1e9  # bytes at 1 GB/s
    left = max(ax.get_xlim()[0], ax.get_ylim()[0] * rate)
    right = min(ax.get_xlim()[1], ax.get_ylim()[1] * rate)
    ax.plot([left, right], [left / rate, right / rate], color=INK, linestyle=":", linewidth=1.2, zorder=4)
    x, y = (ax.transData + ax.transAxes.inverted()).transform((right, right / rate))
    ax.annotate(f"{name}: {duration(least)}", (max(x, 0.14), y), (0, 3), "axes fraction", "offset points",
                ha="left" if x < 0.7 else "right", fontsize=FONT)


def plot_break_even(results, title):
    cells = swaps(results)
    cells, left_out = without_gaps(cells)
    if len(cells) < 2:
        raise TooLittle("needs both ways of a lossless codec at two points of size and sparsity")
    sizes = sorted({size for size, _ in cells})
    sparsities = sorted({share for _, share in cells}, key=lambda share: share or 0)
    best = {codec for _, codec, _ in cells.values()}
    colours = {codec: style["color"] for (peer, codec), style in results.styles.items() if codec in best and not peer}
    colours |= {NONE: PALE} if NONE in best else {}
    legend = [Patch(facecolor=colour, label=codec) for codec, colour in colours.items()]
    if len(cells) < len(sizes) * len(sparsities):
        legend.append(Patch(facecolor="white", hatch="////", linewidth=0, label="not measured"))
    if not all(sure for _, _, sure in cells.values()):
        legend.append(Patch(facecolor="white", hatch="....", linewidth=0, label="≈ not sure: another may be as fast"))
    body, foot = max(0.34 * len(sparsities), 0.8), 1.1 + 0.2 * math.ceil(len(legend) / 3)
    if left_out:
        left_out = f". Too few points: {left_out}"
    fig = page(body + foot + 0.75, title(f"The fastest swap over {link_name(results.link)}"),
               point(results.rows, "type", "pattern") + "; lossless codecs, and how many times as fast as without: "
               "encode, send, fetch, decode in turn" + left_out, results)
    ax = panel(fig, "", LEFT, foot, WIDTH - LEFT - 0.2, body)
    draw_cells(ax, cells, sizes, sparsities, colours)
    ax.set_yticks([i + 0.5 for i in range(len(sparsities))],
                  [shares([r for r in results.rows if r.share == share]).replace(" to ", "\nto ")
                   for share in sparsities])
    place_legend(fig, legend, 3)
    return fig


def without_gaps(cells):
    """The cells without sizes and sparsities of which less than half is known, and these in words."""
    words = []
    for axis, name in ((0, "size"), (1, "sparsity")):
        known = Counter(at[axis] for at in cells)
        little = sorted(value for value in known if 2 * known[value] < max(known.values()))
        words += [f"{name} {shown(name, value)}" for value in little]
        cells = {at: best for at, best in cells.items() if at[axis] not in little}
    return cells, ", ".join(words)


def draw_cells(ax, cells, sizes, sparsities, colours):
    """A cell of the best codec's colour, with its factor, for each size and sparsity; hatched where there is none."""
    ax.grid(False)
    ax.fill_between([0, len(sizes)], 0, len(sparsities), hatch="////", facecolor="white", linewidth=0)
    names = list(colours)
    ax.tick_params(axis="y", labelsize=min(FONT, 24 * FONT / max(len(sparsities), 24)))
    grid = [[names.index(cells[x, y][1]) if (x, y) in cells else math.nan for x in sizes] for y in sparsities]
    ax.pcolormesh(range(len(sizes) + 1), range(len(sparsities) + 1), grid, edgecolor="white", linewidth=1, vmin=-0.5,
                  vmax=len(names) - 0.5, cmap=ListedColormap(list(colours.values())))
    small = min(FONT, 150 / len(sizes))
    for (size, sparsity), (factor, name, sure) in cells.items():
        x, y = sizes.index(size), sparsities.index(sparsity)
        text = "1×" if name == NONE else f"{factor:.{2 if factor < 9.995 else 1 if factor < 99.95 else 0}f}×"
        text = text if sure else f"≈ {text}"
        if not sure:  # paler, and dotted
            ax.fill_between([x + 0.005, x + 0.995], y + 0.01, y + 0.99, hatch="....", facecolor="white", alpha=0.6,
                            linewidth=0)
        ax.text(x + 0.5, y + 0.5, f"{name}  {text}" if len(sizes) <= 4 and name != NONE else text, ha="center",
                va="center", fontsize=small, color="white" if sure and lightness(colours[name]) < 0.5 else INK)
    ax.set_xticks([i + 0.5 for i in range(len(sizes))],
                  [human(size).replace(" ", "\n" if len(sizes) > 8 else " ") for size in sizes])
    ax.tick_params(length=0)
    ax.tick_params(axis="x", labelsize=min(FONT, 140 / len(sizes)))
    ax.set(xlim=(0, len(sizes)), ylim=(0, len(sparsities)))
    ax.set_xlabel("size of the tensor", fontsize=FONT)
    ax.set_ylabel("sparsity", fontsize=FONT)


def plot_pareto(results, title):
    groups = defaultdict(list)
    for r in results.rows:
        if r.ratio:
            groups[r.raw_bytes, r.share].append(r)
    rows = max(groups.values(), default=[], key=lambda group: (
        len({(r.key, r.operation) for r in group}), group[0].raw_bytes, -abs((group[0].share or 0) - 0.6)))
    if len({r.key for r in rows}) < 2:
        raise TooLittle("needs two codecs at one point")
    height = 4.6
    fig = page(height + 2.0, title("Ratio against throughput"),
               point(rows, "type", "pattern", "sparsity", "raw_bytes", others=len(groups) - 1)
               + note_noise(rows), results)
    copies = [speed for size, speed in results.copies if size == rows[0].raw_bytes]
    for i, operation in enumerate(("encode", "decode")):
        ax = panel(fig, operation, LEFT + i * 4.15, 1.15, 3.9, height)
        scale(ax.xaxis, [r.ratio * f for r in rows for f in (0.7, 1.4)], always_log=True)
        scale(ax.yaxis, reach(rows, []) + copies, always_log=True)
        ax.set_xlabel("ratio: raw / encoded bytes", fontsize=FONT)
        draw_points(ax, {r.key: r for r in rows if r.operation == operation}, copies, results)
    fig.axes[0].set_ylabel("GB/s of raw bytes", fontsize=FONT)
    fig.axes[1].tick_params(labelleft=False)
    worst = worst_error(rows)
    legend = [marker_of("tuck", "o", INK)]
    legend += [marker_of("peer", "o", "white")] * any(r.peer for r in rows)
    legend += [marker_of(f"lossy, errors up to {worst:.2g}", "D", INK)] * (worst > 0)
    legend.append(Line2D([], [], color=GREY, linewidth=3, alpha=0.35, label="Pareto front of the lossless"))
    place_legend(fig, legend, 4)
    return fig


def marker_of(name, marker, fill):
    return Line2D([], [], color=INK, marker=marker, markerfacecolor=fill, linestyle="", markersize=6, label=name)


def draw_points(ax, rows, copies, results):
    """A marker and a name for each codec, and the front of those without loss."""
    best = front([(r.ratio, r.gb_per_s) for key, r in rows.items() if key not in results.lossy and not r.is_noisy])
    ax.plot([x for x, _ in best], [y for _, y in best], color=GREY, linewidth=3, alpha=0.35, zorder=1)
    avoid = [between(a, b, t / 9) for a, b in zip(best, best[1:]) for t in range(1, 9)]
    for speed in copies[-1:]:
        ends = [(x, speed) for x in ax.get_xlim()]
        ax.plot(*zip(*ends), color=INK, linewidth=0.8, zorder=1)
        ax.annotate(results.copy_name, ends[1], (-3, 3), textcoords="offset points", ha="right", fontsize=FONT - 0.5)
        avoid += [between(*ends, t / 40) for t in range(41)]
    for key, r in rows.items():
        colour = results.styles[key]["color"]
        ax.plot([r.ratio], [r.gb_per_s], marker="D" if key in results.lossy else "o", color=colour, zorder=4,
                linestyle="", markerfacecolor="white" if r.peer else colour, markersize=6.5,
                alpha=FAINT if r.is_noisy else 1)
        draw_intervals(ax, [(r.ratio, *r.speeds)], colour)
    named = [(r.ratio, r.gb_per_s, wrap(r.codec), results.styles[key]["color"]) for key, r in rows.items()]
    place_names(ax, named, avoid)


def between(a, b, t):
    """The point at t of the way from a to b on logarithmic axes."""
    return a[0] ** (1 - t) * b[0] ** t, a[1] ** (1 - t) * b[1] ** t


PLOTS = {"sparsity": plot_sparsity, "size": plot_size, "break-even": plot_break_even, "pareto": plot_pareto}


def save(fig, stem):
    """Writes stem.png and stem.svg, the same bytes wherever Matplotlib is the same; each is whole or not there."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    for suffix, metadata in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
        content = BytesIO()
        fig.savefig(content, format=suffix, dpi=150, metadata=metadata)
        unfinished = stem.with_name(f".{stem.name}.{suffix}.{os.getpid()}")
        try:
            unfinished.write_bytes(content.getvalue())
            unfinished.replace(f"{stem}.{suffix}")
        finally:
            unfinished.unlink(missing_ok=True)


def make(options, results):
    """Saves what there is to draw of one place, a file a pattern, and gives how many plots that were."""
    made, patterns = 0, results.by_pattern()
    for name in options.only or PLOTS:
        stem, absent, drawn = f"{name}-{results.where}", {}, 0
        for pattern, of in patterns.items():
            try:
                fig = PLOTS[name](of, lambda text: f"{options.title}: {text}" if options.title else text)
                save(fig, options.out / (f"{stem}-{pattern}" if drawn else stem))
                drawn += 1
            except TooLittle as error:
                absent.setdefault(str(error), []).append(pattern)
        made += drawn
        for reason, names in absent.items():
            complain(f"no {stem}: it {reason}" if not drawn else f"no {stem} of {', '.join(names)}: it {reason}")
    return made


def complain(text):
    print(f"plot.py: {text}", file=sys.stderr)


def link_name(rate):
    """"PCIe 4.0 x16, 25 GB/s", "a link of 7 GB/s"."""
    names = [name for name, known in LINKS.items() if known == rate]
    return f"{names[0]}, {rate:g} GB/s" if names else f"a link of {rate:g} GB/s"


def link_rate(text):
    """GB/s, or a name; what no link has is mostly in another unit."""
    for name, rate in LINKS.items():
        if text.lower() in (name.lower(), name.lower().split(" x")[0].replace(" ", "").removesuffix(".0")):
            return rate
    if not 1e-3 <= float(text) <= 1e5:
        raise argparse.ArgumentTypeError(f"{text} is no rate in GB/s, from 0.001 to 100000")
    return float(text)


def size(text):
    """64KiB -> 65536."""
    number = text.rstrip("BKMGi")
    factor = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[text[len(number):]]
    return int(number) * factor


def listed(kind):
    def values(text):
        try:
            return [kind(word) for word in text.split(",")]
        except (KeyError, ValueError):
            what = {size: "sizes, as 4KiB,1MiB", float: "numbers"}[kind]
            raise argparse.ArgumentTypeError(f"'{text}' is no list of {what}") from None
    return values


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0].split(":")[0] + ".")
    parser.add_argument("results", metavar="RESULTS.json", help="what tuck-bench wrote")
    parser.add_argument("--out", metavar="DIR", type=Path, default=Path("."), help="where the plots go (default: here)")
    parser.add_argument("--link", metavar="GB/s", type=link_rate,
                        help="of break-even, or 10gbe, 100gbe, pcie3, pcie4, pcie5 (default: host 10gbe, gpu pcie4)")
    parser.add_argument("--size", metavar="SIZE,...", type=listed(size), help="only tensors so large, as 64KiB")
    parser.add_argument("--sparsity", metavar="S,...", type=listed(float), help="only these shares of zeros")
    parser.add_argument("--only", metavar="NAME", nargs="+", choices=PLOTS,
                        help=f"some of {', '.join(PLOTS)}")
    parser.add_argument("--type", help="element type to draw (default: f32, or that with most rows)")
    parser.add_argument("--title", metavar="TEXT", help="put before each title")
    return parser.parse_args()


def main():
    options = parse_arguments()
    matplotlib.rcParams.update(LOOK)
    try:
        environment, rows = read(options.results)
        made = 0
        for where in sorted({r.where for r in rows}, reverse=True):
            results = Results(environment, rows, where, options.link or LINK.get(where), options.type)
            if others := ", ".join(sorted(str(t) for t in results.types if t != results.type)):
                complain(f"plots of {where} are of {results.type}; --type takes {others}")
            results.choose(options.size, options.sparsity)
            if results.rows:
                made += make(options, results)
            else:
                complain(f"no plots of {where}: no row of it has a time")
    except BadFile as error:
        complain(f"{options.results}: {error}")
        return 2
    except OSError as error:
        complain(f"{options.out}: {error.strerror}")
        return 2
    if not made:
        complain(f"{options.results}: nothing to draw")
    return 0 if made else 1


if __name__ == "__main__":
    sys.exit(main())
