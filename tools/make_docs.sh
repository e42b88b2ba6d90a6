#!/usr/bin/env bash
# make_docs.sh FOLDER: makes the reference of the public headers in FOLDER/html. A warning is an error.
set -euo pipefail

folder=$(realpath -m "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if ! command -v doxygen >/dev/null; then
  echo "skipped: doxygen is not on this machine (make lint installs it)"
  exit 77
fi
rm -rf "$folder"
mkdir -p "$folder"
version=$(sed -n 's/^#define STOKER_VERSION "\(.*\)"/\1/p' include/stoker/version.h)
STOKER_VERSION=$version STOKER_DOCS=$folder doxygen docs/Doxyfile >"$folder/log" 2>&1 || {
  cat "$folder/log" >&2
  exit 1
}
for header in include/stoker/*.h; do
  name=$(basename "$header" .h)
  [[ -e "$folder/html/${name//_/__}_8h.html" ]] || {
    echo "make_docs: $header is not in the reference" >&2
    exit 1
  }
done
echo "$folder/html/index.html"
