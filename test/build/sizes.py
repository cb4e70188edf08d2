#!/usr/bin/env python3
"""How large the sources are. Headers, functions, doc comments and lines have a limit each.

What is over a limit needs a reason here; a reason that is needed no longer is an error too."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ["include", "bench", "examples", "test"]
SUFFIXES = {".hpp", ".cuh", ".cpp", ".cu", ".h"}
MOST_COLUMNS = 120
MOST_HEADER_LINES = 350  # of code
MOST_FUNCTION_LINES = 80
MOST_DOC_LINES = 15  # of a doc comment, which begin with ///

LONG_HEADERS = {}

# By file and name.
LONG_FUNCTIONS = {
    ("test/cudasim/tests/planted.cpp", "scenarios"): "a table of short lambdas",
}


def blanked(text):
    """The same with comments, literals and preprocessor lines as blanks, each character where it was."""
    pattern = re.compile(
        r"//[^\n]*|/\*.*?\*/"  # comments
        r"|(?:\b(?:u8|[uUL])?R)\"(?P<raw>[^(\s]*)\(.*?\)(?P=raw)\""
        r"|\"(?:\\.|[^\"\\\n])*\"|(?<![0-9A-Za-z])'(?:\\.|[^'\\\n])+'"
        r"|(?<=\n)[ \t]*#(?:\\\n|//[^\n]*|/\*.*?\*/|[^\n])*",
        re.DOTALL)
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), "\n" + text)[1:]


def without_comments(text):
    keep = r"(?:\b(?:u8|[uUL])?R)\"(?P<raw>[^(\s]*)\(.*?\)(?P=raw)\"|\"(?:\\.|[^\"\\\n])*\"|(?<![0-9A-Za-z])'(?:\\.|[^'\\\n])+'"
    return re.sub(rf"(?P<keep>{keep})|//[^\n]*|/\*.*?\*/",
                  lambda m: m[0] if m["keep"] else re.sub(r"[^\n]", " ", m[0]), text, flags=re.DOTALL)


NO_NAME = {"alignas", "decltype", "explicit", "noexcept", "requires", "sizeof", "__attribute__", "__launch_bounds__"}
SCOPE = re.compile(r"(?:inline\s+)?namespace\b|(?:class|struct|union|enum)\b|extern\s*$")


def name_of(head):
    """The function's, from what stands in front of its body; None where that is none's."""
    if macro := re.match(r"\s*([A-Z][A-Z_]+\([^()]*\))\s*$", head):  # TEST(suite, name)
        return re.sub(r"\s+", " ", macro[1])
    if operator := re.search(r"\boperator\s*(\(\s*\)|[^\s\w(]+|[\w:]+(?:\s*[*&])?)\s*\(", head):
        return "operator" + (" " if operator[1][0].isalpha() else "") + operator[1]
    if variable := re.search(r"(\w+)\s*=\s*\[", head):  # a lambda
        return variable[1]
    before = None
    while head != before:  # what stands in template arguments
        before, head = head, re.sub(r"<[^<>()]*(?:\([^<>()]*\)[^<>()]*)*>", "", head)
    for found in re.finditer(r"([~\w]+)\s*\(", head):
        if found[1] not in NO_NAME:
            return found[1]
    return None


def without_templates(head):
    """Without `template <...>`, whose brackets are matched by counting."""
    head = head.strip()
    while head.startswith("template"):
        depth = 0
        for i, c in enumerate(head):
            depth += (c == "<") - (c == ">" and head[i - 1] != "-")
            if c == ">" and depth == 0:
                head = head[i + 1:].strip()
                break
        else:
            return head
    return head


def functions(text):
    """(name, first line, lines) of each function with a body, those in classes too; lambdas belong to their function.
    A body's brace follows a blank, as clang-format has it; that of an initialiser does not, or = or the like."""
    text = blanked(text)
    found, open_braces, parentheses, begin = [], [], 0, 0
    for at, c in enumerate(text):
        if c == "(":
            parentheses += 1
        elif c == ")":
            parentheses -= 1
        elif c == ";" and parentheses == 0:
            begin = at + 1
        elif c == "{":
            head = text[begin:at]
            outer = open_braces[-1][0] if open_braces else "scope"
            kind = "inner"
            if outer == "scope" and parentheses == 0:
                bare = without_templates(head)
                if SCOPE.match(bare) and not re.search(r"\)\s*$", bare):
                    kind = "scope"
                elif re.search(r"\s$", head) and not re.search(r"(?:[=,(]|\breturn|\brequires)\s*$", head):
                    if name := name_of(bare):
                        kind = "function"
                        first = begin + len(head) - len(head.lstrip())
            open_braces.append((kind, parentheses, begin, (name, first) if kind == "function" else None))
            if kind != "inner":
                parentheses = 0
                begin = at + 1
        elif c == "}":
            if not open_braces:
                raise ValueError(f"line {text.count(chr(10), 0, at) + 1}: one }} too many")
            kind, parentheses, begin, function = open_braces.pop()
            if function is not None:
                first = text.count("\n", 0, function[1]) + 1
                found.append((function[0], first, text.count("\n", 0, at) + 2 - first))
            if kind != "inner":
                begin = at + 1
        elif c == ":" and text[:at].endswith(("public", "private", "protected")):
            begin = at + 1
    if open_braces:
        raise ValueError("a { without its }")
    return found


