#!/usr/bin/env bash
# usage: build.sh TORCH_WHEEL OUTDIR
# Builds OUTDIR/oracle around the allocator of a torch wheel for Linux on x86-64 (CUDA build, torch 2.8 or newer), of
# which it takes libc10.so, libc10_cuda.so and the c10 headers. Needs gcc, g++, readelf and Python; no GPU, driver or
# CUDA toolkit. Fifteen seconds.
set -euo pipefail
wheel=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$2"
out=$(cd "$2" && pwd)

# Older wheels carry some libraries in a folder of their own, under mangled names; libc10 may need libgomp or libnuma
# from there.
"${PYTHON:-python3}" - "$wheel" "$out" <<'TAKE'
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    wanted = ("torch/version.py", "torch/lib/libc10.so", "torch/lib/libc10_cuda.so",
              "torch/include/c10/", "torch/include/torch/headeronly/", "torch.libs/")
    wheel.extractall(sys.argv[2], [name for name in wheel.namelist() if name.startswith(wanted)])
TAKE
lib=$out/torch/lib
version=$(sed -n "s/^__version__ = '\([0-9.]*\).*/\1/p" "$out/torch/version.py")
minor=$(echo "$version" | cut -d. -f2)
soname=$(readelf -d "$lib/libc10_cuda.so" | sed -n 's/.*\[\(libcudart\.so\.[0-9]*\)\].*/\1/p')

# The fake runtime takes the place, the name and the symbol version of the real one.
echo "$soname { global: *; };" > "$out/cudart.map"
"${CC:-gcc}" -O2 -Wall -Wextra -fPIC -shared -I"$here/cuda_shim" -I"$here" "$here/fake_cudart.c" \
    -Wl,-soname,"$soname" -Wl,--version-script="$out/cudart.map" -o "$lib/$soname"

cuda=${soname##*.}000 # only tells c10's headers which signatures to expect
std=c++17
[ "$minor" -ge 12 ] && std=c++20
"${CXX:-g++}" -std=$std -O2 -DTORCH_MINOR="$minor" -DCUDA_VERSION="$cuda" \
    -I"$here/cuda_shim" -I"$here" -I"$out/torch/include" "$here/oracle.cpp" \
    "$lib/libc10_cuda.so" "$lib/libc10.so" "$lib/$soname" \
    -Wl,--disable-new-dtags,-rpath,"$lib:$out/torch.libs" -o "$out/oracle"
echo "$version" > "$out/VERSION"
echo "built $out/oracle for torch $version over a fake $soname"
