#!python
"""Runs the program inside the package: the script `stoker` of a wheel."""

import os
import sys
from importlib.machinery import PathFinder

# Imports nothing of the package, which takes longer than most commands.
found = PathFinder.find_spec("stoker")
if found is None or found.origin is None:
    sys.exit(f"stoker: {sys.executable} has no package of this name: pip install stoker")
program = found.origin.removesuffix("__init__.py") + "bin/stoker"
# For the parts of the command that are written in Python.
os.environ.setdefault("STOKER_PYTHON", sys.executable)
os.execv(program, ["stoker", *sys.argv[1:]])
