"""Measured rows, predicted ones, and their tables."""

import json
import re
import statistics

MIB = 1 << 20

CODECS = ["zvc", "rle", "bitpack", "exponents", "quantize", "huffman", "zvc+huffman", "zvc+rle+huffman", "deflate",
          "delta+rle+bitpack", "quantize+delta+zvc+huffman"]
FILES = ["h100-256MiB-2026-11-26.json", "h100-80gb-hbm3-2026-11-26.json"]
SAMPLE = {16 * MIB: "12"}  # multiprocessors; 1 MiB has few chunks, and runs on all


def key(row):
    share = "" if row["pattern"] == "recorded" else row["sparsity"]
    return row["operation"], row["codec"], row["type"], row["pattern"], share, row["raw_bytes"]


def wanted(row):
    if not row.get("median_seconds") or row.get("codec") not in CODECS + ["copy"]:
        return False
    if row["raw_bytes"] == 256 * MIB:
        return row["type"] in ("f32", "bf16")
    return row["type"] == "f32" and row["raw_bytes"] in (MIB, 16 * MIB)


def was_seen(row):
    """Whether it was beside a prototype's prediction when constants were set. Of which rows the rate of atomics was
    fitted to there is no record, so that no row is held out in the strict sense."""
    return row["pattern"] == "clustered" and row["sparsity"] == .6 and row["raw_bytes"] > MIB


def measured(folder):
    """The rows that the model is compared with, by key."""
    whole = json.loads((folder / FILES[0]).read_text())["rows"]
    steps = json.loads((folder / FILES[1]).read_text())["steps"]
    whole += [row for step in steps if step["name"] == "sweep" for row in step["figures"]]
    return {key(row): row for row in whole if isinstance(row, dict) and wanted(row)}


def runs(found):
    """(options of tuck-bench, the keys that it gives), a tensor each."""
    groups = {}
    for one in found:
        groups.setdefault(one[2:], []).append(one)
    # Beginning with what has most codecs for its time.
    for (kind, pattern, share, size), keys in sorted(groups.items(), key=lambda g: (g[0][3], g[0][0], str(g[0][2]))):
        codecs = sorted({one[1] for one in keys})
        options = ["--type", kind, "--pattern", pattern, "--size", f"{size // MIB}MiB", "--codec", ",".join(codecs)]
        options += [] if share == "" else ["--sparsity", str(share)]
        options += ["--sample", SAMPLE[size]] if size in SAMPLE else []
        yield options, keys


def short(row):
    """A predicted row without what only a profile needs."""
    model = {name: value for name, value in row["model"].items() if name != "lines"}
    model["waits"] = {name: round(share, 4) for name, share in model["waits"].items()}
    return {**{name: row[name] for name in ("operation", "codec", "type", "pattern", "sparsity", "raw_bytes", "ratio")},
            "model": model}


def beside(row, of):
    """A predicted row with what was measured."""
    model = row["model"]
    waits = {name: round(share, 4) for name, share in model["waits"].items()}
    return {**{name: row[name] for name in ("operation", "codec", "type", "pattern", "sparsity", "raw_bytes", "ratio")},
            "unseen": not was_seen(row), "measured_seconds": of["median_seconds"],
            "measured_R": of["R"], "predicted_seconds": model["seconds"], "predicted_R": model["R"],
            "sampled_processors": model["sampled_processors"], "issue_active": round(model["issue_active"], 4),
            "resident_blocks": model["resident_blocks"], "registers": model["registers"], "waits": waits}


def error(row):
    """Of the predicted time: .1 is a tenth too long."""
    return row["predicted_seconds"] / row["measured_seconds"] - 1


def kendall(pairs):
    """Kendall's tau of two orders."""
    agree = 0
    for i, (a, b) in enumerate(pairs):
        for c, d in pairs[:i]:
            agree += ((a - c) * (b - d) > 0) - ((a - c) * (b - d) < 0)
    return agree / (len(pairs) * (len(pairs) - 1) / 2) if len(pairs) > 1 else 1.


def summary(name, some):
    sizes = [abs(error(row)) for row in some]
    worst = max(some, key=lambda row: abs(error(row)))
    tau = kendall([(row["measured_seconds"], row["predicted_seconds"]) for row in some])
    return (f"| {name} | {len(some)} | {100 * statistics.median(sizes):.0f} % | {100 * max(sizes):.0f} % "
            f"({worst['operation']} {worst['codec']} {worst['type']}) | {tau:.2f} |")


def main_waits(row, most=3):
    shares = sorted(((share, name) for name, share in row["waits"].items() if name not in ("issued", "nothing")),
                    reverse=True)
    return ", ".join(f"{name} {100 * share:.0f}" for share, name in shares[:most])


