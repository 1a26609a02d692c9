/* SPDX-License-Identifier: Apache-2.0 */
/* The calibration program: compares the timing model with published figures, one line each. */
#ifndef HIPSIM_CALIBRATE_H
#define HIPSIM_CALIBRATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/hipsim/hip/hipsim.h"
#include "tools/hipsim/time/hipsim_time.h"

#define __HIP_PLATFORM_AMD__
#include <hip/hip_runtime_api.h>

#define ORDERS_MAX 32

/* Results of one target's rows. */
struct tally {
    const char *names[ORDERS_MAX];    /* names of orderings, string literals */
    bool wrong[ORDERS_MAX];           /* by ordering: it is wrong */
    double error;                     /* sum of absolute errors of the attention rows */
    unsigned rows;                    /* attention rows that ran */
    double decode_error, short_error; /* the same for decode rows and for short launches */
    unsigned decode_rows, short_rows;
    unsigned not_run;
    unsigned orders, orders_wrong;
};

struct target {
    const char *name;                            /* "gfx942" */
    const char *loops, *streams, *gemm, *reduce; /* code objects of this program */
    const char *family;                          /* family of rows to run; NULL: all */
    const char *hsa;   /* directory of third-party code objects; NULL: none */
    const char *shape; /* --shape: an attention launch to time instead of the rows */
    bool gfx950;
    struct tally *tally;
};

/* Prints a line with the published figure, the modelled one and the error. `fitted`: model
 * parameters were fitted to this row, so it is no prediction. */
void print_row(const char *id, const char *what, double published, double modelled,
               const char *unit, bool fitted, const char *source);
void print_not_run(struct target *t, const char *id, const char *what, const char *why);
void print_order(struct target *t, const char *id, const char *what, bool right);

/* Ends the program with a sentence if a HIP call fails. */
void check(hipError_t error, const char *what);

/* Changes the model's parameters for later launches; NULL resets them to the tables. */
void set_parameters(const char *parameters);

/* Selects how later launches are timed: all: execute all workgroups and time several; otherwise
 * execute and time one, and assume that all are equal. Resets the parameters to the tables. */
void execute_all(bool all);
/* Executes and times only `n` workgroups of later launches; others are interpolated by position. */
void execute_samples(uint32_t n);

/* Launches and times a kernel with `bytes` of arguments, and returns its report. */
struct hipsim_time_report launch(hipFunction_t function, const uint32_t grid[3], uint32_t block,
                                 void *args, size_t bytes);
/* Launches with `lds` bytes of dynamic LDS. */
struct hipsim_time_report launch_with_lds(hipFunction_t function, const uint32_t grid[3],
                                          uint32_t block, uint32_t lds, void *args, size_t bytes);

/* Creates a device buffer of bf16 numbers like those in attention: 1/8 to 2, either sign. */
void *bf16_buffer(size_t bytes); /* attention.c */

void calibrate_loops(struct target *t);     /* loops.c: rows A and C with programs of this
                                             * directory */
void calibrate_products(struct target *t);  /* gemm.c: matrix products by public descriptions */
void calibrate_streams(struct target *t);   /* streams.c: measured memory-bound programs */
void calibrate_attention(struct target *t); /* attention.c: rows B and C3 with public kernels */
/* Times the public attention kernel on t->shape and prints a line of JSON. */
void time_attention_shape(struct target *t);                     /* attention.c */
void time_decode_shape(struct target *t, const char *shape);     /* decode.c: latent attention */
void time_paged_shape(const struct target *t, const char *text); /* paged.c: decode */
void time_topk_shape(struct target *t, const char *shape);       /* topk.c: selection */
void time_object(const struct target *t, const char *path);      /* object.c: any code object */
void calibrate_backward(struct target *t); /* backward.c: with public kernels */
void calibrate_decode(struct target *t);   /* decode.c: latent attention with public kernels */

/* Runs a target's rows with changed parameters, without output. */
struct tally run_quietly(struct target t, const char *parameters);

/* sensitivity.c: parameters that sources leave open, and what changes at the ends of their ranges.
 * list_parameters() prints name, value, minimum, maximum, tag. */
void list_parameters(bool gfx950);
double parameter_value(bool gfx950, const char *name); /* value in the table */
void calibrate_sensitivity(struct target t, const struct tally *base);

#endif
