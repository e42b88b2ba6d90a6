#!/usr/bin/env bash
# make_gpu_bundle.sh FOLDER: collects what a GPU machine without a network may lack to build Stoker and run its GPU
# tests: headers and libraries that this machine has, pkg-config, and pytest. Copy FOLDER there, then run `make gpu`.
# The libraries are those of Debian 12: any later system runs them.
set -euo pipefail

bundle=$1
libraries=/usr/lib/x86_64-linux-gnu
rm -rf "$bundle" && mkdir -p "$bundle"/{include,lib/pkgconfig,bin,python}

cp -rL /usr/include/{liburing,liburing.h,isa-l,isa-l.h,openssl,brotli,bzlib.h,zlib.h,zconf.h} "$bundle/include"
cp -L /usr/include/{snappy,xxh}*.h "$bundle/include"
cp -r /usr/include/x86_64-linux-gnu/openssl/. "$bundle/include/openssl"
cp -L /usr/bin/pkgconf "$bundle/bin/pkg-config"
cp -L "$libraries"/libpkgconf.so.3 "$bundle/lib"

# name, library, other libraries of the package
bundle_library() {
  local name=$1 library=$2
  cp -L "$libraries/lib$library.so" "$bundle/lib/lib$library.so"
  local soname
  soname=$(objdump -p "$libraries/lib$library.so" | awk '/SONAME/ {print $2}')
  ln -sf "lib$library.so" "$bundle/lib/$soname"
  [[ -z $name ]] && return
  printf '%s\n' "prefix=\${pcfiledir}/../.." "Name: $name" "Description: $name" "Version: 99" \
    "Libs: -L\${prefix}/lib -l$library" "Cflags: -I\${prefix}/include" >"$bundle/lib/pkgconfig/$name.pc"
}
bundle_library liburing uring
bundle_library libxxhash xxhash
bundle_library libisal isal
bundle_library libcrypto crypto
bundle_library zlib z
bundle_library libbrotlidec brotlidec
bundle_library "" brotlicommon
bundle_library "" bz2
bundle_library snappy snappy

"${PYTHON:-python3}" -m pip install --quiet --target "$bundle/python" pytest 2>/dev/null
find "$bundle/python" -name __pycache__ -type d -prune -exec rm -rf {} +
du -sh "$bundle" | sed 's/^/gpu-bundle: /'
