# SPDX-License-Identifier: Apache-2.0
"""Runs the program tuck: `python -m tuck encode ...`. The commands of tuck.streams are Python's: publish, pull, fold,
and verify of a folder of versions."""

import os
import sys

command = sys.argv[1:2]
if command == ["verify"] and any(map(os.path.isdir, sys.argv[2:])):
    from .streams import versions

    command = ["verify versions"] if any(os.path.isdir(a) and versions(a) for a in sys.argv[2:]) else command
if command in (["publish"], ["pull"], ["fold"], ["verify versions"]):
    from .streams_program import main

    sys.exit(main(sys.argv[1:]))
program = os.path.join(os.path.dirname(__file__), "bin", "tuck")
os.execv(program, ["tuck", *sys.argv[1:]])
