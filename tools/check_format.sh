#!/usr/bin/env bash
# Fails, naming the places, if a C++ file is not as clang-format would write it; --fix rewrites.
# The version is part of the format: another clang-format breaks lines elsewhere.
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
