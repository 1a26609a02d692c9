/* SPDX-License-Identifier: Apache-2.0 */
/* INT8 matrix kernels: exact sums modulo 2^32. Compiled once per host instruction set. */
#include <string.h>

#include "mfma_decode.h"
#include "mfma_vec.h"

/* Decoded A and B of a block: for each k, a line of rows of A or columns of B. */
struct int_operands {
    int16_t a[MAX_K][LINE], b[MAX_K][LINE];
};

/* Decodes A (`is_a`) or B of a block: line out[k] has the 8-bit elements of k, extended to 16
 * bits. */
static void decode_bytes(int16_t (*out)[LINE], const struct mfma_job *job, bool is_a,
                         unsigned block)
{
    const struct mfma_shape *s = &job->shape;
    const uint32_t (*rows)[MFMA_LANES] = is_a ? job->a : job->b;
    unsigned width = is_a ? s->m : s->n, lanes = width * s->blocks;
    unsigned per_lane = is_a ? mfma_a_per_lane(s) : mfma_b_per_lane(s);

    for (unsigned e = 0; e < per_lane; e++) {
        for (unsigned g = 0; g * lanes < MFMA_LANES; g++) {
            int16_t *line = out[mfma_k(s, FORMAT_I8, is_a, g, e)];
            for (unsigned i = 0; i < width; i++) {
                unsigned lane = g * lanes + block * width + i;
                lane = is_a ? lane : mfma_blgp_lane(lane, job->blgp);
                line[i] = (int8_t)(rows[e / 4][lane] >> (8 * (e % 4)));
            }
        }
    }
}

/* Decoded A and B: each dword has two neighbouring k in its halves, for instructions that multiply
 * both and add the products. */
struct pairs {
    uint32_t a[MAX_K / 2][LINE], b[MAX_K / 2][LINE];
};

/* Decodes A (`is_a`) or B of a block to pairs, out[k / 2]. `rows` are the operand's registers; B's
 * lanes already have BLGP's order. */
static void decode_pairs(uint32_t (*out)[LINE], const struct mfma_job *job, bool is_a,
                         unsigned block, const uint32_t (*rows)[MFMA_LANES])
{
    const struct mfma_shape *s = &job->shape;
    const unsigned width = is_a ? s->m : s->n, lanes = width * s->blocks;
    const unsigned per_lane = is_a ? mfma_a_per_lane(s) : mfma_b_per_lane(s);

    for (unsigned e = 0; e < per_lane; e += 2) {
        for (unsigned g = 0; g * lanes < MFMA_LANES; g++) {
            const uint32_t *from = rows[e / 4] + g * lanes + block * width;
            uint32_t *to = out[mfma_k(s, FORMAT_I8, is_a, g, e) / 2];
            for (unsigned l = 0; l < width; l += PART_COLS) {
                const vec_u bytes = load_u(from + l) >> (8 * (e % 4));
                const vec_i first = (vec_i)(bytes << 24) >> 24;
                const vec_i second = (vec_i)(bytes << 16) >> 24;
                const vec_u pair = ((vec_u)first & 0xffff) | (vec_u)second << 16;
                memcpy(to + l, &pair, sizeof(pair));
            }
        }
    }
}

/* Computes dense shapes with 16 columns or more. */
static void run_i8_dense(const struct mfma_job *job)
{
    const struct mfma_shape *s = &job->shape;
    uint32_t moved[8][MFMA_LANES];
    const uint32_t (*b)[MFMA_LANES] = job->b;
    unsigned reg, lane;
    struct pairs o;

    if (job->blgp) {
        JOIN(mfma_move_lanes, ISA)(job, moved);
        b = (const uint32_t (*)[MFMA_LANES])moved;
    }
    for (unsigned block = 0; block < s->blocks; block++) {
        decode_pairs(o.a, job, true, mfma_block_of_a(job, block), job->a);
        decode_pairs(o.b, job, false, block, b);
        for (unsigned i = 0; i < s->m; i++) {
            mfma_d_place(s, false, block, i, &reg, &lane);
            for (unsigned j = 0; j < s->n; j += PART_COLS) {
                vec_i acc = (vec_i)load_u(&job->c[reg][lane + j]);
                for (unsigned k = 0; k < s->k / 2u; k++)
                    acc = vec_add(acc, vec_dot_halves((vec_u){0} + o.a[k][i], load_u(&o.b[k][j])));
                memcpy(&job->d[reg][lane + j], &acc, sizeof(acc));
            }
        }
    }
}

/* Computes the 4x4 and the sparse shapes. */
static void run_i8(const struct mfma_job *job)
{
    const struct mfma_shape *s = &job->shape;
    unsigned count = s->sparse ? s->k / 2u : s->k, reg, lane;
    uint8_t lines[MAX_K];
    struct int_operands o;

    for (unsigned k = 0; k < MAX_K; k++)
        lines[k] = (uint8_t)k;
    for (unsigned block = 0; block < s->blocks; block++) {
        decode_bytes(o.a, job, true, mfma_block_of_a(job, block));
        decode_bytes(o.b, job, false, block);
        for (unsigned i = 0; i < s->m; i++) {
            uint32_t acc[LINE];
            if (s->sparse)
                mfma_select_lines(job, i, lines);
            mfma_d_place(s, false, block, i, &reg, &lane);
            memcpy(acc, &job->c[reg][lane], s->n * sizeof(*acc));
            for (unsigned k = 0; k < count; k++)
                for (unsigned j = 0; j < s->n; j++)
                    acc[j] += (uint32_t)(o.a[k][i] * o.b[lines[k]][j]);
            memcpy(&job->d[reg][lane], acc, s->n * sizeof(*acc));
        }
    }
}

void JOIN(mfma_run_i8, ISA)(const struct mfma_job *job)
{
    if (!job->shape.sparse && job->shape.n >= COLS)
        run_i8_dense(job);
    else
        run_i8(job);
}
