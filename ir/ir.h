/* SPDX-License-Identifier: Apache-2.0
 *
 * The tile IR: SSA with structured control flow over scalars, tiles and per-lane vectors.
 *
 * Two levels share this one representation. Templates build tiles; `lower_tiles` expands every tile
 * op into register ops (vecs), and from there the order of ops is the order of machine
 * instructions. ir/LANGUAGE.md describes the printed form, ir/ops.def the ops.
 *
 * Everything of a function lives in its arena and dies with it; ops and values are 32-bit handles.
 */
#ifndef IR_IR_H
#define IR_IR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ir/layout.h"
#include "ir/machine.h"

enum tir_dtype {
    TIR_NONE,
    TIR_I1,
    TIR_I8,
    TIR_I16,
    TIR_I32,
    TIR_I64,
    TIR_F16,
    TIR_BF16,
    TIR_F32,
    TIR_FP8,  /* e4m3 as the target has it: fnuz or OCP */
    TIR_RSRC, /* buffer resource, 4 dwords, scalar only */
    TIR_N_DTYPES
};

enum tir_kind {
    TIR_SCALAR, /* one value for the whole wave */
    TIR_VEC,    /* `count` elements in each lane */
    TIR_TILE,   /* rows x cols spread over the workgroup by `layout` */
};

/* The type of a value: its kind, element type and size. */
struct tir_type {
    uint8_t kind;        /* enum tir_kind */
    uint8_t dtype;       /* enum tir_dtype */
    uint16_t count;      /* TIR_VEC: elements of a lane */
    uint16_t rows, cols; /* TIR_TILE: numbers of rows and columns */
    uint32_t layout;     /* TIR_TILE: index into the function's layouts */
};

enum tir_opcode {
#define OP(name, ...) TIR_##name,
#include "ir/ops.def"
#undef OP
    TIR_N_OPCODES
};

/* Values of the attr `rounding` of convert and convert_pair: to nearest with ties to even, to
 * nearest with ties either way, and toward zero. */
enum tir_rounding { TIR_NEAREST_EVEN, TIR_TIES_ANY, TIR_TOWARD_ZERO };

/* Effects of an op, a bit each: it has none and may be moved, merged or dropped; it reads memory or
 * LDS; it writes memory or LDS; it completes later, at a wait; it keeps its place among all ops
 * with effects. */
enum tir_op_flags {
    TIR_PURE = 1,
    TIR_READS = 2,
    TIR_WRITES = 4,
    TIR_ASYNC = 8,
    TIR_FENCE = 16,
};

/* The level at which an op may appear: at any; only before lower_tiles; only after lower_tiles; at
 * any, as control flow. */
enum tir_op_level { TIR_LEVEL_ANY, TIR_LEVEL_TILE, TIR_LEVEL_VEC, TIR_LEVEL_FLOW };
/* The rule for a result's type: there is no result; the caller of the builder gives the type; it is
 * an operand's type; it is an operand's shape with i1 elements. */
enum tir_result_rule { TIR_RESULT_NONE, TIR_RESULT_GIVEN, TIR_RESULT_SAME, TIR_RESULT_PRED };

struct tir_op_info {
    const char *name;
    int8_t operands; /* -1: any number */
    /* The rule (enum tir_result_rule), and the index of the operand that the rule names. */
    uint8_t result_rule, result_operand;
    uint8_t level;         /* enum tir_op_level */
    uint8_t flags;         /* bits of enum tir_op_flags */
    const char *attrs;     /* comma-separated names of imm[] */
    const char *signature; /* types of operands and result; see ops.def */
    const char *semantics; /* one sentence: what d, the result, is */
};
extern const struct tir_op_info tir_ops[TIR_N_OPCODES];

/** A value: the result of an op, or a parameter of a block. Id 0 is no value. */
struct tir_value {
    uint32_t id;
};

/** An op of a function. Id 0 is no op. */
struct tir_ref {
    uint32_t id;
};

enum {
    TIR_MAX_IMM = 5,      /* most attributes of an op */
    TIR_NO_STAGE = 0xff,  /* value of `stage` outside of pipelined loops */
    TIR_MAX_STAGES = 8,   /* most stages of a pipelined loop */
    TIR_MAX_PHASES = 8,   /* most phases of an iteration of a pipelined loop */
    TIR_MAX_VEC = 1024,   /* most elements of a lane in one vec */
    TIR_OP_CHUNK_LOG2 = 8 /* ops are stored in chunks of 256, so their addresses are stable */
};

struct tir_op {
    uint16_t opcode; /* enum tir_opcode */
    uint8_t stage;   /* software-pipeline stage from the builder's cursor, or TIR_NO_STAGE */
    uint8_t phase;   /* number of the op's phase in an iteration of a pipelined loop */
    uint32_t n_operands, n_results;
    uint32_t line; /* number, from 1, of the op's line in the text of tir_number_lines(); 0: none */
    struct tir_value *operands;
    struct tir_value result;     /* first result; the others follow with consecutive ids */
    int64_t imm[TIR_MAX_IMM];    /* the op's attributes, in the order of tir_op_info.attrs */
    struct tir_block *blocks[2]; /* for: body; if: then, else */
};

