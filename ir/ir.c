/* SPDX-License-Identifier: Apache-2.0
 *
 * This file creates and edits functions, ops, values, blocks and types. Arrays that grow are moved
 * within the arena. Ops and layouts never move, so pointers to them stay valid.
 */
#include "ir/ir.h"

#include <assert.h>
#include <string.h>

#include "ir/arena.h"

#define same(n) TIR_RESULT_SAME, n
#define pred(n) TIR_RESULT_PRED, n
#define given TIR_RESULT_GIVEN, 0
#define none TIR_RESULT_NONE, 0
#define ANY TIR_LEVEL_ANY
#define TILE TIR_LEVEL_TILE
#define VEC TIR_LEVEL_VEC
#define FLOW TIR_LEVEL_FLOW
#define PURE TIR_PURE
#define READS TIR_READS
#define WRITES TIR_WRITES
#define ASYNC TIR_ASYNC
#define FENCE TIR_FENCE
#define OP(name, operands, result, level, flags, attrs, signature, builder, expand, lower, \
           meaning)                                                                        \
    [TIR_##name] = {#name, operands, result, level, flags, attrs, signature, meaning},
const struct tir_op_info tir_ops[TIR_N_OPCODES] = {
#include "ir/ops.def"
};
#undef OP
#undef same
#undef pred
#undef given
#undef none
#undef ANY
#undef TILE
#undef VEC
#undef FLOW
#undef PURE
#undef READS
#undef WRITES
#undef ASYNC
#undef FENCE

static const struct {
    const char *name;
    uint8_t bits;
} dtypes[] = {
    [TIR_NONE] = {"none", 0}, [TIR_I1] = {"i1", 1},       [TIR_I8] = {"i8", 8},
    [TIR_I16] = {"i16", 16},  [TIR_I32] = {"i32", 32},    [TIR_I64] = {"i64", 64},
    [TIR_F16] = {"f16", 16},  [TIR_BF16] = {"bf16", 16},  [TIR_F32] = {"f32", 32},
    [TIR_FP8] = {"fp8", 8},   [TIR_RSRC] = {"rsrc", 128},
};
static_assert(sizeof(dtypes) / sizeof(dtypes[0]) == TIR_N_DTYPES, "one row per dtype");

void *tir_alloc(struct tir_func *f, size_t bytes)
{
    return tir_checked(tir_arena_alloc(f->arena, bytes));
}

const char *tir_strdup(struct tir_func *f, const char *s)
{
    const size_t n = strlen(s) + 1;
    return memcpy(tir_alloc(f, n), s, n);
}

/* Returns the array, moved if needed, with room for one more element. */
static void *grown(struct tir_func *f, void *array, uint32_t n, uint32_t *cap, size_t size)
{
    if (n < *cap)
        return array;
    const uint32_t more = *cap ? *cap * 2 : 16;
    void *const moved = tir_alloc(f, more * size);
    if (n)
        memcpy(moved, array, n * size);
    *cap = more;
    return moved;
}

struct tir_func *tir_func_create(const char *name, const struct tir_machine *machine,
                                 unsigned waves)
{
    struct tir_arena *const arena = tir_arena_create();
    struct tir_func *const f = arena ? tir_arena_alloc(arena, sizeof(*f)) : NULL;
    if (!f) {
        tir_arena_destroy(arena);
        return NULL;
    }
    f->arena = arena;
    /* The first chunk has room for all of these, so creation cannot fail halfway. */
    f->name = tir_strdup(f, name);
    f->machine = machine;
    f->waves = waves;
    f->waves_per_simd = 1;
    f->n_ops = f->n_values = 1;
    f->values = grown(f, NULL, 0, &f->cap_values, sizeof(*f->values));
    f->body = tir_create_block(f, NULL, (struct tir_ref){0});
    return f;
}

void tir_func_destroy(struct tir_func *f)
{
    if (f)
        tir_arena_destroy(f->arena);
}

unsigned tir_dtype_bits(unsigned dtype)
{
    assert(dtype < TIR_N_DTYPES);
    return dtypes[dtype].bits;
}

const char *tir_dtype_name(unsigned dtype)
{
    assert(dtype < TIR_N_DTYPES);
    return dtypes[dtype].name;
}

struct tir_type tir_scalar(unsigned dtype)
{
    return (struct tir_type){.kind = TIR_SCALAR, .dtype = dtype};
}

struct tir_type tir_vec(unsigned dtype, unsigned count)
{
    assert(count > 0 && count <= TIR_MAX_VEC);
    return (struct tir_type){.kind = TIR_VEC, .dtype = dtype, .count = count};
}

struct tir_type tir_with_dtype(struct tir_type t, unsigned dtype)
{
    t.dtype = (uint8_t)dtype;
    return t;
}

struct tir_type tir_tile(struct tir_func *f, unsigned dtype, unsigned rows, unsigned cols,
                         const struct tir_layout *layout)
{
    return (struct tir_type){
        .kind = TIR_TILE,
        .dtype = dtype,
        .rows = rows,
        .cols = cols,
        .layout = tir_intern_layout(f, layout),
    };
}

bool tir_type_equal(struct tir_type a, struct tir_type b)
{
    return a.kind == b.kind && a.dtype == b.dtype && a.count == b.count && a.rows == b.rows &&
           a.cols == b.cols && a.layout == b.layout;
}

int64_t tir_pack_type(struct tir_type t)
{
    assert(t.kind == TIR_TILE && t.layout < 1u << 23);
    return t.dtype | (int64_t)t.rows << 8 | (int64_t)t.cols << 24 | (int64_t)t.layout << 40;
}

struct tir_type tir_unpack_type(int64_t packed)
{
    return (struct tir_type){
        .kind = TIR_TILE,
        .dtype = packed & 0xff,
        .rows = packed >> 8 & 0xffff,
        .cols = packed >> 24 & 0xffff,
        .layout = packed >> 40 & 0xffffff,
    };
}

uint32_t tir_intern_layout(struct tir_func *f, const struct tir_layout *layout)
{
    for (uint32_t i = 0; i < f->n_layouts; i++)
        if (tir_layout_equal(f->layouts[i], layout))
            return i;
    f->layouts = grown(f, f->layouts, f->n_layouts, &f->cap_layouts, sizeof(*f->layouts));
    struct tir_layout *const copy = tir_alloc(f, sizeof(*copy));
    *copy = *layout;
    f->layouts[f->n_layouts] = copy;
    return f->n_layouts++;
}

const struct tir_layout *tir_layout_of(const struct tir_func *f, struct tir_type t)
{
    assert(t.kind == TIR_TILE && t.layout < f->n_layouts);
    return f->layouts[t.layout];
}

uint32_t tir_add_arg(struct tir_func *f, const char *name, unsigned dtype)
{
    uint32_t end = 0;
    for (uint32_t i = 0; i < f->n_args; i++) {
        if (!strcmp(f->args[i].name, name)) {
            assert(f->args[i].dtype == dtype);
            return i;
        }
        end = f->args[i].offset + tir_dtype_bits(f->args[i].dtype) / 8;
    }
    const uint32_t size = tir_dtype_bits(dtype) / 8;
    f->args = grown(f, f->args, f->n_args, &f->cap_args, sizeof(*f->args));
    f->args[f->n_args] = (struct tir_arg){
        .name = tir_strdup(f, name),
        .dtype = (uint8_t)dtype,
        .offset = (uint16_t)((end + size - 1) / size * size),
    };
    return f->n_args++;
}

uint32_t tir_hook(struct tir_func *f, const char *name)
{
    for (uint32_t i = 0; i < f->n_hooks; i++)
        if (!strcmp(f->hooks[i], name))
            return i;
    f->hooks = grown(f, f->hooks, f->n_hooks, &f->cap_hooks, sizeof(*f->hooks));
    f->hooks[f->n_hooks] = tir_strdup(f, name);
    return f->n_hooks++;
}

bool tir_next_attr(const char **attrs, char name[16], bool *is_flag)
{
    const char *const s = *attrs;
    const size_t n = strcspn(s, "?,");
    assert(n < 16);
    memcpy(name, s, n);
    name[n] = 0;
    *is_flag = s[n] == '?';
    *attrs = s + n + *is_flag;
    *attrs += **attrs == ',';
    return n > 0;
}

unsigned tir_n_attrs(unsigned opcode)
{
    const char *s = tir_ops[opcode].attrs;
    char name[16];
    bool is_flag;
    unsigned n = 0;
    while (tir_next_attr(&s, name, &is_flag))
        n++;
    return n;
}

int tir_attr_index(unsigned opcode, const char *wanted)
{
    const char *s = tir_ops[opcode].attrs;
    char name[16];
    bool is_flag;
    for (int i = 0; tir_next_attr(&s, name, &is_flag); i++)
        if (!strcmp(name, wanted))
            return i;
    return -1;
}

/* Adds a value that op `def` or, if that has id 0, block `block` defines. */
static struct tir_value add_value(struct tir_func *f, struct tir_type t, struct tir_ref def,
                                  struct tir_block *block)
{
    f->values = grown(f, f->values, f->n_values, &f->cap_values, sizeof(*f->values));
    f->values[f->n_values] = (struct tir_value_info){.type = t, .def = def, .block = block};
    return (struct tir_value){f->n_values++};
}

/* Adds an empty op; ops are stored in chunks, so that pointers to them stay valid. */
static struct tir_ref add_op(struct tir_func *f)
{
    enum { CHUNK = 1 << TIR_OP_CHUNK_LOG2 };
    const uint32_t chunk = f->n_ops >> TIR_OP_CHUNK_LOG2;
    if (f->n_ops % CHUNK == 0 || f->n_ops == 1) {
        f->op_chunks = grown(f, f->op_chunks, chunk, &f->cap_chunks, sizeof(*f->op_chunks));
        f->op_chunks[chunk] = tir_alloc(f, CHUNK * sizeof(struct tir_op));
    }
    return (struct tir_ref){f->n_ops++};
}

struct tir_ref tir_create_op(struct tir_func *f, unsigned opcode, const struct tir_value *operands,
                             unsigned n_operands, const struct tir_type *results,
                             unsigned n_results)
{
    assert(opcode < TIR_N_OPCODES);
    const struct tir_ref r = add_op(f);
    struct tir_op *const op = tir_op(f, r);
    op->opcode = opcode;
    op->stage = TIR_NO_STAGE;
    tir_set_operands(f, r, operands, n_operands);
    for (unsigned i = 0; i < n_results; i++)
        tir_add_result(f, r, results[i]);
    return r;
}

struct tir_value tir_add_result(struct tir_func *f, struct tir_ref r, struct tir_type t)
{
    struct tir_op *const op = tir_op(f, r);
    const struct tir_value v = add_value(f, t, r, NULL);
    if (!op->n_results)
        op->result = v;
    assert(op->result.id + op->n_results == v.id && "results of an op are consecutive");
    op->n_results++;
    return v;
}

void tir_set_operands(struct tir_func *f, struct tir_ref r, const struct tir_value *operands,
                      uint32_t n)
{
    tir_op(f, r)->n_operands = 0;
    tir_add_operands(f, r, operands, n);
}

void tir_add_operands(struct tir_func *f, struct tir_ref r, const struct tir_value *operands,
                      uint32_t n)
{
    struct tir_op *const op = tir_op(f, r);
    if (!n)
        return;
    struct tir_value *const all = tir_alloc(f, (op->n_operands + n) * sizeof(*all));
    if (op->n_operands)
        memcpy(all, op->operands, op->n_operands * sizeof(*all));
    memcpy(all + op->n_operands, operands, n * sizeof(*all));
    op->operands = all;
    op->n_operands += n;
}

struct tir_block *tir_create_block(struct tir_func *f, struct tir_block *parent,
                                   struct tir_ref owner)
{
    struct tir_block *const b = tir_alloc(f, sizeof(*b));
    b->parent = parent;
    b->owner = owner;
    return b;
}

struct tir_value tir_add_param(struct tir_func *f, struct tir_block *b, struct tir_type t)
{
    const struct tir_value v = add_value(f, t, (struct tir_ref){0}, b);
    b->params = grown(f, b->params, b->n_params, &b->cap_params, sizeof(*b->params));
    b->params[b->n_params++] = v;
    return v;
}

void tir_append(struct tir_func *f, struct tir_block *b, struct tir_ref op)
{
    b->ops = grown(f, b->ops, b->n_ops, &b->cap_ops, sizeof(*b->ops));
    b->ops[b->n_ops++] = op;
}

void tir_insert(struct tir_func *f, struct tir_block *b, uint32_t index, struct tir_ref op)
{
    assert(index <= b->n_ops);
    tir_append(f, b, op);
    memmove(b->ops + index + 1, b->ops + index, (b->n_ops - 1 - index) * sizeof(*b->ops));
    b->ops[index] = op;
}

void tir_remove(struct tir_block *b, uint32_t index)
{
    assert(index < b->n_ops);
    b->n_ops--;
    memmove(b->ops + index, b->ops + index + 1, (b->n_ops - index) * sizeof(*b->ops));
}

void tir_name(struct tir_func *f, struct tir_value v, const char *name)
{
    if (!name) {
        f->values[v.id].name = NULL;
        return;
    }
    const size_t n = strlen(name);
    char *const word = tir_alloc(f, n + 1);
    for (size_t i = 0; i < n; i++) {
        const char c = name[i];
        const bool ok = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        word[i] = ok ? c : '_';
    }
    f->values[v.id].name = word;
}

bool tir_walk_op(const struct tir_func *f, struct tir_block *b, struct tir_ref r,
                 tir_visitor *visit, void *context)
{
    if (visit(context, b, r))
        return true;
    const struct tir_op *const op = tir_op(f, r);
    for (int k = 0; k < 2; k++)
        if (op->blocks[k] && tir_walk(f, op->blocks[k], visit, context))
            return true;
    return false;
}

bool tir_walk(const struct tir_func *f, struct tir_block *b, tir_visitor *visit, void *context)
{
    for (uint32_t i = 0; i < b->n_ops; i++)
        if (tir_walk_op(f, b, b->ops[i], visit, context))
            return true;
    return false;
}

bool tir_walk_blocks(const struct tir_func *f, struct tir_block *b, tir_block_visitor *visit,
                     void *context)
{
    bool any = visit(context, b);
    for (uint32_t i = 0; i < b->n_ops; i++) {
        const struct tir_op *const op = tir_op(f, b->ops[i]);
        for (int k = 0; k < 2; k++)
            if (op->blocks[k])
                any |= tir_walk_blocks(f, op->blocks[k], visit, context);
    }
    return any;
}

struct replacement {
    struct tir_func *f;
    struct tir_value from, to;
};

/* Replaces one value by another in the operands of an op of the walk. */
static bool replace_operands(void *context, struct tir_block *b, struct tir_ref ref)
{
    const struct replacement *const r = context;
    struct tir_op *const op = tir_op(r->f, ref);
    (void)b;
    for (uint32_t k = 0; k < op->n_operands; k++)
        if (op->operands[k].id == r->from.id)
            op->operands[k] = r->to;
    return false;
}

void tir_replace_uses(struct tir_func *f, struct tir_block *b, struct tir_value from,
                      struct tir_value to)
{
    tir_walk(f, b, replace_operands, &(struct replacement){f, from, to});
}
