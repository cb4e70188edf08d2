#!/usr/bin/env python3
"""Draws what `timeline --json` wrote, as PNG: plot_timeline.py TIMELINE.json [--out DIR] [--epoch E].

glance.png has all networks at the mean over the training or an epoch, epochs.png how the gain over vDNN grows with the
zeros, and each network a picture of its own. Exits with 2 if it cannot read or write a file.
"""

import argparse
import json
import sys
from pathlib import Path
from types import SimpleNamespace

sys.dont_write_bytecode = True  # no __pycache__ among the sources
try:
    import matplotlib
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
except ImportError as error:
    sys.exit(f"plot_timeline.py needs matplotlib: {error}")

sys.path.insert(0, str(Path(__file__).parents[1]))  # bench/plotting
from plotting.page import FONT, GREY, INK, LEFT, LOOK, PALE, WIDTH, page, panel, place_legend, scale

SCHEMA = "tuck-timeline/1"
# Of the policies, those that are drawn together; the others are in the networks' own pictures.
AT_A_GLANCE = {
    "vDNN all": ("#000000", "s"), "vDNN++": (GREY, "D"), "cDMA": ("#0072B2", "o"), "cDMA engine": ("#56B4E9", "v"),
    "CSWAP": ("#E69F00", "^"), "CSWAP+ lossy": ("#009E73", "P"), "CSWAP+ recompute": ("#AA1166", "X"),
    "COMET": ("#1A0066", "*"),
}  # fmt: skip
OVER_EPOCHS = ("cDMA", "cDMA engine", "CSWAP", "CSWAP+ lossy")
PARTS = {"compute": PALE, "waiting": "#D55E00", "codec": "#0072B2", "recompute": "#AA1166"}


class BadFile(Exception):
    """What is wrong with a file."""


def read(path):
    try:
        run = json.loads(Path(path).read_text())
    except (OSError, ValueError) as error:
        raise BadFile(f"cannot be read: {error}") from error
    schema = run.get("schema") if isinstance(run, dict) else None
    if schema != SCHEMA:
        raise BadFile(f"its schema is {schema or 'missing'} instead of {SCHEMA}")
    return run


def policies(network, epoch):
    """Name -> figures, of the mean or an epoch; without those that have none."""
    rows = network["mean"] if epoch is None else next(
        (e["policies"] for e in network["epochs"] if e["epoch"] == epoch), None)
    if rows is None:
        raise BadFile(f"{network['network']} has no epoch {epoch:g}")
    return {row["policy"]: row for row in rows if row["missing"] is None}


def setting(run):
    """What the page says of how the figures came about."""
    codecs = "codec times are bounds, not measurements" if run["codecs"] == "counts" else f"codecs: {run['codecs']}"
    if run["slower"] != 1:
        codecs += f", {run['slower']:g} times as slow"
    words = f"a replay, not a measurement: {run['gpu']}, {run['link']['name']}; layer times are modelled; {codecs}"
    return SimpleNamespace(environment={"cpu": words}, where="host")


def when(run, epoch):
    first, last = run["mean_of"]
    return f"epoch {epoch:g}" if epoch is not None else f"mean of epochs {first:g} to {last:g}"


def named_rows(ax, names):
    """A y axis of names from the top down."""
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)


def glance(run, epoch):
    names = [network["network"] for network in run["networks"]]
    height, left, width = 0.36 * len(names) + 0.2, 1.0, 3.8
    fig = page(height + 2.1, "Iteration time and device memory by policy", f"over keeping all; {when(run, epoch)}",
               setting(run))
    for i, (key, label) in enumerate((("iteration", "time of an iteration"), ("device_peak", "peak on the device"))):
        ax = panel(fig, label, left + i * (width + 0.2), 1.3, width, height)
        named_rows(ax, names)
        ratios = []
        for y, network in enumerate(run["networks"]):
            of = policies(network, epoch)
            for policy, (colour, marker) in AT_A_GLANCE.items():
                if policy not in of:
                    continue
                ratios.append(of[policy][key] / of["keep"][key])
                ax.plot(ratios[-1], y, marker=marker, color=colour, markersize=6, alpha=0.85, zorder=3)
        scale(ax.xaxis, [1, *ratios], always_log=True)
        ax.axvline(1, color=INK, linewidth=0.8)
        ax.set_xlabel("times that of keep", fontsize=FONT)
    fig.axes[1].tick_params(labelleft=False)
    place_legend(fig, [Line2D([], [], color=colour, marker=marker, linestyle="", label=policy)
                       for policy, (colour, marker) in AT_A_GLANCE.items()], 4)
    return fig


