#!/usr/bin/env bash
# try_bare_machine.sh PYTHON FOLDER WHEEL: installs WHEEL on a Debian 12 that has Python and nothing else,
# and uses it there. The system is made in FOLDER, as root, by debootstrap, and is used again the next
# time. PYTHON has pip, to fetch NumPy.
set -euo pipefail

python=$1 folder=$2 wheel=$3
tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[[ $(id -u) -eq 0 ]] || { echo "skipped: a bare machine takes root to make"; exit 0; }
[[ "$wheel" == *-cp311-* ]] || { echo "skipped: Debian 12 has CPython 3.11, and $wheel is for another"; exit 0; }
if [[ ! -e "$folder/.made" ]]; then
  rm -rf "$folder"
  debootstrap --variant=minbase --include=python3,python3-venv bookworm "$folder" >"$folder.log" 2>&1 || {
    tail -n 5 "$folder.log" >&2
    echo "wheel-test: debootstrap failed (no network?)" >&2
    exit 1
  }
  touch "$folder/.made"
fi
work=$folder/tried
rm -rf "$work"
mkdir -p "$work"
# The bare machine has no network.
"$python" -m pip download --quiet --only-binary :all: --python-version 3.11 --dest "$work" "$wheel"
cp "$wheel" "$tools/try_wheel.sh" "$work"
unshare --mount --propagation private bash -euo pipefail -c '
  mount -t proc proc "$1/proc"
  mount --bind /dev "$1/dev"
  exec chroot "$1" /usr/bin/env -i PATH=/usr/bin:/bin /bin/bash -euo pipefail -c "
    cd /tried
    python3 -m venv env
    env/bin/python -m pip install --quiet --no-index --find-links . stoker
    bash try_wheel.sh /tried/env/bin /tried/folder"' bash "$folder"
