#!/usr/bin/env bash
# make_sdist.sh PYTHON FOLDER: builds the source distribution of this checkout in FOLDER, where it is the
# only one afterwards.
set -euo pipefail

python=$1 folder=$(realpath -m "$2")
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
mkdir -p "$folder"
rm -f "$folder"/*.tar.gz
cd "$source"
# For `stoker --version` of what is built from it.
trap 'rm -f REVISION' EXIT
git describe --always --abbrev=12 --exclude='*' --dirty=+ >REVISION 2>/dev/null || echo unknown >REVISION
# What `python -m build --sdist` does, without an environment of its own.
"$python" -c 'import sys
from scikit_build_core.build import build_sdist
print(sys.argv[1] + "/" + build_sdist(sys.argv[1]))' "$folder" | tail -n 1
