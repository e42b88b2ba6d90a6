#!/usr/bin/env bash
# make_gpu_bundle.sh FOLDER: collects what a GPU machine without a network may lack to build Stoker, run its GPU tests and
# compare it: headers and libraries that this machine has, pkg-config, pytest, and other loaders of tensors. Copy FOLDER
# there, then run `make gpu` and `make gpu-bench`. The libraries are those of Debian 12: any later system runs them.
# GPU_PYTHON is the version of Python there.
set -euo pipefail

bundle=$1
libraries=/usr/lib/x86_64-linux-gnu
rm -rf "$bundle" && mkdir -p "$bundle"/{include,lib/pkgconfig,bin,python}

cp -rL /usr/include/{liburing,liburing.h,isa-l,isa-l.h,openssl,brotli,bzlib.h,zlib.h,zconf.h} "$bundle/include"
cp -L /usr/include/{snappy,xxh}*.h "$bundle/include"
cp -r /usr/include/x86_64-linux-gnu/openssl/. "$bundle/include/openssl"
cp -rL /usr/include/x86_64-linux-gnu/curl "$bundle/include"
cp -L /usr/include/z{std,std_errors,dict}.h "$bundle/include"
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
bundle_library libzstd zstd
bundle_library libcurl curl
# What libcurl itself needs, except for the C library.
ldd "$libraries/libcurl.so.4" | awk '$3 ~ /^\// {print $1, $3}' | grep -v '^lib\(c\|resolv\)\.so' | while read -r soname path; do
  [[ -e $bundle/lib/$soname ]] || cp -L "$path" "$bundle/lib/$soname"
done
for name in $(sed -n 's/^stoker_need([A-Z0-9]* \([^ ]*\) .*/\1/p' "$(dirname "$0")/../cmake/StokerDependencies.cmake"); do
  [[ -e $bundle/lib/pkgconfig/$name.pc ]] || { echo "gpu-bundle: $name is missing, which the build needs"; exit 1; }
done

"${PYTHON:-python3}" -m pip install --quiet --target "$bundle/python" pytest 2>/dev/null
# Without what they depend on: torch and NumPy are there.
platforms=()
for glibc in 2014 _2_17 _2_27 _2_28 _2_34 _2_35; do platforms+=(--platform "manylinux${glibc}_x86_64"); done
for peer in safetensors instanttensor fastsafetensors runai-model-streamer humanize; do
  "${PYTHON:-python3}" -m pip install --quiet --target "$bundle/peers" --no-deps --only-binary=:all: \
    --python-version "${GPU_PYTHON:-3.12}" "${platforms[@]}" "$peer" 2>"$bundle/pip.log" ||
    echo "gpu-bundle: no $peer for Python ${GPU_PYTHON:-3.12}: $(grep ERROR "$bundle/pip.log" | tail -1)"
done
rm -f "$bundle/pip.log"
find "$bundle" -name __pycache__ -type d -prune -exec rm -rf {} +
find "$bundle/peers" -name '*.so*' -type f -exec strip --strip-unneeded {} +
du -sh "$bundle" | sed 's/^/gpu-bundle: /'
size_mib=$(du -sm "$bundle" | cut -f1)
((size_mib <= 64)) || { echo "gpu-bundle: $size_mib MiB, more than the 64 MiB that can be carried"; exit 1; }