/* A sequence of ops with parameters, nested in an op. */
struct tir_block {
    struct tir_block *parent; /* block that contains the op `owner`; NULL for the function's body */
    struct tir_ref owner;     /* op that contains this block; id 0 for the function's body */
    struct tir_ref *ops;      /* ops in program order */
    uint32_t n_ops, cap_ops;
    struct tir_value *params; /* parameters of a loop's body: the index, then carried values */
    uint32_t n_params, cap_params;
};

/** A kernel argument. The runtime fills the kernarg segment by these records. */
struct tir_arg {
    const char *name; /* name of the argument, as in op_args.def, which is made from ops/ */
    uint8_t dtype;    /* enum tir_dtype; a pointer is TIR_I64 */
    /* bytes from the start of the kernarg segment, a multiple of the argument's size */
    uint16_t offset;
};

/* The definition of a value: the op or the block that defines it. */
struct tir_value_info {
    struct tir_type type;
    /* op that defines the value; id 0: the value is a parameter of a block */
    struct tir_ref def;
    struct tir_block *block; /* block whose parameter the value is; NULL for an op's result */
    const char *name;        /* name in dumps, from tir_name(); NULL: none */
};

/* A kernel in tile IR or, after lower_tiles, in register ops. */
struct tir_func {
    const char *name;
    const struct tir_machine *machine;
    struct tir_arena *arena;
    unsigned waves;     /* waves of a workgroup */
    unsigned lds_bytes; /* bytes of static LDS of a workgroup */
    /* Waves that share a SIMD. tir_wave_vgprs() returns the registers that each of them may use. */
    unsigned waves_per_simd;
    /* true: the kernel's descriptor claims only the registers that the code uses, and no AGPRs,
     * since LDS limits the occupancy. False: LLVM may use all registers of the occupancy */
    bool trimmed;

    bool lowered; /* set by lower_tiles: from here on no TILE op and no tile value */

    struct tir_op **op_chunks; /* pointers to chunks of ops, indexed by op id; id 0 is unused */
    uint32_t n_ops, cap_chunks;
    /* records by value id; values[0] is unused. The array moves when values are added */
    struct tir_value_info *values;
    uint32_t n_values, cap_values;
    /* pointers to layouts, by index; a layout itself never moves */
    const struct tir_layout **layouts;
    uint32_t n_layouts, cap_layouts;
    struct tir_arg *args;
    uint32_t n_args, cap_args;
    const char **hooks; /* names of user functions that call_hook may call */
    uint32_t n_hooks, cap_hooks;
    struct tir_block *body; /* the kernel's ops */
};

/** Creates an empty function for `machine`, which must outlive it. Returns NULL if memory is
 * exhausted. The caller frees it with tir_func_destroy(). */
struct tir_func *tir_func_create(const char *name, const struct tir_machine *machine,
                                 unsigned waves);
/** Frees a function with all its ops; NULL is allowed. */
void tir_func_destroy(struct tir_func *f);

/** Returns op `r` of function `f`. The pointer is valid as long as the function exists. */
static inline struct tir_op *tir_op(const struct tir_func *f, struct tir_ref r)
{
    return &f->op_chunks[r.id >> TIR_OP_CHUNK_LOG2][r.id & ((1u << TIR_OP_CHUNK_LOG2) - 1)];
}

/* Returns the type of value `v`. */
static inline struct tir_type tir_typeof(const struct tir_func *f, struct tir_value v)
{
    return f->values[v.id].type;
}

/* Returns result `i` of `op`; results have consecutive ids. */
static inline struct tir_value tir_result(const struct tir_op *op, unsigned i)
{
    return (struct tir_value){op->result.id + i};
}

/** The two counts in the i32 that `await` reads: waves that arrived, in the bits of the mask
 * TIR_ARRIVED, and from bit TIR_LEFT_BIT on the waves that gave up. */
enum { TIR_ARRIVED = 0xffff, TIR_LEFT_BIT = 16 };

/* number of groups of asynchronous copies that tir_wait() distinguishes */
enum { TIR_COPY_GROUPS = 8 };

/** Returns the index of the kernel argument `name`. Appends it with type `dtype` if there is
 * none. */
uint32_t tir_add_arg(struct tir_func *f, const char *name, unsigned dtype);

/** Returns the index of the hook `name` in f->hooks. Adds the name if it is not there. */
uint32_t tir_hook(struct tir_func *f, const char *name);

/** Returns the size of one element in bits. */
unsigned tir_dtype_bits(unsigned dtype);
/** Returns the name of a data type in the printed form. */
const char *tir_dtype_name(unsigned dtype);

/** Returns the type of one value for a whole wave. */
struct tir_type tir_scalar(unsigned dtype);
/** Returns the type of `count` elements in each lane. */
struct tir_type tir_vec(unsigned dtype, unsigned count);
/** Returns a type of the same shape and layout with elements of `dtype`. */
struct tir_type tir_with_dtype(struct tir_type t, unsigned dtype);
/** Returns a tile type. Layouts are interned: equal ones share an index. */
struct tir_type tir_tile(struct tir_func *f, unsigned dtype, unsigned rows, unsigned cols,
                         const struct tir_layout *layout);
