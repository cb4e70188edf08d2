"""What bounds R: the instructions of kernels that were counted, in what tuck-bench --where ptx wrote."""

import json
from pathlib import Path

NEAR = 0.05  # of a share of zeros: a count so far away stands for it
KEPT = ("operation", "codec", "type", "pattern", "sparsity")


def read(path, gpu):
    """The bounds on a GPU of that name, and from which file; "missing" says why there are none."""
    path = Path(path)
    found = {"counts": path.name, "missing": "", "rows": []}
    if not gpu:
        return found | {"missing": "there is no GPU"}
    try:
        rows = [row for row in json.loads(path.read_text(encoding="utf-8"))["rows"] if row["bound_R"]]
        for row in rows:
            bound = next((of for name, of in row["bound_R"].items() if name in gpu), None)
            if bound:
                found["rows"].append({key: row[key] for key in KEPT} | {"R": bound["R"], "wall": bound["wall"]})
    except OSError as error:
        return found | {"missing": f"no counts: {error.strerror}"}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return found | {"missing": f"no counts that can be read: {error!r}", "rows": []}
    return found if found["rows"] else found | {"missing": f"it has no bounds for {gpu}"}


def of_row(bounds, row):
    """The bound on a measured row, at the nearest share of zeros that was counted; None where none is near."""
    def far(bound):
        return (bound["pattern"] != row.get("pattern"), abs(bound["sparsity"] - row["sparsity"]))

    near = [b for b in bounds["rows"] if all(b[key] == row[key] for key in ("operation", "codec", "type"))
            and abs(b["sparsity"] - row["sparsity"]) <= NEAR]  # fmt: skip
    return min(near, key=far)["R"] if near else None


def line(bounds):
    """What the column "bound" is, or why it is empty."""
    if bounds["missing"]:
        return f"No bound stands beside any R ({bounds['counts']}): {bounds['missing']}\n"
    return (f"Bound: what R can be at most by what kernels were counted to execute ({bounds['counts']}); where it is "
            "instructions that bound it, a good kernel reaches 70 % of it.\n")  # fmt: skip
