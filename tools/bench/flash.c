/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel `op: prefill, head_dim: 128, dtype: bf16, mask: causal` as ordinary source for clang
 * -O3. bench_compile compares attnc's compile time with clang's on this file. It has the same
 * matrix instruction and tile (32 queries for each of 8 waves, 32 keys), but no software pipeline.
 */
#define GLOBAL __attribute__((address_space(1)))
#define LOCAL __attribute__((address_space(3)))
#define UNROLLED _Pragma("unroll")

typedef short bf16x4 __attribute__((ext_vector_type(4)));
typedef float f32x16 __attribute__((ext_vector_type(16)));

enum { D = 128, KV = 32, WAVES = 8, ROWS = 32, THREADS = 64 * WAVES };
/* Elements of a row in LDS, padded so that rows begin in different banks. */
enum { K_ROW = D + 8, V_ROW = KV + 4 };

static void sync(void)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

static unsigned bits_of(float x)
{
    union {
        float f;
        unsigned u;
    } both = {.f = x};
    return both.u;
}

static float float_of(unsigned x)
{
    union {
        unsigned u;
        float f;
    } both = {.u = x};
    return both.f;
}

static short to_bf16(float x)
{
    unsigned bits = bits_of(x);
    return (short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Returns x of the lane that has the other keys of the same query, in the other half of the
 * wave. */
static float across(float x, unsigned lane)
{
    int other = (int)((lane ^ 32) << 2);
    return float_of((unsigned)__builtin_amdgcn_ds_bpermute(other, (int)bits_of(x)));
}

static LOCAL __attribute__((loader_uninitialized)) short k_tile[KV * K_ROW], v_tile[D * V_ROW];

/* Copies a tile of K, and a tile of V transposed, to LDS. Rows after the last key become 0. */
static void load_tile(GLOBAL const short *k, GLOBAL const short *v, long k_stride, long v_stride,
                      int first, int kv_len, unsigned thread)
{
    for (int i = 0; i < KV * D / 4 / THREADS; i++) {
        unsigned at = thread + i * THREADS, row = at / (D / 4), col = at % (D / 4) * 4;
        bf16x4 kx = {0}, vx = {0};
        if (first + (int)row < kv_len) {
            kx = *(GLOBAL const bf16x4 *)(k + (first + (int)row) * k_stride + col);
            vx = *(GLOBAL const bf16x4 *)(v + (first + (int)row) * v_stride + col);
        }
        *(LOCAL bf16x4 *)(k_tile + row * K_ROW + col) = kx;
        for (int j = 0; j < 4; j++)
            v_tile[(col + j) * V_ROW + row] = vx[j];
    }
}

static void load_query(GLOBAL const short *row, unsigned lane, bf16x4 *query)
{
    UNROLLED
    for (int s = 0; s < D / 8; s++)
        query[s] = *(GLOBAL const bf16x4 *)(row + s * 8 + (lane >> 5) * 4);
}

/* Multiplies the output by `rescale` and adds the product of the weights P and the tile's
 * values. */
static void add_values(const bf16x4 *p, float rescale, unsigned lane, f32x16 *o)
{
    UNROLLED
    for (int block = 0; block < D / 32; block++) {
        o[block] *= rescale;
        UNROLLED
        for (int s = 0; s < KV / 8; s++) {
            bf16x4 value = *(LOCAL bf16x4 *)(v_tile + (block * 32 + (lane & 31)) * V_ROW + s * 8 +
                                             (lane >> 5) * 4);
            o[block] = __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(value, p[s], o[block], 0, 0, 0);
        }
    }
}

static void store_row(const f32x16 *o, float factor, unsigned lane, GLOBAL short *row)
{
    UNROLLED
    for (int block = 0; block < D / 32; block++) {
        UNROLLED
        for (int i = 0; i < 16; i += 4) {
            bf16x4 x;
            for (int j = 0; j < 4; j++)
                x[j] = to_bf16(o[block][i + j] * factor);
            *(GLOBAL bf16x4 *)(row + block * 32 + i / 4 * 8 + (lane >> 5) * 4) = x;
        }
    }
}

__attribute__((amdgpu_kernel, amdgpu_flat_work_group_size(THREADS, THREADS))) void prefill(
    GLOBAL const short *q, GLOBAL const short *k, GLOBAL const short *v, GLOBAL short *out,
    GLOBAL const int *cu_q, GLOBAL const int *cu_k, long q_stride, long q_head, long k_stride,
    long k_head, long v_stride, long v_head, long out_stride, long out_head, int gqa,
    float scale_log2)
{
    unsigned thread = __builtin_amdgcn_workitem_id_x(), lane = thread & 63;
    int head = __builtin_amdgcn_workgroup_id_y(), sequence = __builtin_amdgcn_workgroup_id_z();
    int q_begin = cu_q[sequence], q_len = cu_q[sequence + 1] - q_begin;
    int k_begin = cu_k[sequence], kv_len = cu_k[sequence + 1] - k_begin;
    int first_row = __builtin_amdgcn_workgroup_id_x() * WAVES * ROWS;
    if (first_row >= q_len)
        return;
    int row = first_row + (int)(thread >> 6) * ROWS + (int)(lane & 31);
    int last_key = first_row + WAVES * ROWS + kv_len - q_len;
    int end = last_key < kv_len ? last_key : kv_len;
    k += k_begin * k_stride + head / gqa * k_head;
    v += k_begin * v_stride + head / gqa * v_head;

    bf16x4 query[D / 8] = {{0}};
    if (row < q_len)
        load_query(q + (q_begin + row) * q_stride + head * q_head, lane, query);
    f32x16 o[D / 32] = {{0}};
    float top = -__builtin_inff(), sum = 0;
    for (int first = 0; first < end; first += KV) {
        sync();
        load_tile(k, v, k_stride, v_stride, first, kv_len, thread);
        sync();

        f32x16 scores = {0};
        UNROLLED
        for (int s = 0; s < D / 8; s++) {
            bf16x4 key = *(LOCAL bf16x4 *)(k_tile + (lane & 31) * K_ROW + s * 8 + (lane >> 5) * 4);
            scores = __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(key, query[s], scores, 0, 0, 0);
        }
        float new_top = top;
        UNROLLED
        for (int i = 0; i < 16; i++) {
            int key = first + i / 4 * 8 + (int)(lane >> 5) * 4 + i % 4;
            scores[i] = key < kv_len && key <= row + kv_len - q_len ? scores[i] * scale_log2
                                                                    : -__builtin_inff();
            new_top = __builtin_fmaxf(new_top, scores[i]);
        }
        new_top = __builtin_fmaxf(new_top, across(new_top, lane));
        float base = new_top == -__builtin_inff() ? 0 : new_top;
        float rescale = __builtin_amdgcn_exp2f(top - base);
        bf16x4 p[KV / 8];
        sum *= rescale;
        UNROLLED
        for (int i = 0; i < 16; i++) {
            float x = __builtin_amdgcn_exp2f(scores[i] - base);
            sum += x;
            p[i / 4][i % 4] = to_bf16(x);
        }
        top = new_top;
        add_values(p, rescale, lane, o);
    }
    sum += across(sum, lane);
    if (row < q_len)
        store_row(o, sum > 0 ? 1 / sum : 0, lane,
                  out + (q_begin + row) * out_stride + head * out_head);
}
