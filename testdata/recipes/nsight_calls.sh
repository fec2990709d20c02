#!/bin/sh
# Makes ../nsight/calls-2025.sqlite, or another, on a GPU, with CUDA's compiler and Nsight Systems: nsight_calls.sh OUT.sqlite, in an empty
# folder.
#
# Backtraces of calls need samples of the processor, and with samples each library that is loaded goes into the capture: 2 GB with PyTorch,
# 32 MB here, where the program has CUDA's runtime alone. So few samples are taken as the profiler allows.
set -e
here=$(dirname "$0")
cuda=${CUDA_HOME:-/usr/local/cuda}
gcc -g -O0 -fno-omit-frame-pointer -shared -fPIC -I"$cuda/include" -o libplanted.so "$here/nsight_planted.c" -L"$cuda/lib64" -lcudart
nvcc -g -O0 -Xcompiler -fno-omit-frame-pointer -arch=sm_90 -cudart shared -o calls "$here/nsight_calls.cu" -L. -lplanted -ldl -Xlinker -rpath -Xlinker "$PWD"
nsys profile -o calls -f true --trace=cuda,nvtx --cuda-memory-usage=true --cpuctxsw=none --sample=process-tree --sampling-period=16000000 \
    --cudabacktrace=all:0 --cuda-um-cpu-page-faults=true --cuda-um-gpu-page-faults=true ./calls
nsys export --type sqlite --output whole.sqlite calls.nsys-rep
python3 "$here/nsight_cut.py" whole.sqlite "$1"
