"""What a model of time has predicted, beside what was measured."""

import json
import re
from pathlib import Path
from statistics import median

KEYS = ("operation", "codec", "type", "pattern", "raw_bytes")
NEAR = 0.02  # of a share of zeros
SAME_RATIO = 0.005  # of the ratios of one tensor: files of the model do not name their recordings


def read(path, gpu):
    """The rows of a file for a GPU of that name, as {"file", "missing", "rows"}; "missing" says why there are none."""
    path = Path(path)
    found = {"file": path.name, "missing": "", "rows": []}
    try:
        for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
            model = row.get("model") or {"seconds": row.get("predicted_seconds")}
            # The table of measured and predicted times names no GPU: it is of the one that is calibrated.
            if model["seconds"] and is_of(model.get("gpu", "h100"), gpu):
                kept = {key: row[key] for key in (*KEYS, "sparsity", "ratio")}
                kept |= {key: row[key] for key in ("recording", "chunk_bytes") if key in row}
                found["rows"].append(kept | {"seconds": float(model["seconds"])})
    except OSError as error:
        return found | {"missing": f"no predictions: {error.strerror}"}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return found | {"missing": f"no predictions that can be read: {error!r}", "rows": []}
    return found if found["rows"] else found | {"missing": f"it predicts nothing for {gpu or 'a machine without GPU'}"}


def is_of(name, gpu):
    """Is "a10" in "NVIDIA A10", but not in "NVIDIA A100"?"""
    return re.search(rf"\b{re.escape(name)}\b", gpu or "", re.IGNORECASE) is not None


def same_tensor(prediction, row):
    """Of one call on one tensor. The ratio tells recordings apart, which have the same share of zeros."""
    if any(prediction[key] != row.get(key) for key in KEYS) or prediction.get("chunk_bytes") != row.get("chunk_bytes"):
        return False
    if abs(prediction["sparsity"] - row["sparsity"]) > NEAR:
        return False
    if row["pattern"] != "recorded":
        return True
    if "recording" in prediction:
        return prediction["recording"] == row.get("recording")
    return abs(prediction["ratio"] - (row.get("ratio") or 0)) <= SAME_RATIO * prediction["ratio"]


def of_row(report, row):
    """The predicted seconds of a measured row; None where there are none."""
    near = [p for p in report.get("predictions", {}).get("rows", []) if same_tensor(p, row)]
    return min(near, key=lambda p: abs(p["sparsity"] - row["sparsity"]))["seconds"] if near else None


def pairs(report):
    """(measured row, predicted seconds) of all steps, each row once."""
    found = {}
    for step in report["steps"]:
        for row in step["figures"]:
            if isinstance(row, dict) and row.get("median_seconds") and all(key in row for key in (*KEYS, "sparsity")):
                if (seconds := of_row(report, row)) is not None:
                    key = (step["name"], *(row[key] for key in KEYS), row["sparsity"], row.get("recording"),
                           row.get("chunk_bytes"))  # fmt: skip
                    found[key] = row, seconds
    return list(found.values())


def name(row):
    tensor = row.get("recording") or row["pattern"]
    return " ".join([*(str(row[key]) for key in ("operation", "codec", "type")), tensor]) + \
        f" {row['raw_bytes'] / 2**20:g} MiB"


def errors(report):
    """Of the model, in a line; '' where there are no predictions."""
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
