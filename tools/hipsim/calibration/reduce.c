/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second step of split decode, for rows whose published times include it: the sum of split-KV
 * partials, weighted by their log-sum-exp. A workgroup of 128 work-items reduces a row of 512
 * values, one head of one query. The measured library has its own kernel for this; this one makes
 * the same loads and stores.
 */
#define GLOBAL __attribute__((address_space(1)))

typedef float f32x4 __attribute__((ext_vector_type(4)));
typedef unsigned short u16x4 __attribute__((ext_vector_type(4)));

/* Returns the bf16 bits of the nearest number. */
static unsigned short to_bf16(float x)
{
    union {
        float f;
        unsigned u;
    } bits = {.f = x};
    return (unsigned short)((bits.u + 0x7fff + (bits.u >> 16 & 1)) >> 16);
}

/* Writes the sum of `parts` partial rows. `partial` is [queries * parts, heads, 512], `lse`
 * [queries * parts, heads], `out` [queries, heads, 512]. */
__attribute__((amdgpu_kernel, amdgpu_flat_work_group_size(128, 128), visibility("protected"))) void
reduce(GLOBAL const float *partial, GLOBAL const float *lse, GLOBAL unsigned short *out,
       unsigned parts, unsigned heads)
{
    const unsigned query = __builtin_amdgcn_workgroup_id_y(),
                   head = __builtin_amdgcn_workgroup_id_x();
    const unsigned lane = __builtin_amdgcn_workitem_id_x();
    float most = -3e38f, sum = 0;
    f32x4 value = 0;
#pragma unroll 16
    for (unsigned i = 0; i < parts; i++) {
        const float l = lse[(query * parts + i) * heads + head];
        most = l > most ? l : most;
    }
#pragma unroll 16
    for (unsigned i = 0; i < parts; i++) {
        const unsigned long row = (unsigned long)(query * parts + i) * heads + head;
        const float weight = __builtin_amdgcn_exp2f((lse[row] - most) * 1.44269504f);
        sum += weight;
        value += weight * ((GLOBAL const f32x4 *)(partial + row * 512))[lane];
    }
    value *= __builtin_amdgcn_rcpf(sum);
    const u16x4 packed = {to_bf16(value[0]), to_bf16(value[1]), to_bf16(value[2]),
                          to_bf16(value[3])};
    ((GLOBAL u16x4 *)(out + ((unsigned long)query * heads + head) * 512))[lane] = packed;
}

/* Represents a workgroup of the measured library's kernel if no row was split: it compares the
 * position of its partial results with the end of the list, and ends. */
__attribute__((amdgpu_kernel, amdgpu_flat_work_group_size(128, 128), visibility("protected"))) void
reduce_nothing(GLOBAL const unsigned *places, GLOBAL unsigned *out, unsigned rows, unsigned heads)
{
    const unsigned row = __builtin_amdgcn_workgroup_id_x() / heads;
    const unsigned last = places[rows], place = places[row % rows];
    if (place != last)
        out[row] = last;
}
