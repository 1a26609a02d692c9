// SPDX-License-Identifier: Apache-2.0
// Tests launch state: block and grid sizes as a kernel sees them, in whole and partial workgroups.
#include "check.h"
#include <dlfcn.h>
#include <hip/hip_ext.h>

struct seen {
    unsigned thread[3], block[3], block_size[3], grid_size[3];
    int visits;
};

__global__ void look(seen *out, unsigned width, unsigned height)
{
    unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned y = blockIdx.y * blockDim.y + threadIdx.y;
    unsigned z = blockIdx.z * blockDim.z + threadIdx.z;
    seen *s = &out[(z * height + y) * width + x];
    s->thread[0] = threadIdx.x;
    s->thread[1] = threadIdx.y;
    s->thread[2] = threadIdx.z;
    s->block[0] = blockIdx.x;
    s->block[1] = blockIdx.y;
    s->block[2] = blockIdx.z;
    s->block_size[0] = blockDim.x;
    s->block_size[1] = blockDim.y;
    s->block_size[2] = blockDim.z;
    s->grid_size[0] = gridDim.x;
    s->grid_size[1] = gridDim.y;
    s->grid_size[2] = gridDim.z;
    atomicAdd(&s->visits, 1);
}

__global__ void reach(int *out)
{
    atomicAdd(&out[__builtin_amdgcn_workgroup_id_x()], 1);
}

int main()
{
    const unsigned grid[3] = {3, 2, 4}, block[3] = {5, 6, 3};
    const unsigned size[3] = {15, 12, 12}, n = 15 * 12 * 12;
    seen *out, *host = (seen *)malloc(n * sizeof(*host));

    HIP(hipMalloc(&out, n * sizeof(*out)));
    HIP(hipMemset(out, 0, n * sizeof(*out)));
    look<<<dim3(3, 2, 4), dim3(5, 6, 3)>>>(out, size[0], size[1]);
    HIP(hipMemcpy(host, out, n * sizeof(*out), hipMemcpyDeviceToHost));
    for (unsigned i = 0; i < n; i++) {
        const unsigned at[3] = {i % size[0], i / size[0] % size[1], i / size[0] / size[1]};
        CHECK(host[i].visits == 1);
        for (int d = 0; d < 3; d++) {
            CHECK(host[i].thread[d] == at[d] % block[d] && host[i].block[d] == at[d] / block[d]);
            CHECK(host[i].block_size[d] == block[d] && host[i].grid_size[d] == grid[d]);
        }
    }

    // 300 work-items in blocks of 128: the last block has 44 work-items.
    int *counts, got[3];
    hipFunction_t function;
    HIP(hipMalloc(&counts, sizeof(got)));
    HIP(hipMemset(counts, 0, sizeof(got)));
    void *args[] = {&counts};
    // These headers lack the function.
    typedef hipError_t (*by_symbol)(hipFunction_t *, const void *);
    by_symbol get = (by_symbol)dlsym(RTLD_DEFAULT, "hipGetFuncBySymbol");
    CHECK(get);
    HIP(get(&function, (const void *)reach));
    HIP(hipExtModuleLaunchKernel(function, 300, 1, 1, 128, 1, 1, 0, 0, args, NULL));
    HIP(hipMemcpy(got, counts, sizeof(got), hipMemcpyDeviceToHost));
    CHECK(got[0] == 128 && got[1] == 128 && got[2] == 44);
    free(host);
    return 0;
}
