#!/usr/bin/env bash
# run_bench.sh DIR: runs every Google Benchmark program named *_bench in DIR, and writes JSON to
# build/bench-results/, in addition to the table on the screen.
set -euo pipefail

results=build/bench-results
mkdir -p "$results"
found=0
for program in "$1"/*_bench; do
  [[ -x "$program" && -f "$program" ]] || continue
  found=$((found + 1))
  name=$(basename "$program")
  echo "bench: $name"
  "$program" --benchmark_repetitions="${BENCH_REPETITIONS:-3}" \
    --benchmark_report_aggregates_only=true \
    --benchmark_out="$results/$name.json" --benchmark_out_format=json
done
[[ $found -gt 0 ]] || { echo "bench: no program called *_bench in $1" >&2; exit 1; }
