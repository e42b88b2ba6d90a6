#!/usr/bin/env bash
# Installs those of the Debian or Ubuntu packages named as arguments that are missing, in one run.
# Prints nothing and takes some milliseconds if all are installed.
#
# STOKER_SKIP_APT=1 skips it, for machines that have the same libraries from another source.
set -euo pipefail

if [[ "${STOKER_SKIP_APT:-0}" == 1 || $# -eq 0 ]]; then exit 0; fi

# Prints the reason and the command to run, on stderr.
give_up() {
  local why=$1
  shift
  {
    echo "setup: $why. These packages are missing: $*"
    echo "setup: install them with: sudo apt-get install --no-install-recommends $*"
    echo "setup: (or set STOKER_SKIP_APT=1 if they came from somewhere else)"
  } >&2
  exit 1
}

command -v dpkg-query >/dev/null || give_up "this is not a Debian or Ubuntu machine" "$@"

missing=()
for package in "$@"; do
  state=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ "$state" == installed ]] || missing+=("$package")
done
if [[ ${#missing[@]} -eq 0 ]]; then exit 0; fi

command -v apt-get >/dev/null || give_up "apt-get is not on this machine" "${missing[@]}"
as_root=()
if [[ $(id -u) -ne 0 ]]; then
  command -v sudo >/dev/null || give_up "neither root nor sudo here" "${missing[@]}"
  as_root=(sudo)
  # Without a terminal sudo cannot ask for a password: fail at once, not after its timeout.
  [[ -t 0 ]] || as_root=(sudo -n)
  "${as_root[@]}" true || give_up "sudo refused" "${missing[@]}"
fi

echo "setup: apt-get install ${missing[*]}" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -qq -o Dpkg::Use-Pty=0 -o Acquire::Retries=3 "$@" >"$log" 2>&1
}
# Continue after a failed update: the lists on disk may be enough.
apt update || echo "setup: apt-get update failed (no network?), continuing with the lists on disk" >&2
apt install --yes --no-install-recommends "${missing[@]}" || {
  tail -n 15 "$log" >&2
  give_up "apt-get could not install (no network?)" "${missing[@]}"
}