def sparsity_of(row):
    return "recorded" if row["pattern"] == "recorded" else f"{100 * row['sparsity']:.0f} %"


def tensor_of(row):
    return f"{row['raw_bytes'] // MIB} MiB {row['type']} {sparsity_of(row)}"


def by_codec(all_rows):
    """Markdown: errors in percent, encode / decode, a line a codec and a column a tensor."""
    found = {(row["codec"], tensor_of(row), row["operation"]): row for row in all_rows if row["raw_bytes"] > MIB}
    tensors = sorted({tensor for _, tensor, _ in found}, key=lambda name: (int(name.split()[0]), name))
    lines = ["| error, % | " + " | ".join(tensors) + " |", "|---" * (len(tensors) + 1) + "|"]
    for codec in CODECS:
        cells = []
        for tensor in tensors:
            both = [found.get((codec, tensor, operation)) for operation in ("encode", "decode")]
            cells.append(" / ".join("-" if row is None else f"{100 * error(row):+.0f}" for row in both))
        lines.append(f"| {codec} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def table(all_rows):
    """Markdown: all rows, then the errors."""
    lines = ["| size, type, zeros | operation | codec | | measured us | predicted us | error | warps wait for, % |",
             "|---|---|---|---|---|---|---|---|"]
    order = lambda row: (row["raw_bytes"], row["type"], sparsity_of(row), row["operation"], row["measured_seconds"])
    all_rows = sorted(all_rows, key=order)
    for row in all_rows:
        unseen = "unseen" if row["unseen"] else ""
        lines.append(f"| {tensor_of(row)} | {row['operation']} | "
                     f"{row['codec']} | {unseen} | {1e6 * row['measured_seconds']:.1f} | "
                     f"{1e6 * row['predicted_seconds']:.1f} | {100 * error(row):+.0f} % | {main_waits(row)} |")
    lines += ["", by_codec(all_rows), "", "| rows | number | median error | worst error | Kendall's tau |", "|---|---|---|---|---|"]
    coders = [row for row in all_rows if row["operation"] != "copy"]
    parts = [(f"{size} MiB, {'unseen' if unseen else 'seen'}",
              [row for row in coders if row["raw_bytes"] == size * MIB and row["unseen"] == unseen])
             for size in (1, 16, 256) for unseen in (True, False)]
    parts += [("all unseen", [row for row in coders if row["unseen"]]), ("all", coders)]
    lines += [summary(name, some) for name, some in parts if some]
    return "\n".join(lines)


def today_table(all_rows):
    """Markdown: a line a codec and tensor, encode / decode."""
    pairs = {}
    for row in all_rows:
        name = (row["raw_bytes"] // MIB, row["type"], row["pattern"], row["codec"])
        pairs.setdefault(name, {})[row["operation"]] = row
    lines = ["| tensor | codec | ratio | GB/s | R | issue active | resident blocks | warps wait for, % |",
             "|---|---|---|---|---|---|---|---|"]
    for (size, kind, pattern, codec), both in pairs.items():
        if codec == "copy":
            continue
        of = [both[operation] for operation in ("encode", "decode")]
        join = lambda text: " / ".join(text(row) for row in of)
        what = "dense" if pattern == "recorded" else "60 % zeros"
        lines.append(f"| {size} MiB {kind}, {what} | {codec} | {of[0]['ratio']:.2f} | "
                     + join(lambda row: f"{row['model']['gb_per_s']:.0f}") + " | "
                     + join(lambda row: f"{row['model']['R']:.2f}") + " | "
                     + join(lambda row: f"{row['model']['issue_active']:.2f}") + " | "
                     + join(lambda row: f"{row['model']['resident_blocks']}") + " | "
                     + join(lambda row: main_waits(row["model"], 2)) + " |")
    return "\n".join(lines)


def keep_measured_codecs(path):
    """Cuts a codec list to CODECS for f32 and bf16."""
    text = path.read_text()
    text = text.replace("using program_codecs =", "template <template <class> class Codec> using over_two = "
                        "codec_list<Codec<untyped<2>>, Codec<untyped<4>>>;\nusing program_codecs =")
    begin = text.index("joined_lists<", text.index("using program_codecs ="))
    end = text.index(">::type;", begin)
    kept = ["over_two<%s>" % name for name in
            ("zvc", "rle", "deflate", "huffman", "bitpack", "zvc_huffman", "zvc_rle_huffman", "delta_rle_bitpack")]
    kept += ["codec_list<%s<bf16>, %s<float>>" % (name, name) for name in
             ("exponents", "quantize", "quantize_delta_huffman")]
    path.write_text(text[:begin] + "joined_lists<" + ", ".join(kept) + text[end:])
    assert re.search(r"over_two<zvc>", path.read_text())
