#!/usr/bin/env bash
# Fails, and lists the places, if a C++ file is not formatted by clang-format; --fix rewrites it.
# The version matters: another clang-format breaks lines differently.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! command -v clang-format-19 >/dev/null; then
  echo "skipped: clang-format-19 is not on this machine"
  exit 77
fi
mode=(--dry-run -Werror)
[[ "${1:-}" == --fix ]] && mode=(-i)
find include src tests bench fuzz python \( -name '*.h' -o -name '*.cc' \) -print0 |
  xargs -0 clang-format-19 "${mode[@]}"
