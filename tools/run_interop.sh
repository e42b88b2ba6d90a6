#!/usr/bin/env bash
# run_interop.sh PYTHON TOOLS: installs the real packages into build/peers, once, and runs the tests
# that read their files and let them read ours. TOOLS holds format_tool, dataset_tool, tokens_tool.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=$1 tools=$(realpath "$2")
peers=build/peers requirements=tests/interop/peers/requirements.txt

if ! cmp -s "$requirements" "$peers/installed.txt"; then
  echo "interop: installing the peers (PyTorch's CPU build and some forty packages) into $peers"
  rm -rf "$peers"
  "$python" -m venv "$peers"
  "$peers/bin/pip" install --quiet --no-deps --requirement "$requirements" \
    || { echo "interop: cannot install the peers; they need a package index with $requirements" >&2; exit 1; }
  cp "$requirements" "$peers/installed.txt"
fi

STOKER_FORMAT_TOOL=$tools/format_tool STOKER_DATASET_TOOL=$tools/dataset_tool \
  STOKER_TOKENS_TOOL=$tools/tokens_tool \
  "$peers/bin/python" -m pytest -q -p no:cacheprovider -c /dev/null --rootdir tests/interop -ra tests/interop