/** Returns the layout of a tile type. */
const struct tir_layout *tir_layout_of(const struct tir_func *f, struct tir_type t);
/** Returns the index of a layout in f->layouts. Adds the layout if no equal one is there. */
uint32_t tir_intern_layout(struct tir_func *f, const struct tir_layout *layout);

/** Packs a tile type into the integer that the attr `shape` holds: dtype, rows, cols and layout. */
int64_t tir_pack_type(struct tir_type t);
/** Returns the tile type that tir_pack_type() has packed. */
struct tir_type tir_unpack_type(int64_t packed);
/** True if both types are the same, with the same layout. */
bool tir_type_equal(struct tir_type a, struct tir_type b);

/** Allocates zeroed memory that is freed with the function. */
void *tir_alloc(struct tir_func *f, size_t bytes);
/** Copies a string to memory that is freed with the function. */
const char *tir_strdup(struct tir_func *f, const char *s);

/** The function that handles exhausted memory after tir_func_create() has succeeded. It must not
 * return. NULL, the default, means abort(). A tool sets it before it starts threads. */
extern void (*tir_out_of_memory)(void);

/** Reads the next name of a comma-separated list of attrs and advances `attrs` past it. A '?' at
 * the name's end is dropped, and *is_flag is true if there was one. Returns false at the list's
 * end. */
bool tir_next_attr(const char **attrs, char name[16], bool *is_flag);
/** Returns the index in imm[] of the attr `name` of an opcode, or -1. */
int tir_attr_index(unsigned opcode, const char *name);
/** Returns the number of attrs of an opcode. */
unsigned tir_n_attrs(unsigned opcode);

/* The functions from here on edit a function, for passes. */

/** Creates an op that belongs to no block yet. Its operands are copied, and its results are new
 * values. */
struct tir_ref tir_create_op(struct tir_func *f, unsigned opcode, const struct tir_value *operands,
                             unsigned n_operands, const struct tir_type *results,
                             unsigned n_results);
/** Creates an empty block of op `owner` in block `parent`. */
struct tir_block *tir_create_block(struct tir_func *f, struct tir_block *parent,
                                   struct tir_ref owner);
/** Adds a parameter of type t to block b and returns it. */
struct tir_value tir_add_param(struct tir_func *f, struct tir_block *b, struct tir_type t);
/** Appends an op to block b. */
void tir_append(struct tir_func *f, struct tir_block *b, struct tir_ref op);
/** Inserts an op into block b before the op at `index`. */
void tir_insert(struct tir_func *f, struct tir_block *b, uint32_t index, struct tir_ref op);
/** Removes the op at `index` from its block. The op still exists. */
void tir_remove(struct tir_block *b, uint32_t index);
/** Replaces the op's operands; `operands` is copied. */
void tir_set_operands(struct tir_func *f, struct tir_ref op, const struct tir_value *operands,
                      uint32_t n);
/** Sets the name of a value in dumps; NULL removes it. Characters other than letters and digits
 * become '_'. */
void tir_name(struct tir_func *f, struct tir_value v, const char *name);
/** Appends to the op's operands; `operands` is copied. */
void tir_add_operands(struct tir_func *f, struct tir_ref op, const struct tir_value *operands,
                      uint32_t n);
/** Appends a result of type t to an op and returns it. The op must have no results yet, or its
 * results must be the newest values of the function. */
struct tir_value tir_add_result(struct tir_func *f, struct tir_ref op, struct tir_type t);
/** Visits op `r` of block `b`. tir_walk() calls it for all ops of a block and of its nested blocks
 * in program order, until a visit returns true. An op comes before its nested blocks. A visit may
 * change ops but not move them. */
typedef bool tir_visitor(void *context, struct tir_block *b, struct tir_ref r);
/** Visits all ops of block b and its nested blocks, see tir_visitor. Returns true if a visit
 * did. */
bool tir_walk(const struct tir_func *f, struct tir_block *b, tir_visitor *visit, void *context);
/** Visits one op of block b and its nested blocks, as tir_walk() does. */
bool tir_walk_op(const struct tir_func *f, struct tir_block *b, struct tir_ref r,
                 tir_visitor *visit, void *context);

/** Visits block `b`. tir_walk_blocks() calls it for a block and then for its nested blocks, until a
 * visit returns true. A visit may move, add and remove ops of its block. */
typedef bool tir_block_visitor(void *context, struct tir_block *b);
/** Visits block b and its nested blocks, see tir_block_visitor. Returns true if a visit did. */
bool tir_walk_blocks(const struct tir_func *f, struct tir_block *b, tir_block_visitor *visit,
                     void *context);

/** Replaces every use of `from` in `b` and its nested blocks by `to`. */
void tir_replace_uses(struct tir_func *f, struct tir_block *b, struct tir_value from,
                      struct tir_value to);

#endif
