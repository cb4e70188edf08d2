#!/usr/bin/env python3
"""Draws what `timeline --json` wrote, as PNG: plot_timeline.py TIMELINE.json [--out DIR].

glance.png has all networks at the mean over the training, epochs.png how the gain over vDNN grows with the zeros. Exits
with 2 if it cannot read or write a file.
"""

import argparse
import sys
from pathlib import Path
from types import SimpleNamespace

sys.dont_write_bytecode = True  # no __pycache__ among the sources
try:
    import matplotlib
    from matplotlib.lines import Line2D
except ImportError as error:
    sys.exit(f"plot_timeline.py needs matplotlib: {error}")

sys.path.insert(0, str(Path(__file__).parents[1]))  # bench/plotting
from plotting.page import FONT, GREY, INK, LEFT, LOOK, page, panel, place_legend, scale
from plotting.results import BadFile, content_of

# Of the policies, those that are drawn together.
AT_A_GLANCE = {
    "vDNN all": ("#000000", "s"), "vDNN++": (GREY, "D"), "cDMA": ("#0072B2", "o"), "cDMA engine": ("#56B4E9", "v"),
    "CSWAP": ("#E69F00", "^"), "CSWAP+ lossy": ("#009E73", "P"), "CSWAP+ recompute": ("#AA1166", "X"),
    "COMET": ("#1A0066", "*"),
}  # fmt: skip
OVER_EPOCHS = ("cDMA", "cDMA engine", "CSWAP", "CSWAP+ lossy")


def policies(rows):
    """Name -> figures."""
    return {row["policy"]: row for row in rows}


def setting(run):
    """What the page says of how the figures came about."""
    codecs = "codec times are bounds, not measurements" if run["codecs"] == "counts" else f"codecs: {run['codecs']}"
    if run["slower"] != 1:
        codecs += f", {run['slower']:g} times as slow"
    words = f"a replay, not a measurement: {run['gpu']}, {run['link']['name']}; layer times are modelled; {codecs}"
    return SimpleNamespace(environment={"cpu": words}, where="host")


def glance(run):
    names = [network["network"] for network in run["networks"]]
    height, left, width = 0.36 * len(names) + 0.2, 1.0, 3.8
    fig = page(height + 2.1, "Iteration time and device memory by policy", "over keeping all; mean of epochs {:g} to {:g}".format(*run["mean_of"]),
               setting(run))
    for i, (key, label) in enumerate((("iteration", "time of an iteration"), ("device_peak", "peak on the device"))):
        ax = panel(fig, label, left + i * (width + 0.2), 1.3, width, height)
        ax.set_yticks(range(len(names)), names)
        ax.set_ylim(len(names) - 0.5, -0.5)
        ax.tick_params(axis="y", length=0)
        ratios = []
        for y, network in enumerate(run["networks"]):
            of = policies(network["mean"])
            for policy, (colour, marker) in AT_A_GLANCE.items():
                ratios.append(of[policy][key] / of["keep"][key])
                ax.plot(ratios[-1], y, marker=marker, color=colour, markersize=6, alpha=0.85, zorder=3)
        scale(ax.xaxis, [1, *ratios], always_log=True)
        ax.axvline(1, color=INK, linewidth=0.8)
        ax.set_xlabel("times that of keep", fontsize=FONT)
    fig.axes[1].tick_params(labelleft=False)
    place_legend(fig, [Line2D([], [], color=colour, marker=marker, linestyle="", label=policy)
                       for policy, (colour, marker) in AT_A_GLANCE.items()], 4)
    return fig


def epochs(run):
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
            of = [policies(e["policies"]) for e in network["epochs"]]
            y = [o[policy]["iteration"] / o["vDNN all"]["iteration"] for o in of]
            colour, marker = AT_A_GLANCE[policy]
            ax.plot(x, y, color=colour, marker=marker, markersize=4, linewidth=1.3)
        ax.set_ylim(0, 1.05)
        ax.set_xticks(x, [f"{epoch:g}" for epoch in x])
        ax.tick_params(labelleft=column == 0)
    place_legend(fig, [Line2D([], [], color=AT_A_GLANCE[p][0], marker=AT_A_GLANCE[p][1], label=p)
                       for p in OVER_EPOCHS], 4)
    return fig


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0].split(":")[0] + ".")
    parser.add_argument("run", metavar="TIMELINE.json", help="what timeline --json wrote")
    parser.add_argument("--out", metavar="DIR", type=Path, default=Path("."), help="where the plots go (default: here)")
    options = parser.parse_args()
    matplotlib.rcParams.update(LOOK)
    try:
        run = content_of(options.run, "tuck-timeline/1")
        pictures = {"glance": glance(run), "epochs": epochs(run)}
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
