"""How much there is to compile: what the front headers include, and the functions that a call instantiates. Counts in
place of seconds, so that neither the machine nor its load matters. `header_costs.py INCLUDE COMPILER...`: a count that
is more than a quarter above its budget fails. The budgets are of g++ 12; raise one only with a reason."""

import subprocess
import sys

include, *compiler = sys.argv[1:]
# The standard library's headers that a program mostly has anyway.
reference = "algorithm atomic bit cmath cstring functional memory string thread vector".split()
# Lines after the preprocessor, of 1,000 of the reference.
lines = {"tuck/host.hpp": 1580, "tuck/model.hpp": 804}
call = """#include <tuck/{header}.hpp>
tuck::outcome there_and_back(tuck::span<const float> in, tuck::bytes frame, tuck::span<float> out) {{
  const auto written = tuck::host::encode(tuck::{codec}<float>{{}}, in, frame);
  return written ? tuck::host::decode(tuck::{codec}<float>{{}}, frame, out) : written;
}}
"""
# Functions, and instructions of their machine code, both not optimised.
calls = {
    ("host", "zvc"): (492, 14750),
    ("host", "zvc_rle_huffman"): (954, 31000),
    ("compiled", "zvc"): (447, 12100),
    ("compiled", "zvc_rle_huffman"): (555, 15450),
}


def output(flags, source):
    return subprocess.run([*compiler, "-std=c++20", "-I" + include, *flags, "-x", "c++", "-o", "-", "-"], text=True,
                          input=source, stdout=subprocess.PIPE, check=True).stdout


def preprocessed(headers):
    text = output(["-E", "-P"], "".join(f"#include <{header}>\n" for header in headers))
    return text.count("\n")


def instructions_of(code):
    return sum(line.startswith("\t") and not line.startswith("\t.") for line in code.split("\n"))


failed = False


def compare(what, found, budget):
    global failed
    fails = found > 1.25 * budget
    failed |= fails
    print(f"{what}: {found}, budget {budget}{'  TOO MANY' if fails else ''}")


of_reference = preprocessed(reference)
for header, budget in lines.items():
    compare(f"{header}, lines for 1,000 of the standard library", 1000 * preprocessed([header]) // of_reference, budget)
for (header, codec), budget in calls.items():
    code = output(["-O0", "-S"], call.format(header=header, codec=codec))
    compare(f"{header}, {codec}, functions", code.count("@function"), budget[0])
    compare(f"{header}, {codec}, instructions", instructions_of(code), budget[1])
# What optimising makes of the largest call.
optimised = output(["-O2", "-S"], call.format(header="host", codec="zvc_rle_huffman"))
compare("host, zvc_rle_huffman, instructions at -O2", instructions_of(optimised), 24600)
sys.exit(failed)
