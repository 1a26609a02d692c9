/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small programs for the simulator's core: assembled by LLVM at run time, run by the engine
 * with registers preset, registers read back afterwards.
 *
 *     struct program p = program_new(GFX942);
 *     program_fill(&p, 1, 0x40400000); 3.0f in all lanes
 *     program_run(&p, "v_add_f32 v0, v1, v2");
 *     assert_int_equal(p.v[0][5], ...);
 */
#ifndef TESTS_HIPSIM_PROGRAM_H
#define TESTS_HIPSIM_PROGRAM_H

#include "tests/unit_test.h"
#include "tools/hipsim/core/decode.h"
#include "tools/hipsim/core/engine.h"

#define PROGRAM_VGPRS 64
#define PROGRAM_AGPRS 8

/* A program's settings and initial registers. program_run() replaces the registers by the final
 * ones and sets the results. */
struct program {
    enum gfx_target target;
    uint32_t mode;
    uint32_t block; /* number of work-items per workgroup, default 64 */
    /* number of VGPRs of a wave; the first PROGRAM_VGPRS can be preset and read back */
    uint32_t vgprs;
    /* number of workgroups, default 1; the last one that ended gives the registers */
    uint32_t groups;
    bool together;           /* true: all workgroups run at the same time */
    uint32_t cluster;        /* gfx1250: workgroups per cluster along x; 0: no clusters */
    uint32_t named_barriers; /* gfx1250: number of named barriers in a workgroup */
    uint32_t lds_bytes, lds_limit;
    uint32_t private_bytes;
    uint32_t checks;
    uint32_t keep_going; /* mask of enum check_bits whose findings do not stop the program */
    uint64_t budget;
    bool one_by_one; /* true: instructions of straight-line code execute separately (straight.h) */
    enum wave_order order;
    uint64_t seed;
    uint64_t exec;
    uint32_t v[PROGRAM_VGPRS][64];
    uint32_t a[PROGRAM_AGPRS][64];
    uint32_t s[SGPR_FILE];
    /* mask of the lanes with defined values; initially all, tests may clear lanes */
    uint64_t v_valid[PROGRAM_VGPRS];
    uint32_t s_valid[SGPR_FILE];
    uint8_t scc, scc_valid;
    uint32_t mode_after;
    struct fault fault;
    uint64_t findings;
    struct fault found[4]; /* the first findings */
    unsigned places;
    bool race_incomplete;
    uint32_t lds_arrivals; /* workgroup.lds_arrivals at the end of the last workgroup */
    struct arrival_margins margins[MARGINS];
    struct counters counters;
};

/* Clang's settings for kernels: round to nearest, all denormals kept, IEEE and DX10_CLAMP. */
#define MODE_DEFAULT (MODE_DENORM_F32 | MODE_DENORM_F16_F64 | MODE_IEEE | MODE_DX10_CLAMP)

struct program program_new(enum gfx_target target);

/* Assembles text to machine code, allocated with malloc. Fails the test if it does not assemble. */
void *assemble(enum gfx_target target, const char *text, size_t *bytes);

/* Like assemble(), but returns NULL instead of failing. */
void *assemble_try(enum gfx_target target, const char *text, size_t *bytes);

/* Runs `text` and s_endpgm on one wave. Fails the test if there is a fault. */
void program_run(struct program *p, const char *text);

/* Runs `text` like program_run(), but stores a fault in p->fault. */
void program_try(struct program *p, const char *text);

/* Checks a kernel with a mistake and a similar kernel without. Fails the test unless the fault of
 * `bad` is of `kind` and `good` has none. The caller runs both. The texts are for the message. */
void check_pair(enum fault_kind kind, const struct fault *bad, const char *bad_text,
                const struct fault *good, const char *good_text);

/* Runs the program at byte `offset` of `code`. */
void program_at(struct program *p, struct code *code, uint64_t offset);

/*
 * A case of one instruction, with the operands a, b, c in v[2:3], v[4:5], v[6:7]. The result is v0,
 * or v[0:1] if the text names it. Initially both have 0xdeadbeef, and vcc has the odd lanes set.
 */
struct op_case {
    const char *text;
    uint64_t a, b, c, want;
};

/* Runs all cases. Fails the test with a list of the wrong results. */
void check_cases(enum gfx_target target, uint32_t mode, const struct op_case *cases, size_t n);

#define CHECK_CASES(target, mode, cases) \
    check_cases(target, mode, cases, sizeof(cases) / sizeof((cases)[0]))

/* Sets all lanes of a register. */
void program_fill(struct program *p, unsigned reg, uint32_t value);
void program_fill64(struct program *p, unsigned reg, uint64_t value);
uint64_t program_v64(const struct program *p, unsigned reg, unsigned lane);
uint64_t program_s64(const struct program *p, unsigned reg);

/* Advances a generator of pseudo-random numbers, and returns 24 random bits. */
static inline uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

static inline uint32_t bits_of(float f)
{
    union {
        float f;
        uint32_t u;
    } x = {.f = f};
    return x.u;
}

static inline float float_of(uint32_t u)
{
    union {
        uint32_t u;
        float f;
    } x = {.u = u};
    return x.f;
}

static inline uint64_t bits_of64(double f)
{
    union {
        double f;
        uint64_t u;
    } x = {.f = f};
    return x.u;
}

#endif
