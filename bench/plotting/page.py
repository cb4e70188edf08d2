"""How the plots look: pages, axes, colours, and labels that keep out of each other's way."""

import math
import textwrap
from typing import NamedTuple

from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

MANY_TIMES = 20  # from this range on an axis is logarithmic
LEGEND_COLUMNS, LEGEND_ROW, GAP = 4, 0.2, 0.4  # inches
WIDTH, LABELS, LEFT = 9.0, 2.35, 0.85  # inches: a page, the column of labels at its right, the margin at its left
FONT = 8.5  # points
FAINT, SEEN = 0.4, 1.01  # how opaque noisy points are; from this ratio of its ends on an interval can be seen
NEAR = 12  # points: a name this near its marker needs no line to it
INK, GREY, PALE = "#222222", "#6B6B6B", "#E4E4E4"

LOOK = {
    "svg.fonttype": "none", "svg.hashsalt": "tuck", "text.parse_math": False, "font.family": "DejaVu Sans",
    "hatch.linewidth": 0.5, "hatch.color": GREY, "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": GREY,
    "xtick.labelcolor": INK, "ytick.labelcolor": INK,
}
LEADER = {"arrowstyle": "-", "linewidth": 0.5, "alpha": 0.7}  # from a name to what it names

# Told apart with normal, protanopic and deuteranopic sight: OKLab distances of at least 0.07, and markers besides.
COLOURS = {
    "zvc": "#0072B2", "rle": "#E69F00", "bitpack": "#CC79A7", "deflate": "#009E73",
    "quantize": "#56B4E9", "zvc+huffman": "#1A0066", "zvc+rle+huffman": "#AA1166",
    "huffman": "#11CC8C", "quantize+delta+zvc+huffman": "#663300",
    "delta+rle+bitpack": "#0D260D", "codebooks": "#7A9A01",
}
OTHER_COLOURS = ["#7F7F00", "#9966EE", "#884466", "#3D5C5C"]
MARKERS, PEER_MARKERS, DASHES = "osD^vPXph*<>", "os^vD<>ph", [(0, (5, 2)), (0, (2, 1.5)), (0, (6, 2, 1, 2))]
WAY_DASHES = ["-", (0, (6, 1.5)), (0, (3, 1.5)), (0, (1, 1)), (0, (6, 1.5, 1, 1.5)), (0, (3, 1, 1, 1, 1, 1))]


def make_styles(keys):
    """Colour, marker and line of each (peer, codec)."""
    order = list(COLOURS)
    unknown = sorted(codec for peer, codec in keys if not peer and codec not in COLOURS)
    peers = sorted(codec for peer, codec in keys if peer)
    styles = {}
    ways = sorted({codec.partition(" (")[2] for codec in unknown})
    for i, codec in enumerate(order + unknown):
        base, _, way = codec.partition(" (")  # "zvc (2 threads)" is drawn as zvc, in dashes of its own
        colour = COLOURS.get(base) or OTHER_COLOURS[(i - len(order)) % len(OTHER_COLOURS)]
        dashes = WAY_DASHES[ways.index(way) % len(WAY_DASHES)] if way in ways else "-"
        styles[False, codec] = {"color": colour, "marker": MARKERS[i % len(MARKERS)], "linestyle": dashes}
    for i, codec in enumerate(peers):
        styles[True, codec] = {"color": GREY, "marker": PEER_MARKERS[i % len(PEER_MARKERS)],
                               "linestyle": DASHES[i % len(DASHES)], "markerfacecolor": "white"}
    return styles


def lightness(colour):
    """From 0, black, to 1, roughly as seen."""
    return sum(weight * c for weight, c in zip((0.3, 0.6, 0.1), to_rgb(colour)))


def readable(colour):
    """The colour, darkened until text of it stands out on white."""
    rgb = to_rgb(colour)
    return tuple(c * min(1, 0.45 / max(lightness(colour), 0.01)) for c in rgb)


