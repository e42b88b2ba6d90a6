#!/usr/bin/env bash
# setup_peer_versions.sh: creates build/peer-versions/NAME-VERSION with the versions of the peers listed in
# tests/interop/versions/peers.txt. Needs build/peers (setup_peers.sh), whose packages they share. Each is created
# once, and again when its line has changed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

peers=build/peers versions=build/peer-versions list=tests/interop/versions/peers.txt

mkdir -p "$versions"
while read -r -a packages; do
  [[ ${#packages[@]} -eq 0 || ${packages[0]} == \#* ]] && continue
  place=$versions/${packages[0]/==/-}
  [[ "$(cat "$place/installed.txt" 2>/dev/null)" == "${packages[*]}" ]] && continue
  echo "peers: installing ${packages[*]} into $place" >&2
  rm -rf "$place"
  "$peers/bin/pip" install --quiet --disable-pip-version-check --no-deps --target "$place" "${packages[@]}" \
    || { echo "peers: cannot install; they need a package index with $list" >&2; exit 1; }
  echo "${packages[*]}" >"$place/installed.txt"
done <"$list"
