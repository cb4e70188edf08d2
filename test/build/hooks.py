"""The table of names in codec/concept.hpp, beside what the headers ask codecs, transforms and their blocks for: the
concepts, the contracts of block.cuh, and each other `requires`. Prints how many names there are."""
import re
import sys
from pathlib import Path

KINDS = ["codec", "adaptive codec", "splitter", "transform", "block codec", "... of splitters", "block transform"]


def table(text):
    """{kind: names} of the lines `//   kind   name, name, ...   file`."""
    rows = {}
    for line in text.split("These are all members of each kind")[1].split("#pragma once")[0].splitlines():
        if found := re.match(r"//   (\S+(?: \S+)*?)  +(\w+(?:, \w+)*),?(?:  |$)", line):
            kind, rows[found[1]] = found[1], set(found[2].split(", "))
        elif rows and (more := re.match(r"//  {10,}(\w+(?:, \w+)*)$", line)):
            rows[kind] |= set(more[1].split(", "))
    return rows


def balanced(text, begin):
    """The end of the bracket that opens at `begin`."""
    depth = 0
    for at in range(begin, len(text)):
        depth += (text[at] in "({") - (text[at] in ")}")
        if depth == 0:
            return at + 1
    sys.exit("unbalanced")


def members(text, ours):
    """The names that `text` asks of types that `ours` matches, and of variables that it declares as such."""
    asked = set(re.findall(rf"\b{ours}::(\w+)", text))
    if variables := re.findall(rf"\b{ours}& (\w+)", text):
        asked |= set(re.findall(rf"\b(?:{'|'.join(variables)})\.(\w+)", text))
    return asked


def requirements(text):
    """Each `requires`, with its brackets or to the end of its line."""
    for found in re.finditer(r"\brequires\b\s*", text):
        end = found.end()
        while end < len(text) and text[end] in "({":
            end = balanced(text, end)
            end += len(text[end:]) - len(text[end:].lstrip(" "))
        yield text[found.start():max(end, text.find("\n", found.end()))]


def contracts(text):
    """What block.cuh's comments declare, of each kind in turn: `//   type name(...)`, `//   struct name` and so on."""
    parts = re.split(r"The block codec of a splitter also has|The contract of block transforms", text)
    declared = r"^//   (?:struct |static constexpr \w+ |[\w:]+\*? +)(\w+)"
    return [set(re.findall(declared, part, re.M)) - {"block_codec", "block_transform"} for part in parts]


def main(include):
    wrong = []

    def compare(where, listed, asked):
        wrong.extend(f"{where}: {name} is in the table, and not asked for" for name in sorted(listed - asked))
        wrong.extend(f"{where}: {name} is asked for, and not in the table" for name in sorted(asked - listed))

    concepts = (include / "tuck/codec/concept.hpp").read_text()
    rows = table(concepts)
    if list(rows) != KINDS:
        sys.exit(f"the table has {', '.join(rows)}, not {', '.join(KINDS)}")
    code = re.sub(r"//.*", "", concepts)
    for kind in KINDS[:4]:
        whole = re.search(rf"template <class (\w)>\s*concept {kind.replace(' ', '_')} =(.*?)\n    }};\n", code, re.S)
        of_codecs = {"value_type"} - rows[kind]  # which a splitter has as a codec
        compare(kind, rows[kind] - {"lossy"}, members(whole[2], whole[1]) - of_codecs)
    blocks = contracts((include / "tuck/codec/block.cuh").read_text())
    for kind, declared in zip(KINDS[4:], blocks):
        compare(kind, rows[kind], declared)

    every = set().union(*rows.values())
    seen = 0
    for room in ["codec", "frame"]:
        for path in sorted((include / "tuck" / room).rglob("*.*")):
            text = re.sub(r"//.*", "", path.read_text())
            for clause in requirements(text):
                seen += 1
                for name in sorted(members(clause, r"(?!Chain|Job)[A-Z]\w*") - every):
                    wrong.append(f"{path.name}: {name} is asked for, and not in the table")
    count = sum(len(names) for names in rows.values())
    print("\n".join(wrong + [f"{count} names, {seen} requirements"]))
    return 1 if wrong or seen < 10 else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