def doc_comments(lines):
    """(lines, first line) of each doc comment."""
    length = 0
    for i, line in enumerate(lines + [""], 1):
        if line.lstrip().startswith("///"):
            length += 1
        elif length:
            yield length, i - length
            length = 0


SAMPLE = """
#define BRACE {
namespace a::inline b {
// void comment() {
struct x : y<int> {
  x() = default;
  explicit x(int n) noexcept : n_{n}, m_(2) {}
  template <class T, class U = std::vector<T>>
    requires(sizeof(T) > 1)
  static T twice(T t, options o = {}) {
    const auto f = [&](int i) {
      return i;
    };
    return f(1) + T{2} + '{' + 1'000;
  }
  bool operator()(int) const {
    return "}";
  }
  int n_ = 0, m_{1};
};
const char* const text = R"(void raw() {)";
constexpr int table[] = {f(1), {2}};
__global__ void __launch_bounds__(128, 4) kernel(int) {

}
std::map<int, std::function<void()>> all(bool b = 1 < 2) {
}
TEST(suite, name) {
  for (;;) {
  }
}
}
"""
SAMPLES_FUNCTIONS = [("x", 7, 1), ("twice", 8, 8), ("operator()", 16, 3), ("kernel", 23, 3), ("all", 26, 2),
                     ("TEST(suite, name)", 28, 4)]


def check_the_checker():
    if functions(SAMPLE) != SAMPLES_FUNCTIONS:
        sys.exit(f"the function finder finds in the sample {functions(SAMPLE)}")
    for broken in ("void f() {", "void f() {}}"):
        try:
            functions(broken)
        except ValueError:
            continue
        sys.exit(f"the function finder takes {broken}")
    if list(doc_comments(["/// a", "  /// b", "int c;  ///< d", "// e", "/// f"])) != [(2, 1), (1, 5)]:
        sys.exit("the finder of doc comments is wrong")


def main():
    check_the_checker()
    wrong = []
    long_headers, long_functions = set(), set()
    for folder in FOLDERS:
        files = sorted(f for f in (ROOT / folder).rglob("*") if f.suffix in SUFFIXES)
        if not files:
            sys.exit(f"there are no sources in {folder}")
        all_lines, code_lines, all_functions = 0, 0, []
        sizes, comments = [], []
        for file in files:
            name = file.relative_to(ROOT).as_posix()
            text = file.read_text(encoding="utf-8")
            lines = text.splitlines()
            all_lines += len(lines)
            code = sum(1 for line in without_comments(text).splitlines() if line.strip())
            code_lines += code
            sizes.append((code, name))
            if folder == "include" and code > MOST_HEADER_LINES:
                long_headers.add(name)
            comments += [(length, f"{name}:{first}") for length, first in doc_comments(lines)]
            wrong += [f"{name}:{i}: {len(line)} columns" for i, line in enumerate(lines, 1) if len(line) > MOST_COLUMNS]
            try:
                all_functions += [(length, what, name, first) for what, first, length in functions(text)]
            except ValueError as error:
                wrong.append(f"{name}: {error}")
        over = sorted((s for s in sizes if s[0] > MOST_HEADER_LINES), reverse=True)
        print(f"{folder}: {len(files)} files, {all_lines} lines, {code_lines} of them code, {len(all_functions)} functions")
        print(f"  over {MOST_HEADER_LINES} lines of code: {', '.join(f'{name} {lines}' for lines, name in over) or 'none'}")
        all_functions.sort(reverse=True)
        print("  longest functions:")
        for length, what, name, first in all_functions[: 10 if folder == "include" else 3]:
            print(f"    {length:4} lines  {what}  {name}:{first}")
        if folder == "include":
            comments.sort(reverse=True)
            print("  longest doc comments: " + ", ".join(f"{where} {length}" for length, where in comments[:20]))
            wrong += [f"{where}: a doc comment of {length} lines, over {MOST_DOC_LINES}"
                      for length, where in comments if length > MOST_DOC_LINES]
        long_functions |= {(name, what) for length, what, name, _ in all_functions if length > MOST_FUNCTION_LINES}

    for what, of, found, listed, most in (
            ("header", " of code", long_headers, LONG_HEADERS, MOST_HEADER_LINES),
            ("function", "", long_functions, LONG_FUNCTIONS, MOST_FUNCTION_LINES)):
        wrong += [f"{one}: a {what} of over {most} lines{of}, without a reason in {Path(__file__).name}"
                  for one in sorted(found - set(listed))]
        wrong += [f"{one}: listed as a long {what}, which it is not" for one in sorted(set(listed) - found)]
    for line in wrong:
        print(f"error: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
