#!/usr/bin/env bash
# run_fuzz.sh TARGET_DIR CORPUS_DIR SECONDS: runs every fuzz target for a while. What they learn is
# kept in CORPUS_DIR; a crashing input is left there as <target>-crash-*, to be given to the target.
set -euo pipefail

targets=$1 corpus=$2 seconds=$3
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1
found=0
for target in "$targets"/*_fuzz; do
  [[ -x "$target" && -f "$target" ]] || continue
  name=$(basename "$target")
  mkdir -p "$corpus/$name"
  # Committed examples, where there are any, are read and never added to.
  seeds=("$corpus/$name")
  [[ -d "$repository/fuzz/corpus/$name" ]] && seeds+=("$repository/fuzz/corpus/$name")
  found=$((found + 1))
  echo "fuzz: $name for $seconds s"
  "$target" -max_total_time="$seconds" -max_len=65536 -rss_limit_mb=2048 -timeout=10 \
    -verbosity=0 -print_final_stats=1 -artifact_prefix="$corpus/$name-" "${seeds[@]}" 2>&1 |
    grep -E 'number_of_executed_units|ERROR|SUMMARY|Test unit written|#[0-9]+ 0x' || {
    echo "fuzz: $name failed; its input is $corpus/$name-*" >&2
    exit 1
  }
done
if [[ $found -eq 0 ]]; then
  echo "fuzz: no target called *_fuzz in $targets" >&2
  exit 1
fi
echo "fuzz: $found targets, nothing found"
