"""The customisation points: members that the headers use of a type that is a template parameter, and class templates
that are specialised. The lists in codec/concept.hpp must name them all, and nothing else; block.cuh describes those of
block codecs and block transforms.

A list gives a kind, what stands for it in the code, and its members."""
import re
import sys
from collections import defaultdict
from pathlib import Path

CLOSED = {"stage_storage", "stage_tuple", "strip_coder", "any_codec", "delta_encode_blocks_of", "codec_by_width", "chain_for", "passed_on"}  # specialised, but for no type
CONTRACTS = ["block codec", "block codec of a splitter", "block transform"]  # in the order of block.cuh
SPECIALISED = r"^(?:template <.*> )?(?:(?:class|struct) (\w+)<|inline constexpr \w+ (?!is_)(\w+)<(?![A-Z]))"
NESTED = r"(?:[^<>()]|\((?:[^()]|\([^()]*\))*\)|<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>)*"  # in the brackets of a template

CALL = rf"(?:<{NESTED}>\(\))?"  # of a function template, such as stage<0>()


def lists(text):
    """{kind: (stand-ins, members)} of each list, `//   kind (stand-in, ...)   member, member,` and lines that go on."""
    found = re.findall(r"^//   ([^\s(][^()\n]*?) \((\w+(?:, \w+)*)\)(?: +((?:\w+, ?(?:\n//  +)?)*\w+))?$", text, re.M)
    return {kind: (set(of.split(", ")), set(re.findall(r"\w+", re.sub("//", "", names)))) for kind, of, names in found}


def contracts(text):
    """What block.cuh's comments declare, of each kind in turn: `//   type name(...)`, `//   struct name` and so on."""
    parts = re.split(r"The block codec of a splitter also has|The contract of block transforms", text)
    declared = r"^//   (?:struct |static constexpr \w+ |[\w:]+\*? +)(\w+)"
    return [set(re.findall(declared, part, re.M)) - {"block_codec", "block_transform"} for part in parts]


def declarations(text):
    """(template parameters, first line, lines) of each template, generic lambdas too."""
    for head in re.finditer(rf"(?:\btemplate |\])<({NESTED})>", text):
        parameters = head[1]
        while parameters != (parameters := re.sub(r"<[^<>]*>", "", parameters)):
            pass
        depth, end = 0, []
        for line in text[head.end():].split("\n"):
            end.append(line)
            depth += sum(map(line.count, "({[")) - sum(map(line.count, ")}]"))
            ends = line.rstrip().endswith((";", "}")) and not line.lstrip().startswith("requires")
            if depth < 0 or depth == 0 and ends:
                break
        yield re.findall(r"([A-Z]\w*)\s*(?:=[^,]*)?(?:,|$)", parameters), text.count("\n", 0, head.end()) + 1, end


def uses(text, templates):
    """(stand-in, member, line, whether a concept asks) of each use of a member of a template parameter, or of a type
    made of `templates`: by the type itself, an alias of it or a variable of it."""
    for parameters, first, lines in declarations(text):
        whole = "\n".join(lines)
        asks = whole.lstrip().startswith("concept")
        names = {name: name for name in [*parameters, *templates]}
        alias = rf"using (\w+) =\s*(?:typename )?(?:\w+::)?(?:template )?({'|'.join(names)})\b(?=[;<])"
        names.update(re.findall(alias, whole))
        for name, of in names.items():
            typed = rf"\b{name}(?:<{NESTED}>)?"
            variables = set(re.findall(rf"{typed}(?: const)?[&*.]* ([a-z]\w*)\s*[;,)=({{]", whole)) - {"const"}
            member = rf"{typed}(?:\(\)\.|::)(?:template )?(\w+)"
            if variables:
                member += rf"|(?<![\w.>])(?:{'|'.join(variables)}){CALL}(?:\.|->)(?:template )?(\w+)"
            for i, line in enumerate(lines):
                yield from ((of, found[1] or found[2], first + i, asks) for found in re.finditer(member, line))


def main(include):
    rows = lists((include / "tuck/codec/concept.hpp").read_text())
    listed, used, specialised, wrong = defaultdict(set), defaultdict(set), set(), []
    for of, members in rows.values():
        for name in of:
            listed[name] |= members
    every = ""
    for path in sorted(include.rglob("*.*")):
        text = re.sub(r"//.*|\"(?:\\.|[^\"\\\n])*\"", "", path.read_text())
        where = path.relative_to(include)
        every += text
        for of, member, line, asks in uses(text, [name for name in listed if name[0].islower()]):
            if not asks:
                used[of].add(member)
            if member not in listed[of] | {of, "operator"}:
                wrong.append(f"{where}:{line}: {of} has to have {member}, which no list of concept.hpp names")
        for found in re.finditer(SPECIALISED, text, re.M):
            name = found[1] or found[2]
            specialised.add(name)
            if name not in listed.keys() | CLOSED:
                line = text.count("\n", 0, found.start()) + 1
                wrong.append(f"{where}:{line}: {name} is specialised, and no list of concept.hpp names it")
    for kind, (of, members) in rows.items():
        for member in sorted(members - set().union(*(used[name] for name in of))):
            wrong.append(f"concept.hpp: {member} of {kind}: nothing uses it")
        wrong += [f"concept.hpp: {name} of {kind} stands for nothing" for name in sorted(of)
                  if not re.search(rf"\b{name}\b", every)]
    wrong += [f"hooks.py: {name} is not specialised" for name in sorted(CLOSED - specialised)]
    declared = contracts((include / "tuck/codec/block.cuh").read_text())
    for kind, members in zip(CONTRACTS, declared):
        wrong += [f"block.cuh: {name} of {kind} is not in both lists" for name in sorted(members ^ rows[kind][1])]
    count = sum(len(members) for _, members in rows.values())
    print("\n".join(sorted(set(wrong)) + [f"{len(rows)} kinds, {count} members"]))
    return 1 if wrong or len(rows) < 20 else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
