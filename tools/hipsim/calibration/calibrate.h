/* SPDX-License-Identifier: Apache-2.0 */
/* The calibration program: the timing model against published figures, a line each. */
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

/* Sums over the lines of one target. */
struct tally {
    const char *names[ORDERS_MAX];    /* of orderings: literals, */
    bool wrong[ORDERS_MAX];           /* and how they came out */
    double error;                     /* sum of absolute errors of the attention rows */
    unsigned rows;                    /* attention rows that ran */
    double decode_error, short_error; /* the same of decode rows, and of short launches */
    unsigned decode_rows, short_rows;
    unsigned not_run;
    unsigned orders, orders_wrong;
};

struct target {
    const char *name;                            /* "gfx942" */
    const char *loops, *streams, *gemm, *reduce; /* our own code objects */
    const char *family;                          /* of rows, or NULL for all */
    const char *hsa;   /* directory of third-party code objects, or NULL */
    const char *shape; /* --shape: one attention launch to time, in place of all rows */
    bool gfx950;
    struct tally *tally;
};

/* Prints a line: what was published, what is modelled, the error. `fitted`: the model's parameters
 * were fitted to this row, it is no prediction. */
void print_row(const char *id, const char *what, double published, double modelled,
               const char *unit, bool fitted, const char *source);
void print_not_run(struct target *t, const char *id, const char *what, const char *why);
void print_order(struct target *t, const char *id, const char *what, bool right);

/* Ends the program with a sentence when a HIP call fails. */
void check(hipError_t error, const char *what);

/* Changes parameters of the model for the launches from now on; NULL: back to the tables. */
void set_parameters(const char *parameters);

/* Launches run whole from now on, several workgroups of them in time; else only one does that is
 * taken for all. Parameters are back to the tables. */
void execute_all(bool all);
/* Only this many workgroups run from now on, and others follow from their place between them. */
void execute_samples(uint32_t n);

/* Launches a kernel in time, with `bytes` of arguments, and returns its report. */
struct hipsim_time_report launch(hipFunction_t function, const uint32_t grid[3], uint32_t block,
                                 void *args, size_t bytes);
/* launch() with `lds` bytes of LDS beside those that the kernel has of its own. */
struct hipsim_time_report launch_with_lds(hipFunction_t function, const uint32_t grid[3],
                                          uint32_t block, uint32_t lds, void *args, size_t bytes);

/* A buffer on the device of bf16 numbers like those of attention: of 1/8 to 2, either sign. */
void *bf16_buffer(size_t bytes); /* attention.c */

void calibrate_loops(struct target *t);     /* loops.c: 5.4 A and C on our own programs */
void calibrate_products(struct target *t);  /* gemm.c: matrix products of public descriptions */
void calibrate_streams(struct target *t);   /* streams.c: memory-bound programs, measured */
void calibrate_attention(struct target *t); /* attention.c: section 3 and C3 on public kernels */
/* Times the public attention kernel on t->shape and prints a line of JSON. */
void time_attention_shape(struct target *t);                     /* attention.c */
void time_decode_shape(struct target *t, const char *shape);     /* decode.c: of latent attention */
void time_paged_shape(const struct target *t, const char *text); /* paged.c: decode */
void time_topk_shape(struct target *t, const char *shape);       /* topk.c: selection */
void time_object(const struct target *t, const char *path);      /* object.c: any code object */
void calibrate_decode(struct target *t); /* decode.c: latent attention with public kernels */

/* Runs a target's rows with changed parameters and prints nothing. */
struct tally run_quietly(struct target t, const char *parameters);

/* sensitivity.c: parameters that sources leave open, and what changes at the ends of their ranges.
 * list_parameters() prints name, value, lowest, highest, tag. */
void list_parameters(bool gfx950);
double parameter_value(bool gfx950, const char *name); /* as the table has it */
void calibrate_sensitivity(struct target t, const struct tally *base);

#endif
