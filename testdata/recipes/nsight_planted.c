/* The library of nsight_calls.cu. */
#include <cuda_runtime_api.h>

int weights(void **at, size_t bytes) { int code = cudaMalloc(at, bytes); return code; }
int cache_of_keys(void **at, size_t bytes) { int code = cudaMalloc(at, bytes); return code; }
int workspace(void **at, size_t bytes) { int code = cudaMalloc(at, bytes); return code; }
int pinned_ring(void **at, size_t bytes) { int code = cudaMallocHost(at, bytes); return code; }
int shared_table(void **at, size_t bytes) { int code = cudaMallocManaged(at, bytes, cudaMemAttachGlobal); return code; }
int drop(void *at) { int code = cudaFree(at); return code; }
