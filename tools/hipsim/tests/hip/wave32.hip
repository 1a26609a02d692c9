// SPDX-License-Identifier: Apache-2.0
// Tests gfx1250: waves of 32 lanes, a softmax over rows, a matrix product with WMMA, and the
// properties of the device.
#include "check.h"
#include <math.h>
#include <string.h>

#define ROWS 7
#define COLUMNS 1000

__global__ void softmax(const float *in, float *out)
{
    __shared__ float part[8];
    const float *row = in + blockIdx.x * COLUMNS;
    float top = -INFINITY, sum = 0;
    for (int i = threadIdx.x; i < COLUMNS; i += blockDim.x)
        top = fmaxf(top, row[i]);
    for (int step = warpSize / 2; step > 0; step /= 2)
        top = fmaxf(top, __shfl_xor(top, step));
    if (threadIdx.x % warpSize == 0)
        part[threadIdx.x / warpSize] = top;
    __syncthreads();
    for (int i = 0; i < 8; i++)
        top = fmaxf(top, part[i]);
    __syncthreads();
    for (int i = threadIdx.x; i < COLUMNS; i += blockDim.x)
        sum += expf(row[i] - top);
    for (int step = warpSize / 2; step > 0; step /= 2)
        sum += __shfl_xor(sum, step);
    if (threadIdx.x % warpSize == 0)
        part[threadIdx.x / warpSize] = sum;
    __syncthreads();
    sum = 0;
    for (int i = 0; i < 8; i++)
        sum += part[i];
    for (int i = threadIdx.x; i < COLUMNS; i += blockDim.x)
        out[blockIdx.x * COLUMNS + i] = expf(row[i] - top) / sum;
}

typedef __bf16 bf16x16 __attribute__((ext_vector_type(16)));
typedef __bf16 bf16x8 __attribute__((ext_vector_type(8)));
typedef short i16x8 __attribute__((ext_vector_type(8)));
typedef float f32x8 __attribute__((ext_vector_type(8)));

#define K 96

// A wave computes 16 x 16 elements of a * b. a is 16 x K, b is K x N, both have small integers.
__global__ void product(const float *a, const float *b, float *d, int n)
{
#ifdef __gfx1250__
    const int lane = threadIdx.x, column = blockIdx.x * 16 + lane % 16;
    f32x8 sum = {0};
    for (int k0 = 0; k0 < K; k0 += 32) {
        bf16x16 left, right;
        for (int e = 0; e < 16; e++) {
            const int k = k0 + e / 8 * 16 + lane / 16 * 8 + e % 8;
            left[e] = (__bf16)a[lane % 16 * K + k];
            right[e] = (__bf16)b[k * n + column];
        }
        sum = __builtin_amdgcn_wmma_f32_16x16x32_bf16(false, left, false, right, (short)0, sum,
                                                      false, false);
    }
    for (int i = 0; i < 8; i++)
        d[(lane / 16 * 8 + i) * n + column] = sum[i];
#elif defined(__gfx1201__)
    const int lane = threadIdx.x, column = blockIdx.x * 16 + lane % 16;
    f32x8 sum = {0};
    for (int k0 = 0; k0 < K; k0 += 16) {
        bf16x8 left, right;
        for (int e = 0; e < 8; e++) {
            const int k = k0 + e / 4 * 8 + lane / 16 * 4 + e % 4;
            left[e] = (__bf16)a[lane % 16 * K + k];
            right[e] = (__bf16)b[k * n + column];
        }
        sum = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(
            __builtin_bit_cast(i16x8, left), __builtin_bit_cast(i16x8, right), sum);
    }
    for (int i = 0; i < 8; i++)
        d[(lane / 16 * 8 + i) * n + column] = sum[i];
#endif
}

static void run_softmax(void)
{
    static float host[ROWS * COLUMNS], got[ROWS * COLUMNS];
    float *in, *out;
    for (int i = 0; i < ROWS * COLUMNS; i++)
        host[i] = (float)((i * 7919) % 2000) * 0.01f - 10;
    HIP(hipMalloc(&in, sizeof(host)));
    HIP(hipMalloc(&out, sizeof(host)));
    HIP(hipMemcpy(in, host, sizeof(host), hipMemcpyHostToDevice));
    softmax<<<ROWS, 256>>>(in, out);
    HIP(hipMemcpy(got, out, sizeof(got), hipMemcpyDeviceToHost));
    for (int r = 0; r < ROWS; r++) {
        double top = -INFINITY, sum = 0;
        for (int i = 0; i < COLUMNS; i++)
            top = fmax(top, host[r * COLUMNS + i]);
        for (int i = 0; i < COLUMNS; i++)
            sum += exp(host[r * COLUMNS + i] - top);
        for (int i = 0; i < COLUMNS; i++) {
            const double want = exp(host[r * COLUMNS + i] - top) / sum;
            CHECK(fabs(got[r * COLUMNS + i] - want) <= 1e-5 * want + 1e-12);
        }
    }
    HIP(hipFree(in));
    HIP(hipFree(out));
}

static void run_product(void)
{
    const int n = 48;
    float a[16 * K], b[K * n], d[16 * n], *da, *db, *dd;
    for (int i = 0; i < 16 * K; i++)
        a[i] = (float)(i * 37 % 17 - 8);
    for (int i = 0; i < K * n; i++)
        b[i] = (float)(i * 53 % 19 - 9);
    HIP(hipMalloc(&da, sizeof(a)));
    HIP(hipMalloc(&db, sizeof(b)));
    HIP(hipMalloc(&dd, sizeof(d)));
    HIP(hipMemcpy(da, a, sizeof(a), hipMemcpyHostToDevice));
    HIP(hipMemcpy(db, b, sizeof(b), hipMemcpyHostToDevice));
    product<<<n / 16, 32>>>(da, db, dd, n);
    HIP(hipMemcpy(d, dd, sizeof(d), hipMemcpyDeviceToHost));
    for (int m = 0; m < 16; m++)
        for (int j = 0; j < n; j++) {
            float want = 0;
            for (int k = 0; k < K; k++)
                want += a[m * K + k] * b[k * n + j];
            CHECK(d[m * n + j] == want);
        }
    HIP(hipFree(da));
    HIP(hipFree(db));
    HIP(hipFree(dd));
}

int main()
{
    hipDeviceProp_t p;
    HIP(hipGetDeviceProperties(&p, 0));
    const bool rdna = strcmp(p.gcnArchName, "gfx1201") == 0;
    CHECK(p.warpSize == 32 && (rdna || strcmp(p.gcnArchName, "gfx1250") == 0));
    CHECK(p.multiProcessorCount == (rdna ? 32 : 256));
    CHECK(p.sharedMemPerBlock == (rdna ? 64 : 320) * 1024);
    run_softmax();
    run_product();
    return 0;
}
