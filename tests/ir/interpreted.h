/* SPDX-License-Identifier: Apache-2.0
 *
 * A template's kernel in the interpreter, as the template writes it and after the passes: what it
 * computes is right after each of them.
 */
#ifndef TESTS_IR_INTERPRETED_H
#define TESTS_IR_INTERPRETED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ir/interp.h"
#include "templates/template.h"

/** The template of an op; a name that is none fails the test. */
const struct att_template *template_of(const char *op);

/** An argument's value, in the test's table of arguments. */
struct known {
    const char *name;
    int64_t value;
};
/** NULL where no row has that name. */
const struct known *find_known(const struct known *known, size_t count, const char *name);
/** The value of the row of that name; without one the test fails. */
int64_t known_value(const struct known *known, size_t count, const char *name);
int64_t address(const void *p);
int64_t bits_of(float f);

/** Numbers from -1 to 1; the same ones after the same seed. */
void seed_random(uint32_t seed);
double random_number(void);
/** `n` elements of bf16 or fp16 from -2 to 2. */
void fill_random(uint16_t *elements, unsigned dtype, size_t n);
/** malloc() that fails the test. */
void *allocate(size_t n, size_t size);

/** A byte per query and key, 0 for three of ten: those of sequence s from indptr[s] on. */
uint8_t *random_mask(const int32_t *kv_lens, int batch, int q_len, int64_t *indptr);
/** The item of a work list for part `part` of `parts` of sequence s, which has n keys and q_len
 * queries; heads `first` to `end` - 1. Parts are cut at multiples of 32 keys, so that one of a
 * short sequence is empty; a sequence without keys has one item. False: there is no such item. */
bool work_item(int32_t item[8], int s, int n, int q_len, int part, int parts, int first, int end);

/** TIR_BF16 or TIR_F16. */
unsigned dtype_of(const struct att_variant *v);
/** An element of that dtype. */
double number(const struct att_variant *v, uint16_t bits);

/**
 * The results of attention, and the expected ones: out and expected [token, head, head_dim_v], lse
 * [head, token], expected_lse [token, head]; parts of sequence s are partial_out [s, part, query,
 * head, head_dim_v] and partial_lse.
 */
struct attention_result {
    const struct att_variant *v;
    int tokens, heads, q_len; /* q_len: tokens of a sequence */
    int parts;                /* of a sequence; those without keys have none */
    bool in_parts;            /* the result is the sum of the parts, not out and lse */
    const int32_t *kv_lens;   /* with in_parts */
    const float *sinks;       /* [heads], or NULL */
    uint16_t *out;
    float *lse, *partial_out, *partial_lse;
    const double *expected, *expected_lse;
    double lse_bound; /* largest error of an lse; 0: none was written */
    double rounding;  /* of the weights, where it is more than that of the output's type; or 0 */
};

/** A kernel and the call of it: `problem` is the test's own. */
struct interpreted {
    const struct att_variant *v;
    void *problem;
    /** The value of a kernel argument; a float's bits. */
    int64_t (*argument)(const void *problem, const char *name);
    /** Poisoned before each run and checked behind it; without `out` there is none. */
    struct attention_result attention;
    /** Before each run: overwrites what else the kernel is to write. May be NULL. */
    void (*poison)(void *problem);
    /** Is what else the kernel wrote right? If not, `why` says so. May be NULL. */
    bool (*is_right)(const void *problem, char why[TIR_WHY]);
    unsigned grid[3];    /* workgroups; 0: the kernel's own grid, from its arguments */
    bool lowerings_only; /* runs it after the passes lower_* alone */
    bool round_trip;     /* prints and parses it after each pass too */
};

/** Builds the kernel and runs it; fails the test with the pass after which it is wrong. */
void interpret_kernel(const struct interpreted *k);

#endif
