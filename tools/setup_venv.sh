#!/usr/bin/env bash
# setup_venv.sh PYTHON VENV REQUIREMENTS: creates a virtual environment with the development tools, and
# this checkout's python/ folder on its path, so that the module compiled by `make build` is imported.
# REQUIREMENTS must be installed; requirements-torch.txt beside it is optional.
set -euo pipefail

python=$1 venv=$2 requirements=$3
command -v "$python" >/dev/null || { echo "setup: $python is not on this machine" >&2; exit 1; }
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || {
  echo "setup: Stoker needs CPython 3.10 or later, and $python is older; try make PYTHON=..." >&2
  exit 1
}

echo "setup: Python tools into $venv ($requirements)" >&2
[[ -x "$venv/bin/python" ]] || "$python" -m venv "$venv"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# pip compiles one module after the other, whoever needs it: below, on all cores and without the largest that the
# others seldom import. Those are compiled where they are imported.
install=("$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile)
"${install[@]}" --requirement "$requirements" >"$log" 2>&1 || {
  tail -n 15 "$log" >&2
  echo "setup: pip could not install (no network?). These packages are missing or too old:" >&2
  sed -e 's/#.*//' -e '/^[[:space:]]*$/d' -e 's/^/setup:   /' "$requirements" >&2
  exit 1
}
optional=$(dirname "$requirements")/requirements-torch.txt
if [[ -f "$optional" ]] && ! timeout 300 "${install[@]}" --requirement "$optional" >"$log" 2>&1; then
  echo "setup: torch cannot be installed here ($optional): tests that need it will be skipped" >&2
fi
seldom='/(fontTools|matplotlib|mypy|networkx|pip|setuptools|torch/_inductor)/'
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
printf '%s\n' "$(cd "$(dirname "${BASH_SOURCE[0]}")/../python" && pwd)" >"$site/stoker-checkout.pth"
"$venv/bin/python" -m compileall -q -j 0 -x "$seldom" "$site" >/dev/null || true
