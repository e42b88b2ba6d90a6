#!/usr/bin/env bash
# run_mutations.sh PYTHON COUNT [NATIVE_COUNT]: long tests with hostile checkpoints. NATIVE_COUNT (default:
# a million) mutated manifests through the C++ reader in one process; COUNT through every command; and COUNT
# of each kind of checkpoint through the Python restore and load, in one process under AddressSanitizer.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=$1 count=$2 native_count=${3:-1000000}
target=build/fuzz/fuzz/checkpoint_reader_fuzz corpus=build/fuzz-corpus/checkpoint_reader_fuzz
mkdir -p "$corpus"
echo "mutations: $native_count through the reader"
ASAN_OPTIONS=allocator_may_return_null=1 "$target" -runs="$native_count" -max_len=65536 \
  -rss_limit_mb=4096 -timeout=60 -verbosity=0 -print_final_stats=1 \
  -artifact_prefix="$corpus-" "$corpus" fuzz/corpus/checkpoint_reader_fuzz 2>&1 |
  grep -E 'number_of_executed_units|ERROR|SUMMARY|Test unit written|#[0-9]+ 0x'

echo "mutations: $count through each command"
STOKER_MUTATIONS=$count "$python" -m pytest -q python/tests/checkpoint/test_checkpoint_command_mutations.py

# The unchanged package, with the sanitized module beside its sources.
package=build/asan-python/package
for file in python/stoker/*; do
  case $file in *.so | *__pycache__) ;; *) ln -sfn "$PWD/$file" "$package/stoker/" ;; esac
done
asan=$(${CXX:-c++} -print-file-name=libasan.so) ubsan=$(${CXX:-c++} -print-file-name=libubsan.so)
stdcxx=$(${CXX:-c++} -print-file-name=libstdc++.so)
echo "mutations: $count of each checkpoint through restore and load, under AddressSanitizer"
# Python and torch leak by design, and a mutated size may exceed any memory.
LD_PRELOAD="$asan $ubsan $stdcxx" PYTHONPATH=$package PYTHONMALLOC=malloc STOKER_MUTATIONS=$count \
  ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:halt_on_error=1 \
  UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
  "$python" -m pytest -q python/tests/checkpoint/test_checkpoint_mutations.py
