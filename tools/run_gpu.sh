#!/usr/bin/env bash
# run_gpu.sh BUNDLE PYTHON: builds the Python module for PYTHON on a GPU machine, with what is missing there from BUNDLE
# (make_gpu_bundle.sh), and runs the tests that need a GPU.
set -euo pipefail

bundle=$(realpath "$1") python=$2
export PKG_CONFIG_PATH=$bundle/lib/pkgconfig LD_LIBRARY_PATH=$bundle/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
command -v pkg-config >/dev/null || export PKG_CONFIG=$bundle/bin/pkg-config
generator=()
command -v ninja >/dev/null && generator=(-G Ninja)
cmake -S . -B build/gpu "${generator[@]}" -DCMAKE_BUILD_TYPE=Release -DSTOKER_PYTHON=ON -DSTOKER_CLI=OFF \
  -DPython_EXECUTABLE="$(command -v "$python")" -DCMAKE_PREFIX_PATH="$bundle" >build/gpu.configure.log 2>&1 ||
  { cat build/gpu.configure.log; exit 1; }
cmake --build build/gpu --parallel "$(nproc)" --target _native
PYTHONPATH=python:$bundle/python "$python" -m pytest -q -p no:cacheprovider -rs \
  python/tests/test_checkpoint_cuda.py python/tests/test_checkpoint_cuda_load.py \
  python/tests/test_checkpoint_cuda_saves.py python/tests/test_checkpoint_load_device.py \
  python/tests/test_checkpoint_rng.py python/tests/test_checkpoint_meta.py \
  python/tests/test_loader_device.py python/tests/test_loader_pinned.py
