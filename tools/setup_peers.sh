#!/usr/bin/env bash
# setup_peers.sh PYTHON: creates the environment build/peers with the real packages that our formats are
# tested against and our figures compared with. Created once, and again when its list has changed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

peers=build/peers requirements=tests/interop/peers/requirements.txt

cmp -s "$requirements" "$peers/installed.txt" && exit 0
echo "peers: installing PyTorch's CPU build and some forty packages into $peers" >&2
rm -rf "$peers"
"$1" -m venv "$peers"
"$peers/bin/pip" install --quiet --no-deps --requirement "$requirements" \
  || { echo "peers: cannot install; they need a package index with $requirements" >&2; exit 1; }
cp "$requirements" "$peers/installed.txt"
