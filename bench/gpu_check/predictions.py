"""What a model of time has predicted, beside what was measured."""

import json
from pathlib import Path
from statistics import median

KEYS = ("operation", "codec", "type", "pattern", "raw_bytes")
NEAR = 0.02  # of a share of zeros


def read(path):
    """The rows of a file, as {"file", "missing", "rows"}; "missing" says why there are none."""
    path = Path(path)
    found = {"file": path.name, "missing": "", "rows": []}
    try:
        for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
            seconds = row.get("median_seconds") or row.get("gb_per_s") and row["raw_bytes"] / row["gb_per_s"] * 1e-9
            if seconds:
                found["rows"].append({key: row[key] for key in (*KEYS, "sparsity")} | {"seconds": float(seconds)})
    except OSError as error:
        return found | {"missing": f"no predictions: {error.strerror}"}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return found | {"missing": f"no predictions that can be read: {error!r}", "rows": []}
    return found if found["rows"] else found | {"missing": "no row has median_seconds or gb_per_s"}


def of_row(report, row):
    """The predicted seconds of a measured row; None where there are none."""
    near = [p for p in report.get("predictions", {}).get("rows", [])
            if all(p[key] == row.get(key) for key in KEYS) and abs(p["sparsity"] - row["sparsity"]) <= NEAR]  # fmt: skip
    return min(near, key=lambda p: abs(p["sparsity"] - row["sparsity"]))["seconds"] if near else None


def pairs(report):
    """(measured row, predicted seconds) of all steps, each row once."""
    found = {}
    for step in report["steps"]:
        for row in step["figures"]:
            if isinstance(row, dict) and row.get("median_seconds") and all(key in row for key in (*KEYS, "sparsity")):
                if (seconds := of_row(report, row)) is not None:
                    found[step["name"], *(row[key] for key in KEYS), row["sparsity"]] = row, seconds
    return list(found.values())


def name(row):
    return " ".join(str(row[key]) for key in ("operation", "codec", "type", "pattern")) + \
        f" {row['raw_bytes'] / 2**20:g} MiB"


def errors(report):
    """Of the model, in a line; '' where no model was asked for."""
    if "predictions" not in report:
        return ""
    of = report["predictions"]
    if of["missing"]:
        return f"No prediction stands beside any time ({of['file']}): {of['missing']}\n"
    factors = [(seconds / row["median_seconds"], row) for row, seconds in pairs(report)]
    if not factors:
        return f"No measured row is among those predicted ({of['file']})\n"
    worst, at = max(factors, key=lambda f: max(f[0], 1 / f[0]))
    middle = median(abs(factor - 1) for factor, _ in factors)
    return (f"The model's errors ({of['file']}): {len(factors)} rows, median {middle:.0%}, worst {worst:.2f} of the "
            f"measured time ({name(at)})\n")  # fmt: skip
