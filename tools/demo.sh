#!/usr/bin/env bash
# demo.sh STOKER: shows what the command at STOKER can do, in a scratch directory that is gone after.
set -euo pipefail

stoker=$(realpath "$1")
# Not /tmp, which is memory on many machines: a disk is what we want to look at.
scratch=$(mktemp -d "${TMPDIR:-/var/tmp}/stoker-demo.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

show() {
  printf '\n$ stoker %s\n' "$*"
  "$stoker" "$@"
}

show --version
show doctor "$scratch" || {
  # 1 means that it worked and found problems: news for the reader, not a failure of the demo.
  status=$?
  [[ $status -eq 1 ]] || exit "$status"
}
show bench disk --quick --path "$scratch"

# A small tree that looks like a dataset of images: a folder for each class, files of some kilobytes.
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
