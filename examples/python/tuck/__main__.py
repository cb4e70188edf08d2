"""Runs the program tuck: `python -m tuck encode ...`."""

import os
import sys

program = os.path.join(os.path.dirname(__file__), "bin", "tuck")
os.execv(program, ["tuck", *sys.argv[1:]])
