/* SPDX-License-Identifier: Apache-2.0
 *
 * Waves share the blocks of the latent cache in LDS and nothing else. During the scores of one
 * block and the product of the previous one, the next block is in LDS and another one is in flight.
 * With weights of fp8 the softmax has no branch and runs beside the product.
 *
 *     one_wave: mla_decode: 128 columns in more than one pass, where LDS transposes c
 *     a wave has 32 columns, all keys and all of O: waves exchange nothing
 *     M1      memory    (rescale[4]), barrier[4]
 *     BEGIN   matrix +  block to LDS[1]
 *     C1      matrix    (sum P[4]), (round P[4]), read c.0[4], read K.1[3], QK[3]
 *     M2      memory    mask[3], (max[3]), find pages[0], block here[2], barrier[2]
 *     M3      memory    nothing
 *     C2      matrix    read c.1[4], (PV.0[4]), (PV[4]), (read c.2[4]), (PV.1[4]),
 *                       (exponents[3]), (exp2.0[3]), (P by blocks[3]), (exp2.1[3]), read K.0[2]
 *     LDS               block of a workgroup
 *     waves             all run the same phase
 */
#include "templates/mla_decode/one_wave.h"
#include "templates/mla_decode/pipelines/pipelines.h"

enum { PAGE, COPY, WAIT };

#define SCALED (1u << MLA_HAS_SCALED)

const struct pipe_phase mla_one_wave_phases[] = {[M1] = {"M1", PIPE_MEMORY, .open = 0},
                                                 [BEGIN] = {"BEGIN", PIPE_MATRIX, .open = 1},
                                                 [C1] = {"C1", PIPE_MATRIX, .open = 0},
                                                 [M2] = {"M2", PIPE_MEMORY, .open = 0},
                                                 [M3] = {"M3", PIPE_MEMORY, .open = 0},
                                                 [C2] = {"C2", PIPE_MATRIX, .open = 0},
                                                 [C2 + 1] = {0}};

static const struct pipe_buffer buffers[] = {{"block", GROUP, .scope = PIPE_WORKGROUP}, {0}};

/* Stages of the rows that two pipelines share. ARRIVES: a block arrives in LDS. SCORES: its scores
 * are computed. VALUES: its latent is multiplied with P. */
enum { ARRIVES, SCORES, VALUES };

const struct pipe_row mla_rows_one_wave[] = {
    {&pipe_await, ARRIVES, M2, .part = MLA_LDS_BLOCK},
    {&pipe_barrier, ARRIVES, M2, .part = 0},
    {&mla_read_k, ARRIVES, C2, .part = 0},
    {&mla_read_k, SCORES, C1, .part = 1},
    {&mla_product_qk, SCORES, C1, .part = 0},
    {&att_mask, SCORES, M2, .part = 0},
    {&att_check_scores, SCORES, M2, .unless = SCALED},
    {&att_exponent, SCORES, C2, .unless = SCALED},
    {&att_exp2, SCORES, C2, .unless = SCALED},
    {&mla_make_scaled, SCORES, C2, .needs = SCALED},
    {&mla_rescale_some, VALUES, M1, .unless = SCALED},
    {&mla_rescale_scaled, VALUES, M1, .needs = SCALED},
    {&pipe_barrier, VALUES, M1, .part = 0},
    {&att_exp2, SCORES, C2, .part = 1, .unless = SCALED},
    {&att_sum, VALUES, C1, .unless = SCALED},
    {&att_round, VALUES, C1, .unless = SCALED},
    {&mla_round_scaled, VALUES, C1, .needs = SCALED},
    {&mla_read_c, VALUES, C1, .part = 0},
    {&mla_read_c, VALUES, C2, .part = 1},
    {&att_product, VALUES, C2, .unless = SCALED},
    {&mla_product_scaled, VALUES, C2, .needs = SCALED},
    {&mla_read_c, VALUES, C2, .part = 2, .unless = SCALED},
    {&att_product, VALUES, C2, .part = 1, .unless = SCALED},
    {0}};

static const struct pipe_row rows[] = {{&mla_find_pages, PAGE, M2, .part = 0},
                                       {&mla_copy_block, COPY, BEGIN, .part = 0},
                                       {&pipe_part, WAIT, M1, .rows = mla_rows_one_wave},
                                       {0}};

const char *const mla_features[] = {"checks scores",         "checks the previous m",
                                    "checks weights",        "fp8 weights",
                                    "sum by product",        "l in rows of O",
                                    "last rows of O",        "custom mask",
                                    "weights with scales",   "blocks read once",
                                    "rotated key",           "lists",
                                    "one place for P",       "latent in halves",
                                    "several pieces",        "S summed over waves",
                                    "keys split over waves", "exchanged maxima",
                                    "one block in LDS",      "two blocks in LDS",
                                    "K read early",          NULL};

/* A read from LDS is scheduled 4 MFMAs of 32 clocks before its use. A read takes about 128 clocks,
 * with its time in the queue. */
const struct pipeline mla_one_wave = {
    .name = "one_wave",
    .when = "mla_decode: 128 columns in more than one pass, where LDS transposes c",
    .why = "a wave has 32 columns, all keys and all of O: waves exchange nothing",
    .phases = mla_one_wave_phases,
    .buffers = buffers,
    .slots = att_slots,
    .rows = rows,
    .features = mla_features,
    .spread = {TIR_COVER_EVEN, .read_ahead = 4},
    .roles = 1,
    .hides_itself = 1,
};
