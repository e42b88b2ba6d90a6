#!/usr/bin/env bash
# run_interop.sh PYTHON TOOLS: runs the tests that read files of the real packages, in build/peers, let
# those read ours, let real frameworks use the Python package, and build and run examples/cpp/libtorch.
# TOOLS contains format_tool, dataset_tool, safetensors_tool, tokens_tool.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=$1 tools=$(realpath "$2")
peers=build/peers

tools/setup_peers.sh "$python"
tools/setup_peer_versions.sh

echo "interop: the peers, by version:"
for name in torch mosaicml-streaming litdata webdataset tfrecord safetensors megatron-core lightning \
  accelerate transformers peft torchtitan; do
  versions=$(sed -n "s/^$name==\([^ ]*\).*/\1/p" tests/interop/versions/peers.txt tests/interop/peers/requirements.txt)
  echo "  $name ${versions//$'\n'/, }"
done

# For examples/cpp/libtorch, which is built against it.
prefix=$PWD/build/interop-prefix
cmake --install "$tools/../.." --prefix "$prefix" >/dev/null

STOKER_PREFIX=$prefix STOKER_FORMAT_TOOL=$tools/format_tool STOKER_DATASET_TOOL=$tools/dataset_tool \
  STOKER_SAFETENSORS_TOOL=$tools/safetensors_tool STOKER_TOKENS_TOOL=$tools/tokens_tool \
  STOKER_COMMAND=$tools/../../stoker PYTHONPATH=$PWD/python \
  "$peers/bin/python" -m pytest -q -p no:cacheprovider -c /dev/null --rootdir tests/interop -ra tests/interop \
  --ignore tests/interop/frameworks

# Apart from these, whose stand-in for transformers would take the place of the real one.
STOKER_COMMAND=$tools/../../stoker PYTHONPATH=$PWD/python \
  "$peers/bin/python" -m pytest -q -p no:cacheprovider -c /dev/null --rootdir tests/interop -ra \
  tests/interop/frameworks
