// The program of ../nsight/calls-*.sqlite. Functions with names, in a library of their own, allocate: nsight_calls.sh.
#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" {
cudaError_t weights(void **at, size_t bytes);
cudaError_t cache_of_keys(void **at, size_t bytes);
cudaError_t workspace(void **at, size_t bytes);
cudaError_t pinned_ring(void **at, size_t bytes);
cudaError_t shared_table(void **at, size_t bytes);
cudaError_t drop(void *at);
}

const size_t MIB = 1 << 20;
const size_t TABLE = 4 * MIB;

__global__ void scale(float *weights, float *table, size_t count) {
    size_t row = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (row < count) {
        weights[row] *= table[row];
        table[row] += 1;
    }
}

void check(cudaError_t code) {
    if (code != cudaSuccess) {
        fprintf(stderr, "%s\n", cudaGetErrorString(code));
        exit(1);
    }
}

void forward(float *model, float *table) {
    scale<<<TABLE / 4 / 256, 256>>>(model, table, TABLE / 4);
    check(cudaDeviceSynchronize());
}

int main() {
    void *model, *table, *ring;
    nvtxRangePushA("setup");
    check(weights(&model, 16 * MIB));
    check(cudaMemset(model, 0, 16 * MIB));
    check(shared_table(&table, TABLE));
    memset(table, 1, TABLE);
    nvtxRangePop();
    float sum = 0;
    for (int step = 0; step < 3; step++) {
        char name[16];
        snprintf(name, sizeof name, "step %d", step);
        nvtxRangePushA(name);
        void *keys, *scratch;
        check(cache_of_keys(&keys, 48 * MIB));
        nvtxRangePushA("forward");
        check(workspace(&scratch, 6 * MIB));
        forward((float *)model, (float *)table);
        nvtxRangePop();
        for (size_t row = 0; row < TABLE / 4; row += 1024) sum += ((float *)table)[row];
        check(drop(scratch));
        nvtxRangePop();
    }
    check(pinned_ring(&ring, 16 * MIB));
    check(cudaDeviceSynchronize());
    printf("%g\n", sum);
}
