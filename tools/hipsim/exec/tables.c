/* SPDX-License-Identifier: Apache-2.0 */
/* The list of op-row tables, with the lane kernels of the best instruction set that this CPU
 * has. */
#include <stddef.h>

#include "lane_mem.h"
#include "tables.h"

#define TABLES(T, isa) \
    T(vop_int, isa) T(vop_float, isa) T(vop_half, isa) T(vop_wide, isa) T(vop_trans, isa) \
    T(vop_cmp, isa) T(vop_cvt, isa) T(vop_scale, isa) T(vop_packed, isa) T(vop_gfx1250, isa) \
    T(exec_wmma, isa)

#define DECLARE(table, isa) extern const struct op_row table##_rows_##isa[];
#define ENTRY(table, isa) table##_rows_##isa,
#define LIST(isa) \
    TABLES(DECLARE, isa) \
    static const struct op_row *const list_##isa[] = { \
        exec_sop_rows, exec_control_rows, exec_cross_rows, exec_smem_rows, exec_flat_rows, \
        exec_mubuf_rows, exec_format_rows, exec_ds_rows, exec_mfma_rows, exec_gfx1250_rows, \
        exec_sfloat_rows, exec_sop_gfx1250_rows, exec_async_rows, exec_transpose_rows, \
        exec_permute_rows, exec_barrier_rows, TABLES(ENTRY, isa) NULL, \
    };

LIST(plain)
#ifdef HIPSIM_X86
LIST(avx2)
LIST(avx512)
#endif

static enum host_isa chosen = HOST_BEST;

void host_isa_force(enum host_isa isa)
{
    chosen = isa;
}

bool host_isa_supported(enum host_isa isa)
{
#ifdef HIPSIM_X86
    __builtin_cpu_init();
    if (isa == HOST_AVX512)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
            && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (isa == HOST_AVX2)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")
            && __builtin_cpu_supports("f16c") && __builtin_cpu_supports("bmi2");
#endif
    return isa == HOST_PLAIN || isa == HOST_BEST;
}

enum host_isa host_isa(void)
{
    static _Atomic enum host_isa best; /* read at every matrix instruction and LDS access */

    if (chosen != HOST_BEST)
        return chosen;
    if (best == HOST_BEST)
        best = host_isa_supported(HOST_AVX512) ? HOST_AVX512
             : host_isa_supported(HOST_AVX2)   ? HOST_AVX2
                                               : HOST_PLAIN;
    return best;
}

extern const struct lane_loops lane_loops_plain;
#ifdef HIPSIM_X86
extern const struct lane_loops lane_loops_avx2, lane_loops_avx512;
#endif

const struct lane_loops *lane_loops(void)
{
#ifdef HIPSIM_X86
    switch (host_isa()) {
    case HOST_AVX512: return &lane_loops_avx512;
    case HOST_AVX2: return &lane_loops_avx2;
    default: break;
    }
#endif
    return &lane_loops_plain;
}

void exec_straight_plain(struct wave *w, const struct inst *const *in, unsigned n);
void exec_straight_avx2(struct wave *w, const struct inst *const *in, unsigned n);
void exec_straight_avx512(struct wave *w, const struct inst *const *in, unsigned n);

void exec_straight(struct wave *w, const struct inst *const *in, unsigned n)
{
#ifdef HIPSIM_X86
    switch (host_isa()) {
    case HOST_AVX512: exec_straight_avx512(w, in, n); return;
    case HOST_AVX2: exec_straight_avx2(w, in, n); return;
    default: break;
    }
#endif
    exec_straight_plain(w, in, n);
}

const struct op_row *const *exec_tables(void)
{
#ifdef HIPSIM_X86
    switch (host_isa()) {
    case HOST_AVX512: return list_avx512;
    case HOST_AVX2: return list_avx2;
    default: break;
    }
#endif
    return list_plain;
}