def epochs(run, _):
    networks, columns, width, height = run["networks"], 5, 1.5, 1.35
    lines = -(-len(networks) // columns)
    fig = page(lines * (height + 0.5) + 1.35, "How the gain over vDNN grows with the zeros",
               "iteration time over that of vDNN all, by epoch of the recorded training", setting(run))
    for i, network in enumerate(networks):
        row, column = divmod(i, columns)
        left, bottom = LEFT - 0.2 + column * (width + 0.18), 0.95 + (lines - 1 - row) * (height + 0.5)
        ax = panel(fig, "", left, bottom, width, height)
        ax.set_title(network["network"], loc="left", fontsize=FONT + 1, fontweight="bold")
        x = [e["epoch"] for e in network["epochs"]]
        for policy in OVER_EPOCHS:
            of = [policies(network, epoch) for epoch in x]
            y = [o[policy]["iteration"] / o["vDNN all"]["iteration"] for o in of]
            colour, marker = AT_A_GLANCE[policy]
            ax.plot(x, y, color=colour, marker=marker, markersize=4, linewidth=1.3)
        ax.set_ylim(0, 1.05)
        ax.set_xticks(x, [f"{epoch:g}" for epoch in x])
        ax.tick_params(labelleft=column == 0)
    place_legend(fig, [Line2D([], [], color=AT_A_GLANCE[p][0], marker=AT_A_GLANCE[p][1], label=p)
                       for p in OVER_EPOCHS], 4)
    return fig


def one_network(run, network, epoch):
    of = policies(network, epoch)
    names, keep = list(of), of["keep"]
    height, left = 0.26 * len(names) + 0.2, 1.3
    fig = page(height + 2.05, f"{network['network']}: iteration time and memory by policy",
               f"batch {network['batch']}; {when(run, epoch)}", setting(run))
    times = panel(fig, "iteration time", left, 1.2, 4.3, height)
    memory = panel(fig, "peak memory", left + 4.5, 1.2, 3.0, height)
    for y, row in enumerate(of.values()):
        at = 0
        for part, colour in PARTS.items():
            share = row[part] / keep["iteration"]
            times.barh(y, share, left=at, color=colour, height=0.7)
            at += share
        times.annotate(f"{at:.2f}", (at, y), (3, 0), textcoords="offset points", va="center", fontsize=FONT - 1)
        memory.barh(y - 0.18, row["device_peak"] / 1e9, color="#009E73", height=0.34)
        memory.barh(y + 0.18, row["host_peak"] / 1e9, color="#E69F00", height=0.34)
    for ax in (times, memory):
        named_rows(ax, names)
    times.set_xlim(0, 1.08 * max(row["iteration"] for row in of.values()) / keep["iteration"])
    times.set_xlabel("times that of keep", fontsize=FONT)
    memory.set_xlabel("GB", fontsize=FONT)
    memory.tick_params(labelleft=False)
    place_legend(fig, [Patch(facecolor=colour, label=part) for part, colour in PARTS.items()] +
                 [Patch(facecolor="#009E73", label="device"), Patch(facecolor="#E69F00", label="host")], 6)
    return fig


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0].split(":")[0] + ".")
    parser.add_argument("run", metavar="TIMELINE.json", help="what timeline --json wrote")
    parser.add_argument("--out", metavar="DIR", type=Path, default=Path("."), help="where the plots go (default: here)")
    parser.add_argument("--epoch", type=float, help="instead of the mean over the training")
    options = parser.parse_args()
    matplotlib.rcParams.update(LOOK)
    try:
        run = read(options.run)
        pictures = {"glance": glance(run, options.epoch), "epochs": epochs(run, options.epoch)}
        for network in run["networks"]:
            pictures[network["network"].lower().replace("-", "")] = one_network(run, network, options.epoch)
        options.out.mkdir(parents=True, exist_ok=True)
        for name, fig in pictures.items():
            fig.savefig(options.out / f"{name}.png", dpi=110, metadata={"Software": None})
    except BadFile as error:
        print(f"plot_timeline.py: {options.run}: {error}", file=sys.stderr)
        return 2
    except (KeyError, TypeError) as error:
        print(f"plot_timeline.py: {options.run}: it lacks or misuses {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"plot_timeline.py: {options.out}: {error.strerror}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
