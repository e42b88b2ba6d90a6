#!/usr/bin/env bash
# run_fuzz.sh TARGET_DIR CORPUS_DIR SECONDS [RUNS [TARGET...]]: runs every fuzz target, or those named, for SECONDS, or
# with RUNS for that many executions. New inputs are kept in CORPUS_DIR; a crashing input is written there as
# <target>-crash-*: pass it to the target to reproduce the crash. At first a target replaces its files often: a
# CORPUS_DIR in memory (tmpfs) saves up to a third of that time. SIGINT to a target makes it print its count and end.
set -euo pipefail

targets=$1 corpus=$2 seconds=$3 runs=${4:-}
chosen=("${@:5}")
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# One frame of each allocation's stack: more would cost a fifth of the time. To see the whole stack, run the target with
# the crashing input. Hardly any execution frees 4 MiB: to
# keep more freed memory, to find uses of it, costs a tenth.
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1:malloc_context_size=1:quarantine_size_mb=4

# Largest input size. It is enough for what the target tests; larger inputs cost time and find nothing new.
max_len_of() {
  case $1 in
    tar_fuzz) echo 65536 ;;  # blocks of 512 bytes
    index_fuzz) echo 16384 ;;
    checkpoint_reader_fuzz | cursor_fuzz) echo 8192 ;;
    litdata_fuzz | mds_fuzz) echo 2048 ;;
    catalog_fuzz | checkpoint_manifest_fuzz | lock_record_fuzz | manifest_fuzz | strict_json_fuzz) echo 1024 ;;
    tfrecord_fuzz | units_fuzz) echo 1024 ;;
    catalog_line_fuzz) echo 768 ;;
    cache_files_fuzz | machine_text_fuzz | meeting_fuzz | rank_messages_fuzz | step_notes_fuzz) echo 512 ;;
    checkpoint_names_fuzz) echo 256 ;;  # longest file name
    meeting_words_fuzz) echo 256 ;;
    *) echo 4096 ;;
  esac
}

stop=(-max_total_time="$seconds") how_long="for $seconds s"
[[ -n "$runs" ]] && stop=(-runs="$runs") how_long="$runs times"
found=0
for target in "$targets"/*_fuzz; do
  [[ -x "$target" && -f "$target" ]] || continue
  name=$(basename "$target")
  [[ ${#chosen[@]} -eq 0 || " ${chosen[*]} " == *" $name "* ]] || continue
  mkdir -p "$corpus/$name"
  # Committed examples, if any, are read but never added to.
  seeds=("$corpus/$name")
  examples=$repository/fuzz/corpus/$name
  if [[ -d "$examples" ]]; then
    seeds+=("$examples")
    too_long=$(find "$examples" -type f -size +"$(max_len_of "$name")"c)
    [[ -z "$too_long" ]] || { echo "fuzz: would be truncated to $(max_len_of "$name") bytes: $too_long" >&2; exit 1; }
  fi
  found=$((found + 1))
  echo "fuzz: $name $how_long"
  # Nothing else writes to the corpus: to look for new files each second costs up to a quarter of the time.
  "$target" "${stop[@]}" -max_len="$(max_len_of "$name")" -rss_limit_mb=2048 -timeout=10 \
    -reload=0 -purge_allocator_interval=-1 -verbosity=0 -print_final_stats=1 \
    -artifact_prefix="$corpus/$name-" "${seeds[@]}" 2>&1 |
    grep -E 'number_of_executed_units|average_exec_per_sec|ERROR|SUMMARY|Test unit written|#[0-9]+ 0x' || {
    echo "fuzz: $name failed; its input is $corpus/$name-*" >&2
    exit 1
  }
done
if [[ $found -eq 0 ]]; then
  echo "fuzz: no such target in $targets" >&2
  exit 1
fi
echo "fuzz: $found targets, nothing found"