def setting(results):
    """What ran where, in words."""
    env, device, threads = results.environment, results.environment.get("device"), results.environment.get("threads")
    words = [env.get("cpu"), threads and f"{threads} thread{'s' * (threads != 1)}"]
    if results.where == "gpu" and isinstance(device, dict):
        driver, runtime = device.get("driver"), device.get("runtime")
        words = [device.get("name"), driver and f"driver {driver}", runtime and f"CUDA {runtime}", device.get("clocks")]
    words += [env.get("compiler"), f"tuck {env.get('version') or ''} {env.get('commit') or ''}"]
    words += [str(env.get("date") or "")[:10], env.get("command")]
    return [str(word).strip() for word in words if word]


def page(height, title, subtitle, results):
    """A figure with its title above and, below, what it was measured with."""
    lines = textwrap.wrap("  ·  ".join(setting(results)), 150)
    more = 0.12 * max(0, len(lines) - 2)  # inches: of so many lines there is room for two
    fig = Figure(figsize=(WIDTH, height + more))
    fig.foot = more
    height += more
    fig.text(0.15 / WIDTH, 1 - 0.12 / height, title, fontsize=12 * min(1, 80 / len(title)), fontweight="bold", va="top")
    fig.text(0.15 / WIDTH, 1 - 0.37 / height, subtitle, fontsize=FONT * min(1, 135 / len(subtitle)), color=GREY,
             va="top")
    fig.text(0.15 / WIDTH, 0.1 / height, "\n".join(lines), fontsize=6.5, color=GREY, va="bottom", linespacing=1.3)
    return fig


def panel(fig, title, left, bottom, width, height):
    """Axes at a place in inches."""
    full = fig.get_figheight()
    ax = fig.add_axes([left / WIDTH, (bottom + fig.foot) / full, width / WIDTH, height / full])
    ax.set_title(title[:1].upper() + title[1:], loc="left", fontsize=FONT + 1, fontweight="bold")
    ax.tick_params(labelsize=FONT, color=GREY)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color=PALE, linewidth=0.6)
    ax.set_axisbelow(True)
    return ax


def name_ticks(ax, x, y):
    """Whether the axes have numbers, and then words, at their ticks."""
    ax.tick_params(labelbottom=x, labelleft=y)
    ax.names_x, ax.names_y = x, y


def stack(titles, lines, title, subtitle, results):
    """A page of panels above each other, with room for as many labels beside each as there are lines."""
    height = max(2.3, lines * FONT * 1.3 / 72)
    fig = page(len(titles) * (height + 0.4) + 1.45, title, subtitle, results)
    bottoms = [0.9 + (height + 0.4) * i for i in reversed(range(len(titles)))]
    axes = [panel(fig, t, LEFT, b, WIDTH - LEFT - LABELS, height) for t, b in zip(titles, bottoms)]
    for ax in axes:
        name_ticks(ax, ax is axes[-1], True)
    return fig, axes


def tiles(columns, rows, handles, title, subtitle, results):
    """A page of small panels, {(column, row): axes}, with a legend. Columns are beside each other as far as they fit,
    then in further blocks. Of a block, the first column has the ticks of y, the last row those of x."""
    most = 3 if len(columns) in (3, 5, 6, 9) else 4
    across, blocks = min(len(columns), most), math.ceil(len(columns) / most)
    legend = LEGEND_ROW * math.ceil(len(handles) / LEGEND_COLUMNS)
    width, height = (WIDTH - LEFT - 0.2 - GAP * (across - 1)) / across, 1.75
    block = len(rows) * (height + 0.4) + 0.35
    foot = legend + 0.95
    fig = page(blocks * block + foot + 0.35, title, subtitle, results)
    panels = {}
    for i, column in enumerate(columns):
        for j, row in enumerate(rows):
            bottom = foot + (blocks - 1 - i // across) * block + (len(rows) - 1 - j) * (height + 0.4)
            ax = panel(fig, f"{row}, {column}", LEFT + i % across * (width + GAP), bottom, width, height)
            ax.tick_params(labelsize=FONT - 1)
            name_ticks(ax, j == len(rows) - 1, i % across == 0)
            panels[column, row] = ax
    place_legend(fig, handles, LEGEND_COLUMNS)
    return fig, panels


def handle_of(name, style, lossy):
    return Line2D([], [], linewidth=1.4, markersize=4, label=name + "*" * lossy, **style)


def scale(axis, values, always_log=False):
    """Limits and ticks of an axis of positive values: from 0, or logarithmic if they range far."""
    low, high = min(values), max(values)
    limit = axis.axes.set_xlim if axis.axis_name == "x" else axis.axes.set_ylim
    if not always_log and high < MANY_TIMES * low:
        return limit(0, high * 1.06)
    centre, reach = math.sqrt(low * high), max(math.sqrt(high / low) * (high / low) ** 0.06, 1.5)
    low, high = centre / reach, centre * reach
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8)):
        ticks = [float(f"{s}e{d}") for d in decades for s in steps if low <= float(f"{s}e{d}") <= high]
        if len(ticks) >= 4:
            break
    (axis.axes.set_xscale if axis.axis_name == "x" else axis.axes.set_yscale)("log")
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_major_formatter(FixedFormatter([f"{t:g}" for t in ticks]))
    axis.set_minor_locator(NullLocator())
    limit(low, high)


