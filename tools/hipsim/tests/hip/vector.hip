// SPDX-License-Identifier: Apache-2.0
// Tests a usual first program: axpy and a transpose, with device symbols and a partial last block.
#include "check.h"

__constant__ float scale;
__device__ int visits;

__global__ void axpy(const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = scale * x[i] + y[i];
        atomicAdd(&visits, 1);
    }
}

__global__ void transpose(const int *in, int *out, int rows, int columns)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z;
    if (x < columns && y < rows)
        out[(z * columns + x) * rows + y] = in[(z * rows + y) * columns + x];
}

static void run_axpy(void)
{
    const int n = 10007;
    float *x, *y, factor = 3;
    float *host = (float *)malloc(n * sizeof(*host));
    for (int i = 0; i < n; i++)
        host[i] = (float)i;
    HIP(hipMalloc(&x, n * sizeof(*x)));
    HIP(hipMalloc(&y, n * sizeof(*y)));
    HIP(hipMemcpy(x, host, n * sizeof(*x), hipMemcpyHostToDevice));
    HIP(hipMemset(y, 0, n * sizeof(*y)));
    HIP(hipMemcpyToSymbol(HIP_SYMBOL(scale), &factor, sizeof(factor)));
    axpy<<<(n + 255) / 256, 256>>>(x, y, n);
    HIP(hipGetLastError());
    HIP(hipDeviceSynchronize());
    HIP(hipMemcpy(host, y, n * sizeof(*y), hipMemcpyDeviceToHost));
    for (int i = 0; i < n; i++)
        CHECK(host[i] == 3.0f * (float)i);
    int count = 0;
    HIP(hipMemcpyFromSymbol(&count, HIP_SYMBOL(visits), sizeof(count)));
    CHECK(count == n);
    HIP(hipFree(x));
    HIP(hipFree(y));
    free(host);
}

static void run_transpose(void)
{
    const int rows = 37, columns = 53, planes = 3, n = rows * columns * planes;
    int *in, *out, host[n];
    for (int i = 0; i < n; i++)
        host[i] = i;
    HIP(hipMalloc(&in, sizeof(host)));
    HIP(hipMalloc(&out, sizeof(host)));
    HIP(hipMemcpy(in, host, sizeof(host), hipMemcpyHostToDevice));
    transpose<<<dim3(7, 10, planes), dim3(8, 4)>>>(in, out, rows, columns);
    HIP(hipMemcpy(host, out, sizeof(host), hipMemcpyDeviceToHost));
    for (int z = 0; z < planes; z++)
        for (int y = 0; y < rows; y++)
            for (int x = 0; x < columns; x++)
                CHECK(host[(z * columns + x) * rows + y] == (z * rows + y) * columns + x);
    HIP(hipFree(in));
    HIP(hipFree(out));
}

int main()
{
    run_axpy();
    run_transpose();
    return 0;
}
