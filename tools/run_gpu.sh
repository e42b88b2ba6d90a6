#!/usr/bin/env bash
# run_gpu.sh BUNDLE PYTHON [bench]: builds the Python module for PYTHON on a GPU machine, with what is missing there from
# BUNDLE (make_gpu_bundle.sh), and runs examples/cpp/device.cc and the tests that need a GPU, some of them under
# compute-sanitizer as well; or with `bench` the comparisons that fill the table of docs/benchmarks.md.
set -euo pipefail

bundle=$(realpath "$1") python=$2 what=${3:-test}
export PKG_CONFIG_PATH=$bundle/lib/pkgconfig LD_LIBRARY_PATH=$bundle/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
command -v pkg-config >/dev/null || export PKG_CONFIG=$bundle/bin/pkg-config
generator=()
command -v ninja >/dev/null && generator=(-G Ninja)
cmake -S . -B build/gpu "${generator[@]}" -DCMAKE_BUILD_TYPE=Release -DSTOKER_PYTHON=ON -DSTOKER_CLI=OFF \
  -DPython_EXECUTABLE="$(command -v "$python")" -DCMAKE_PREFIX_PATH="$bundle" >build/gpu.configure.log 2>&1 ||
  { cat build/gpu.configure.log; exit 1; }
cmake --build build/gpu --parallel "$(nproc)" --target _native

if [[ $what == bench ]]; then
  exec env PYTHONPATH="python:$bundle/peers" "$python" bench/gpu_table.py build/gpu-bench --json build/gpu-table.json
fi

echo "gpu: a C++ program that saves, restores and copies batches"
cmake --build build/gpu --parallel "$(nproc)" --target stoker_shared
"${CXX:-c++}" -std=c++20 -O2 -Iinclude examples/cpp/device.cc -o build/gpu/device -Lbuild/gpu -lstoker -ldl
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
LD_LIBRARY_PATH=$PWD/build/gpu:$LD_LIBRARY_PATH build/gpu/device "$folder"

checkpoint=python/tests/checkpoint loader=python/tests/loader
PYTHONPATH=python:$bundle/python "$python" -m pytest -q -p no:cacheprovider -rs \
  $checkpoint/device/test_checkpoint_cuda.py $checkpoint/device/test_checkpoint_cuda_load.py \
  $checkpoint/device/test_checkpoint_cuda_saves.py $checkpoint/device/test_checkpoint_load_device.py \
  $checkpoint/state/test_checkpoint_rng.py $checkpoint/fit/test_checkpoint_meta.py \
  $loader/test_loader_device.py $loader/test_loader_pinned.py

# Copies and kernels outside of any allocation: torch's cache of memory would hide them. Errors that the driver returns are
# not reported: an answer of that kind is how we learn that memory is not pinned.
if command -v compute-sanitizer >/dev/null; then
  echo "gpu: the tests of copies and kernels, under compute-sanitizer"
  PYTHONPATH=python:$bundle/python PYTORCH_NO_CUDA_MEMORY_CACHING=1 \
    compute-sanitizer --tool memcheck --leak-check no --report-api-errors no --error-exitcode 9 "$python" -m pytest -q -p no:cacheprovider \
    $checkpoint/device/test_checkpoint_cuda_saves.py $checkpoint/device/test_checkpoint_cuda_load.py \
    $loader/test_loader_device.py \
    -k "small_tensors or enqueued_after or that_are_freed or every_type or overlaps or copied_ahead"
else
  echo "gpu: compute-sanitizer is not installed: skipped"
fi
