#!/usr/bin/env bash
# demo.sh STOKER PYTHON: demonstrates the command at STOKER and the package of PYTHON, in a scratch
# directory that is removed at the end.
set -euo pipefail

stoker=$(realpath "$1")
python=$(realpath -s "$2")
trainer=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../examples/train.py")
# Not /tmp, which is in memory on many machines: the demo needs a disk.
scratch=$(mktemp -d "${TMPDIR:-/var/tmp}/stoker-demo.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

show() {
  printf '\n$ stoker %s\n' "$*"
  "$stoker" "$@"
}

show --version
show doctor "$scratch" || {
  # Status 1 means that problems were found: news for the reader, not a failure of the demo.
  status=$?
  [[ $status -eq 1 ]] || exit "$status"
}
show bench disk --quick "$scratch"

# A small tree like a dataset of images: a folder per class, files of some kilobytes.
for class in cat dog owl; do
  mkdir -p "$scratch/images/$class"
  for number in {001..040}; do
    head -c $((20000 + RANDOM)) /dev/urandom >"$scratch/images/$class/$number.jpg"
  done
done
cd "$scratch"
show pack images/ shards/ --samples-per-shard 50
show ls shards/ --limit 5
show stats shards/
show verify shards/
show stream shards/ --batch-size 6 --seed 7

# The same samples twice: uninterrupted, and by a stream that is killed in the middle and continues.
stream=(stream shards/ --batch-size 6 --seed 7 --epochs 3 --print-keys)
printf '\n$ stoker %s > whole.keys\n' "${stream[*]}"
"$stoker" "${stream[@]}" >whole.keys 2>/dev/null

stream+=(--cursor-file at.json)
printf '\n$ stoker %s > killed.keys    # kill -9 in the middle\n' "${stream[*]}"
"$stoker" "${stream[@]}" --step-ms 20 >killed.keys 2>/dev/null &
victim=$!
until [[ -s at.json ]] && (($(wc -l <killed.keys) >= 150)); do
  kill -0 "$victim" 2>/dev/null || break
  sleep 0.02
done
kill -KILL "$victim" 2>/dev/null || { echo "demo: the stream ended by itself" >&2; exit 1; }
{ wait "$victim"; } 2>/dev/null || true
printf 'killed after %s keys\n' "$(wc -l <killed.keys)"

printf '\n$ stoker %s > rest.keys\n' "${stream[*]}"
"$stoker" "${stream[@]}" >rest.keys 2>resumed.txt
head -n 1 resumed.txt
# Keys that were printed after the last cursor are printed again: cut the list at the cursor.
kept=$(sed -n 's/^resumed at .*: \([0-9]*\) samples\{0,1\} came before$/\1/p' resumed.txt)
[[ -n $kept && $kept -gt 0 && $kept -le $(wc -l <killed.keys) && -s rest.keys ]] ||
  { echo "demo: it did not continue where it stopped" >&2; exit 1; }
{ head -n "$kept" killed.keys; cat rest.keys; } | cmp - whole.keys ||
  { echo "demo: the resumed stream has other samples than the unbroken one" >&2; exit 1; }
printf '%s + %s keys: the same samples in the same order as the unbroken stream of %s\n' \
  "$kept" "$(wc -l <rest.keys)" "$(wc -l <whole.keys)"

# The same with a training run: its model, its position in the data and its losses survive the kill.
train() {
  printf '\n$ python examples/train.py shards/ %s\n' "$*"
  "$python" "$trainer" shards/ "$@"
}
train whole/ whole.losses
{ train killed/ killed.losses --die-at 38; } 2>/dev/null && { echo "demo: it lives" >&2; exit 1; }
printf 'killed after %s steps\n' "$(wc -l <killed.losses)"
show checkpoint ls killed/
train killed/ killed.losses
cmp killed.losses whole.losses ||
  { echo "demo: the resumed training has other losses than the unbroken one" >&2; exit 1; }
printf 'the same %s losses, to the last bit, as the unbroken training\n' "$(wc -l <whole.losses)"
show checkpoint verify killed/
show checkpoint diff killed/ 55 60
