#!/usr/bin/env python3
"""Plants faults in a copy of the tree, to see whether tests find them.

plant_faults.py ROOT SEED COUNT [--leave N,N...]

Draws COUNT lines of code in each of four areas and changes each by one rule: a comparison, a constant, the order of two
arguments or operands, or a call that is left out. All faults are in one build: the variable TUCK_FAULT of the
environment chooses one by its number, and without it the code is right. Prints the list: number, area, file, rule, and
the line before and after. ROOT is changed: give it a clone. --leave: numbers that are drawn but not planted, such as
those that do not compile. Compile with `-include ROOT/build/fault.hpp`; run the tests with TUCK_FAULT=1, and so on. The
list and the numbers are the same for the same seed and sources.
"""

import pathlib
import random
import re
import sys

areas = {
    "codecs": ["include/tuck/codec"],
    "frames": ["include/tuck/frame"],
    "swapping": ["include/tuck/swap", "include/tuck/memory"],
    "package": ["examples/python"],
}
never = re.compile(
    r"^\s*(//|/\*|\*|#|\"|case |template|using |requires|static_assert|friend|public|private|else|import |from |assert)"
    r"|constexpr|noexcept\(|operator|\bdef |__launch|TUCK_ASSERT|= default|lambda"
)
header = """#pragma once
#include <stdlib.h>
inline int tuck_chosen_fault() {
  static const int chosen = getenv("TUCK_FAULT") == nullptr ? 0 : atoi(getenv("TUCK_FAULT"));
  return chosen;
}
constexpr bool tuck_fault(int number) { return !__builtin_is_constant_evaluated() && tuck_chosen_fault() == number; }
"""
opposite = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}


def closing(text, at):
    """The index of the bracket that closes the one at `at`, or -1."""
    depth = 0
    for i in range(at, len(text)):
        depth += text[i] in "([{"
        depth -= text[i] in ")]}"
        if depth == 0:
            return i
    return -1


def arguments(text):
    """Splits at commas outside of brackets."""
    parts, depth, begin = [], 0, 0
    for i, c in enumerate(text):
        depth += c in "([{<" and text[i : i + 2] not in ("< ", "<=")
        depth -= c in ")]}>" and text[i - 1 : i + 1] not in (" >", "->") and text[i : i + 2] != ">="
        if c == "," and depth == 0:
            parts.append(text[begin:i])
            begin = i + 1
    return parts + [text[begin:]]


def changed(expression, rule, draw):
    """The expression with one fault of this rule, or None."""
    if '"' in expression or "[&" in expression or "[=" in expression or "{" in expression:
        return None
    if rule == "comparison":
        found = list(re.finditer(r" (<|<=|>|>=|==|!=) ", expression))
        if found:
            m = draw.choice(found)
            return expression[: m.start(1)] + opposite[m[1]] + expression[m.end(1) :]
    if rule == "constant":
        found = list(re.finditer(r"(?<![\w.<'])(\d+)(?![\w.>'])", expression))
        if found:
            m = draw.choice(found)
            return expression[: m.start(1)] + str(int(m[1]) + 1) + expression[m.end(1) :]
    if rule == "order":
        found = []
        for m in re.finditer(r"\w\(", expression):
            end = closing(expression, m.end() - 1)
            parts = arguments(expression[m.end() : end])
            if end > 0 and len(parts) == 2 and parts[0].strip() != parts[1].strip():
                found.append(expression[: m.end()] + parts[1].strip() + ", " + parts[0].strip() + expression[end:])
        for m in re.finditer(r"([\w.]+) - ([\w.]+)", expression):
            found.append(expression[: m.start()] + f"{m[2]} - {m[1]}" + expression[m.end() :])
        if found:
            return draw.choice(found)
    return None


def faulty(line, number, rule, draw, python):
    """The line with a choice between itself and a fault, and the fault alone; or None."""
    chosen = f'__import__("os").environ.get("TUCK_FAULT") == "{number}"' if python else f"tuck_fault({number})"
    if never.search(line) or line.count("(") != line.count(")") or line.count("{") > line.count("}") + 1:
        return None

    def choice(begin, end):
        other = changed(line[begin:end], rule, draw)
        if other is None or other == line[begin:end]:
            return None
        both = f"(({other}) if {chosen} else ({line[begin:end]}))" if python else f"({chosen} ? ({other}) : ({line[begin:end]}))"
        return line[:begin] + both + line[end:], (line[:begin] + other + line[end:]).strip()

    if python:
        if m := re.match(r"\s*(?:el)?if (.*):$|\s*return (.+?)(?:  #.*)?$|\s*\w+ = (.+?)(?:  #.*)?$", line):
            group = next(i for i in (1, 2, 3) if m[i])
            if rule != "call":
                return choice(m.start(group), m.end(group))
        elif rule == "call" and (m := re.match(r"(\s*)([\w.]+\(.*\))$", line)):
            return f"{m[1]}None if {chosen} else {m[2]}", f"without {m[2]}"
        return None
    if rule == "call":
        m = re.match(r"(\s*)(?:if \([^()]*\) )?((?:[\w.:]|->)+\([^{}]*\);)( *//.*)?$", line)
        if m and "return" not in line:
            return line[: m.start(2)] + f"if (!{chosen}) " + line[m.start(2) :], f"without {m[2]}"
        return None
    if m := re.match(r"\s*(?:\} else )?(?:if|while) \(", line):
        begin = m.end()
        end = closing(line, begin - 1)
        return choice(begin, end) if end > 0 and ";" not in line[begin:end] and "=" not in re.sub("[=!<>]=", "", line[begin:end]) else None
    if m := re.match(r"\s*for \([^;]*; ([^;]*); [^;]*\)", line):
        return choice(m.start(1), m.end(1))
    if m := re.match(r"\s*return (.+);", line):
        return choice(m.start(1), m.end(1))
    if m := re.match(r"\s*(?:const )?(?:[\w:.\[\]]+ )?[\w.\[\]]+ [+*-]?= (.+);(?: *//.*)?$", line):
        return choice(m.start(1), m.end(1))
    return None


def main():
    root, seed, count = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    left = {int(n) for n in sys.argv[5].split(",")} if "--leave" in sys.argv else set()
    number = 0
    for area, folders in areas.items():
        draw = random.Random(f"{seed} {area}")
        places = []
        for folder in folders:
            for path in sorted((root / folder).rglob("*")):
                if path.suffix in (".hpp", ".cuh", ".cpp", ".cu", ".py"):
                    places += [(path, i) for i in range(len(path.read_text().split("\n")))]
        draw.shuffle(places)
        planted = 0
        rules = ["comparison", "constant", "order", "call"]
        for path, at in places:
            if planted == count:
                break
            lines = path.read_text().split("\n")
            before = lines[at - 1] if at else ""
            if path.suffix != ".py" and not re.search(r"[;{}:]\s*(//.*)?$|^\s*//", before):
                continue  # within a longer statement
            rule = rules[planted % 4]
            made = faulty(lines[at], number + 1, rule, draw, path.suffix == ".py")
            if made is None or "tuck_fault" in lines[at] or "TUCK_FAULT" in lines[at]:
                continue
            number += 1
            if number in left:
                continue
            planted += 1
            print(f"{number}\t{area}\t{path.relative_to(root)}\t{rule}\t{lines[at].strip()}\t{made[1]}")
            lines[at] = made[0]
            path.write_text("\n".join(lines))
    (root / "build").mkdir(exist_ok=True)
    (root / "build/fault.hpp").write_text(header)


main()
