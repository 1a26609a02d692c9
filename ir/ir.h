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

/* The attr rounding of convert and convert_pair. */
enum tir_rounding { TIR_NEAREST_EVEN, TIR_TIES_ANY, TIR_TOWARD_ZERO };

/* Effects of an op, as bits: none, reads memory or LDS, writes them, completes later, orders
 * other effects. */
enum tir_op_flags {
    TIR_PURE = 1,
    TIR_READS = 2,
    TIR_WRITES = 4,
    TIR_ASYNC = 8,
    TIR_FENCE = 16,
};

/* The level at which an op may appear: any, before lower_tiles, after it, and control flow. */
enum tir_op_level { TIR_LEVEL_ANY, TIR_LEVEL_TILE, TIR_LEVEL_VEC, TIR_LEVEL_FLOW };
/* The result's type: none, given by the builder, an operand's, or an operand's with i1 elements. */
enum tir_result_rule { TIR_RESULT_NONE, TIR_RESULT_GIVEN, TIR_RESULT_SAME, TIR_RESULT_PRED };

struct tir_op_info {
    const char *name;
    int8_t operands; /* -1: any number */
    /* enum tir_result_rule; index of the operand whose type the result has. */
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
    TIR_MAX_STAGES = 8,   /* stages of a pipelined loop */
    TIR_MAX_PHASES = 8,   /* bits of struct tir_loop_plan's matrix_phases */
    TIR_MAX_VEC = 1024,   /* elements of a lane in one vec */
    TIR_OP_CHUNK_LOG2 = 8 /* ops are stored in chunks of 256, so their addresses are stable */
};

struct tir_op {
    uint16_t opcode; /* enum tir_opcode */
    uint8_t stage;   /* software-pipeline stage from the builder's cursor, or TIR_NO_STAGE */
    uint8_t phase;   /* phase of the pipelined loop body, by the schedule's order */
    uint32_t n_operands, n_results;
    uint32_t line; /* line of tir_number_lines()'s text from which the op comes; 0: none */
    struct tir_value *operands;
    struct tir_value result;     /* first result; the others follow with consecutive ids */
    int64_t imm[TIR_MAX_IMM];    /* the op's attributes, in the order of tir_op_info.attrs */
    struct tir_block *blocks[2]; /* for: body; if: then, else */
};

/* A sequence of ops with parameters, nested in an op. */
struct tir_block {
    struct tir_block *parent; /* block that contains the owner; NULL: the function's body */
    struct tir_ref owner;     /* the op that contains the block; 0 for the function's body */
    struct tir_ref *ops;      /* ops in program order */
    uint32_t n_ops, cap_ops;
    struct tir_value *params; /* parameters of a loop's body: the index, then carried values */
    uint32_t n_params, cap_params;
};

/** A kernel argument. The runtime fills the kernarg segment by these records. */
struct tir_arg {
    const char *name; /* as in op_args.def, which is made from ops/ */
    uint8_t dtype;    /* pointers are i64 */
    uint16_t offset;  /* bytes in the kernarg segment, naturally aligned */
};

/* The definition of a value. */
struct tir_value_info {
    struct tir_type type;
    struct tir_ref def;      /* 0 for a parameter of a block */
    struct tir_block *block; /* the block of a parameter */
    const char *name;        /* from tir_name(), for dumps; or NULL */
};

/* A kernel in tile IR or, after lower_tiles, in register ops. */
struct tir_func {
    const char *name;
    const struct tir_machine *machine;
    struct tir_arena *arena;
    unsigned waves;     /* waves of a workgroup */
    unsigned lds_bytes; /* bytes of static LDS of a workgroup */
    /* Waves that share a SIMD; tir_wave_vgprs() has the registers of each. */
    unsigned waves_per_simd;
    bool trimmed; /* true: the kernel's descriptor claims only the registers that the code uses, and
                     no AGPRs, since LDS limits the occupancy. False: LLVM may use all registers of
                     the occupancy */

    bool lowered; /* set by lower_tiles: from here on no TILE op and no tile value */

    struct tir_op **op_chunks; /* by id; id 0 is unused */
    uint32_t n_ops, cap_chunks;
    struct tir_value_info *values; /* values[0] is unused; moves when values are added */
    uint32_t n_values, cap_values;
    const struct tir_layout **layouts; /* the layouts themselves never move */
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

/** Returns the op. The pointer is valid as long as the function exists. */
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

/** Fields of the i32 that `await` reads: the count of waves that arrived, and from TIR_LEFT_BIT on
 * the count of waves that gave up. */
enum { TIR_ARRIVED = 0xffff, TIR_LEFT_BIT = 16 };

enum { TIR_COPY_GROUPS = 8 }; /* groups of asynchronous copies that tir_wait() tells apart */

/** Returns the index of the kernel argument with this name, which is appended if it does not
 * exist. */
uint32_t tir_add_arg(struct tir_func *f, const char *name, unsigned dtype);

/** Returns the index of the hook with this name, which is added if it does not exist. */
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
/** Returns the index of a layout in the function, which is added if no layout equals it. */
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

/**
 * The function that handles exhausted memory after tir_func_create() has succeeded. It must not
 * return. NULL, the default, calls abort(). A tool sets it before it starts threads.
 */
extern void (*tir_out_of_memory)(void);

/** Reads the next name of a comma-separated list of attrs and advances `attrs` past it. Sets
 * *is_flag to whether the name ended in '?', which is dropped. Returns false at the end of the
 * list. */
bool tir_next_attr(const char **attrs, char name[16], bool *is_flag);
/** Returns the index in imm[] of the attr `name` of an opcode, or -1. */
int tir_attr_index(unsigned opcode, const char *name);
/** Returns the number of attrs of an opcode. */
unsigned tir_n_attrs(unsigned opcode);

/* Editing, for passes. */

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
/**
 * Visits the ops of a block and of its nested blocks in program order until a visit returns true.
 * An op comes before its nested blocks. True if a visit returned true. A visit may change ops but
 * not move them.
 */
typedef bool tir_visitor(void *context, struct tir_block *b, struct tir_ref r);
/** Walks over block b, see tir_visitor. */
bool tir_walk(const struct tir_func *f, struct tir_block *b, tir_visitor *visit, void *context);
/** Visits one op of block b and its nested blocks, as tir_walk() does. */
bool tir_walk_op(const struct tir_func *f, struct tir_block *b, struct tir_ref r,
                 tir_visitor *visit, void *context);

/**
 * Visits a block and then its nested blocks until a visit returns true. True if a visit did. A
 * visit may move, add and remove ops of its block.
 */
typedef bool tir_block_visitor(void *context, struct tir_block *b);
/** Walks over block b, see tir_block_visitor. */
bool tir_walk_blocks(const struct tir_func *f, struct tir_block *b, tir_block_visitor *visit,
                     void *context);

/** Replaces every use of `from` in `b` and its nested blocks by `to`. */
void tir_replace_uses(struct tir_func *f, struct tir_block *b, struct tir_value from,
                      struct tir_value to);

#endif
