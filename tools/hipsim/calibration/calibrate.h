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

/* Results of one target's rows. An ordering is a published statement that one launch is faster than
 * another. */
struct tally {
    const char *names[ORDERS_MAX];    /* names of the orderings, string literals */
    bool wrong[ORDERS_MAX];           /* true: the ordering is wrong */
    double error;                     /* sum of absolute relative errors of the attention rows */
    unsigned rows;                    /* number of attention rows that ran */
    double decode_error, short_error; /* the same sums for decode rows and for short launches */
    /* Numbers of decode rows and of rows of short launches that ran. */
    unsigned decode_rows, short_rows;
    /* Number of rows that could not run. */
    unsigned not_run;
    /* Number of orderings that were tested, and of those that the model gets wrong. */
    unsigned orders, orders_wrong;
};

struct target {
    const char *name;                            /* name of the target, such as "gfx942" */
    const char *loops, *streams, *gemm, *reduce; /* paths of this program's code objects */
    /* name of the family of rows to run, such as "decode"; NULL: all */
    const char *family;
    const char *hsa;   /* path of the directory with third-party code objects; NULL: none */
    const char *shape; /* attention launch of --shape to time instead of the rows; NULL: none */
    bool gfx950;
    struct tally *tally;
};

/* Prints a line with the published figure, the modelled one and the error. `fitted`: model
 * parameters were fitted to this row, so it is no prediction. */
void print_row(const char *id, const char *what, double published, double modelled,
               const char *unit, bool fitted, const char *source);
/* Prints a line for a row that could not run, with the reason `why`, and counts it. */
void print_not_run(struct target *t, const char *id, const char *what, const char *why);
/* Prints a line for the ordering `what`, and counts it. `right`: the model has the published
 * order. */
void print_order(struct target *t, const char *id, const char *what, bool right);

/* Ends the program with a sentence if a HIP call fails. */
void check(hipError_t error, const char *what);

/* Changes the model's parameters for later launches; NULL resets them to the tables' values. */
void set_parameters(const char *parameters);

/* Selects how later launches are timed. `all`: all workgroups are executed and several timed.
 * Otherwise one is executed and timed, and the others are assumed to be equal. Resets the
 * parameters to the tables' values. */
void execute_all(bool all);
/* Executes and times only `n` workgroups of later launches. The figures of others are interpolated
 * by position. */
void execute_samples(uint32_t n);

/* Launches and times a kernel with workgroups of `block` work-items and `bytes` bytes of arguments.
 * Returns its report. */
struct hipsim_time_report launch(hipFunction_t function, const uint32_t grid[3], uint32_t block,
                                 void *args, size_t bytes);
/* Launches and times a kernel as launch() does, with `lds` bytes of dynamic LDS. */
struct hipsim_time_report launch_with_lds(hipFunction_t function, const uint32_t grid[3],
                                          uint32_t block, uint32_t lds, void *args, size_t bytes);

/* Creates a device buffer of bf16 numbers like those in attention: 1/8 to 2, either sign. */
void *bf16_buffer(size_t bytes);

/* Times and prints the rows of a target for loops of single instructions, made for this program
 * (loops.c). */
void calibrate_loops(struct target *t);
/* Times and prints the rows for matrix products made from public descriptions (gemm.c). */
void calibrate_products(struct target *t);
/* Times and prints the rows for memory-bound programs that others have measured (streams.c). */
void calibrate_streams(struct target *t);
/* Times and prints the rows for attention with public kernels (attention.c). */
void calibrate_attention(struct target *t);

/* Times the public attention kernel on t->shape and prints a line of JSON. */
void time_attention_shape(struct target *t);
/* Times a launch of latent attention with the shape `shape` and prints a line of JSON. */
void time_decode_shape(struct target *t, const char *shape);
/* Times a launch of paged decode with the shape `text` and prints a line of JSON. */
void time_paged_shape(const struct target *t, const char *text);
/* Times a launch of a top-k selection with the shape `shape` and prints a line of JSON. */
void time_topk_shape(struct target *t, const char *shape);
/* Times a launch of the code object that the file `path` describes and prints a line of JSON. */
void time_object(const struct target *t, const char *path);

/* Times and prints the rows for backward attention with public kernels (backward.c). */
void calibrate_backward(struct target *t);
/* Times and prints the rows for latent attention with public kernels (decode.c). */
void calibrate_decode(struct target *t);

/* Runs a target's rows with changed parameters and prints nothing. Returns its results. */
struct tally run_quietly(struct target t, const char *parameters);

/* Prints name, value, minimum, maximum and tag of each parameter that sources leave open. */
void list_parameters(bool gfx950);
/* Returns the value of the parameter `name` in the target's table. */
double parameter_value(bool gfx950, const char *name);
/* Times the rows of `t` with each open parameter at both ends of its range, and prints what differs
 * from `base`. */
void calibrate_sensitivity(struct target t, const struct tally *base);

#endif