def spread(wanted, gap, low, high):
    """Places nearest to `wanted`, which ascends: `gap` apart, and within [low, high] as far as they fit."""
    blocks = []  # labels that touch: [sum of where each would have the block start, how many]
    for i, at in enumerate(wanted):
        blocks.append([at - i * gap, 1])
        while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] > blocks[-1][0] * blocks[-2][1]:
            total, count = blocks.pop()
            blocks[-1] = [blocks[-1][0] + total, blocks[-1][1] + count]
    most = high - (len(wanted) - 1) * gap
    starts = [max(min(total / count, most), low) for total, count in blocks for _ in range(count)]
    return [start + i * gap for i, start in enumerate(starts)]


def draw_intervals(ax, points, colour):
    """Bars where values may be, of points (x, low, high), if they can be seen."""
    if seen := [point for point in points if point[2] > SEEN * point[1]]:
        x, low, high = zip(*seen)
        ax.vlines(x, low, high, color=colour, linewidth=0.9, alpha=0.7, zorder=2.5)
        for ends in (low, high):
            ax.plot(x, ends, color=colour, marker="_", markersize=4, linestyle="", alpha=0.7, zorder=2.5)


def draw_lines(ax, lines, results, copies=(), named=True):
    """Lines of codecs, and of copies, with names in a column at the right. No line leads to a noisy point: where it
    would cross another one is not known."""
    ends = []
    for (peer, codec), points in lines.items():
        style = results.styles[peer, codec] | {"markersize": 4, "zorder": 2 if peer else 3}
        sure = [math.nan if p.noisy else p.y for p in points]
        ax.plot([p.x for p in points], sure, linewidth=1.1 if peer else 1.6, **style)
        noisy = [p for p in points if p.noisy]
        ax.plot([p.x for p in noisy], [p.y for p in noisy], **style | {"linestyle": "", "alpha": FAINT})
        draw_intervals(ax, [(p.x, p.low, p.high) for p in points], style["color"])
        ends.append((*points[-1][:2], codec + "*" * ((peer, codec) in results.lossy), style["color"]))
    if copies:
        ax.plot(*zip(*copies), color=INK, linewidth=0.8, marker="_" if len(copies) == 1 else "", zorder=2)
    if not named:
        return
    if copies:
        ends.append((*copies[-1], results.copy_name, INK))
    to_axes = (ax.transData + ax.transAxes.inverted()).transform
    ends = sorted((to_axes((x, y))[1], x, y, name, colour) for x, y, name, colour in ends)
    gap = FONT * 1.3 / 72 / (ax.get_position().height * ax.figure.get_figheight())
    for (_, x, y, name, colour), place in zip(ends, spread([end[0] for end in ends], gap, 0, 1)):
        line = LEADER | {"color": colour, "shrinkA": 0, "shrinkB": 3, "relpos": (0, 0.5)}
        ax.annotate(name, (x, y), (1.045, place), textcoords="axes fraction", va="center_baseline",
                    fontsize=FONT * min(1, 29 / len(name)), color=readable(colour), annotation_clip=False,
                    arrowprops=line)


