/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a template's kernel in the interpreter, as the template writes it and after passes. The
 * results must be right each time.
 */
#ifndef TESTS_IR_INTERPRETED_H
#define TESTS_IR_INTERPRETED_H

#include "ir/interp.h"
#include "templates/template.h"
#include "tests/unit_test.h"

/** Returns the template of an op. An unknown name fails the test. */
const struct att_template *template_of(const char *op);

/** A row of the test's table of arguments: a name and its value. */
struct known {
    const char *name;
    int64_t value;
};
/** Returns the row of this name; NULL if there is none. */
const struct known *find_known(const struct known *known, size_t count, const char *name);
/** Returns the value of the row of this name. The test fails if there is none. */
int64_t known_value(const struct known *known, size_t count, const char *name);

/** Returns a pointer as the value of a kernel argument. */
int64_t address(const void *p);
/** Returns the bits of a float as the value of a kernel argument. */
int64_t bits_of(float f);

/** Seeds random_number(). */
void seed_random(uint32_t seed);
/** Returns a random number from -1 to 1. */
double random_number(void);
/** Fills `n` elements of bf16 or fp16 with numbers from -2 to 2. */
void fill_random(uint16_t *elements, unsigned dtype, size_t n);
/** Allocates zeroed memory. The test fails if there is none. */
void *allocate(size_t n, size_t size);

/** Makes a mask: a byte for each query and key, 0 for three of ten. Sequence s begins at
 * indptr[s]. */
uint8_t *random_mask(const int32_t *kv_lens, int batch, int q_len, int64_t *indptr);
/** Makes an item of a work list: part `part` of `parts` of sequence s, for heads `first` to `end` -
 * 1. The sequence has n keys and q_len queries. Parts are split at multiples of 32 keys, so one of
 * a short sequence may be empty. A sequence without keys has one item. False if there is no such
 * item. */
bool work_item(int32_t item[8], int s, int n, int q_len, int part, int parts, int first, int end);

/** Returns the variant's dtype as TIR_BF16 or TIR_F16. */
unsigned dtype_of(const struct att_variant *v);
/** Returns the value of an element of the variant's dtype. */
double number(const struct att_variant *v, uint16_t bits);

/**
 * The results of attention and the expected ones. out and expected are [token, head, head_dim_v],
 * lse is [head, token], expected_lse [token, head]. Parts of sequence s are partial_out [s, part,
 * query, head, head_dim_v] and partial_lse.
 */
struct attention_result {
    const struct att_variant *v;
    int tokens, heads, q_len; /* q_len: queries of a sequence */
    int parts;                /* number of parts of a sequence; one without keys has none */
    bool in_parts;            /* the result is the sum of the parts; out and lse are not written */
    const int32_t *kv_lens;   /* keys of each sequence; only used with in_parts */
    const float *sinks;       /* [heads], or NULL */
    uint16_t *out;
    float *lse, *partial_out, *partial_lse;
    const double *expected, *expected_lse;
    double lse_bound; /* largest error of an lse; 0: none was written */
    double rounding;  /* relative rounding of the weights if it exceeds the output's; else 0 */
};

/** A kernel and its call. `problem` is the test's own data. */
struct interpreted {
    const struct att_variant *v;
    void *problem;
    /** Returns the value of a kernel argument; of a float its bits. */
    int64_t (*argument)(const void *problem, const char *name);
    /** The kernel's outputs: filled with poison before each run, checked after it. out NULL: the
     * kernel computes no attention. */
    struct attention_result attention;
    /** Overwrites the kernel's outputs other than `attention` before each run. May be NULL. */
    void (*poison)(void *problem);
    /** Checks the kernel's outputs other than `attention`. False: `why` says what is wrong. May be
     * NULL. */
    bool (*is_right)(const void *problem, char why[TIR_WHY]);
    unsigned grid[3]; /* workgroups in x, y, z; 0: as the kernel's arguments give them */
    bool each_pass;   /* runs the kernel after each pass; false: only after the last pass, and
                       * after each pass if that result is wrong */
    bool round_trip;  /* true: the kernel is also printed and parsed after each pass */
};

/** Builds the kernel. Runs it as the template writes it and after passes, as k->each_pass says. The
 * test fails if a result is wrong, and names the first pass with such a result. */
void interpret_kernel(const struct interpreted *k);

#endif
