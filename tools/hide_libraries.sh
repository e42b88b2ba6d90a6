#!/usr/bin/env bash
# hide_libraries.sh COMMAND...: runs COMMAND where the libraries that Stoker is built from do not exist,
# as on a machine without the development packages. Exit status 77: this needs root, or a kernel that
# lets users have mount namespaces.
#
# libcrypto, zlib and bzip2 stay: Python itself needs them.
set -euo pipefail

if [[ "${STOKER_HIDDEN:-}" != 1 ]]; then
  spaces=(--mount --propagation private)
  [[ $(id -u) -eq 0 ]] || spaces+=(--user --map-root-user)
  unshare "${spaces[@]}" true 2>/dev/null || { echo "skipped: no mount namespaces here"; exit 77; }
  STOKER_HIDDEN=1 exec unshare "${spaces[@]}" "$0" "$@"
fi
hidden=0
for folder in /lib /usr/lib /lib/*-linux-gnu /usr/lib/*-linux-gnu /usr/local/lib; do
  for name in uring xxhash isal fmt zstd brotlidec brotlicommon snappy curl nghttp2 rtmp ssh2 psl; do
    for path in "$folder/lib$name".so*; do
      [[ -f "$path" && -s "$path" ]] || continue
      mount --bind /dev/null "$(realpath "$path")"
      hidden=$((hidden + 1))
    done
  done
done
[[ $hidden -gt 0 ]] || { echo "skipped: no library to hide"; exit 77; }
unset STOKER_HIDDEN
exec "$@"