def wrap(name):
    """A long name of stages on two lines, of about one length."""
    cuts = [i + 1 for i, c in enumerate(name) if c in "+ "]
    if len(name) < 18 or not cuts:
        return name
    cut = min(cuts, key=lambda at: abs(at - len(name) / 2))
    return name[:cut].rstrip() + "\n" + name[cut:]


def place_legend(fig, handles, columns):
    """A legend between the axes and what stands below them."""
    fig.legend(handles=handles, ncol=columns, loc="lower left", frameon=False, fontsize=FONT, handlelength=1.4,
               handleheight=1, bbox_to_anchor=(LEFT / WIDTH - 0.015, (0.38 + fig.foot) / fig.get_figheight()))


class Box(NamedTuple):
    """A rectangle of pixels."""

    left: float
    bottom: float
    right: float
    top: float

    def covers(self, dot, margin=0.0):
        return (self.left - margin <= dot[0] <= self.right + margin
                and self.bottom - margin <= dot[1] <= self.top + margin)

    def overlaps(self, other, margin):
        return (self.left - margin < other.right and other.left < self.right + margin
                and self.bottom - margin < other.top and other.bottom < self.top + margin)


class Place(NamedTuple):
    """Where a name may stand: so many points from its marker, and the points on the line to there, if it needs one."""

    far: float
    box: Box
    line: list


def place_names(ax, named, avoid):
    """Names beside their points, (x, y, name, colour), where they cover the least of each other and of `avoid`."""
    ax.figure.canvas.draw()
    texts = [ax.annotate(name, (x, y), fontsize=FONT - 0.5, color=readable(colour), linespacing=1.1, zorder=5,
                         arrowprops=LEADER | {"color": colour, "shrinkA": 0, "shrinkB": 5})
             for x, y, name, colour in named]
    marks = [tuple(map(float, ax.transData.transform(at[:2]))) for at in named]
    dots = marks + [tuple(map(float, ax.transData.transform(at))) for at in avoid]
    frame, pixels = Box(*ax.get_window_extent().extents), ax.figure.dpi / 72
    around = [list(places_around(mark, Text.get_window_extent(text), pixels)) for mark, text in zip(marks, texts)]
    chosen = {}
    for _ in range(4):  # in turn, until they have settled
        for i, places in enumerate(around):
            others = [place for j, place in chosen.items() if j != i]
            past = marks[:i] + marks[i + 1 :]
            chosen[i] = min(places, key=lambda place: cost(place, others, past, dots, frame, pixels))
    for text, place in zip(texts, chosen.values()):
        text.set_position(ax.transData.inverted().transform((place.box.left, place.box.bottom)))
        text.arrow_patch.set_visible(bool(place.line))


def places_around(mark, size, pixels):
    """Places for a name of a size near its marker, at sixteen angles; there are `pixels` to a point."""
    for far in (6, 11, 18, 28, 40, 55, 75, 100):
        for k in range(16):
            dx, dy = math.cos(k * math.pi / 8), math.sin(k * math.pi / 8)
            left = mark[0] + dx * far * pixels - size.width * (1 - dx) / 2
            bottom = mark[1] + dy * far * pixels - size.height * (1 - dy) / 2
            ahead = left + size.width / 2 - mark[0], bottom + size.height / 2 - mark[1]
            line = [(mark[0] + ahead[0] * t / 10, mark[1] + ahead[1] * t / 10) for t in range(1, 10)]
            yield Place(far + (k % 4 > 0), Box(left, bottom, left + size.width, bottom + size.height),
                        line if far > NEAR else [])


def cost(place, others, past, dots, frame, pixels):
    """How bad a place is: far, on a dot, on another name, across a line or a marker in the way, out of the axes."""
    box = place.box
    outside = sum(not frame.covers(corner) for corner in (box[:2], box[2:]))
    hidden = sum(box.covers(dot, 5 * pixels) for dot in dots)
    crossed = sum(box.overlaps(other.box, 2 * pixels) for other in others)
    through = sum(other.box.covers(at) for at in place.line for other in others)
    through += sum(box.covers(at, 2 * pixels) for other in others for at in other.line)
    through += sum(math.dist(at, mark) < 5 * pixels for at in place.line for mark in past)
    return place.far + 60 * hidden + 200 * crossed + 1000 * outside + 30 * through
