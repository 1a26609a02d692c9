/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file declares a variant: one kernel to be built. It is an op family, a target, and a value
 * for each field of fields.def. The description reader sets it; templates and the dispatch key read
 * it.
 */
#ifndef ATT_VARIANT_H
#define ATT_VARIANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct att_template;
struct tir_fitted;

/* The values of each enumerated field: enum att_dtype { ATT_DTYPE_BF16, ATT_DTYPE_FP16 }, ... */
#define FIELD_ENUM(ID, id, tag, dflt, role, help) \
    enum att_##id                                 \
    {
#define VALUE(ID, name, help) ATT_##ID,
#define FIELD_END(id) \
    }                 \
    ;
#include "ops/fields.def"

/* Field ids: ATT_DTYPE, ATT_HEAD_DIM, ... */
enum att_field {
#define FIELD_ENUM(ID, id, tag, dflt, role, help) ATT_##ID,
#define FIELD_INT(ID, id, tag, unit, dflt, min, max, zero, role, help) ATT_##ID,
#define FIELD_FLAG(ID, id, tag, role, help) ATT_##ID,
#define FIELD_FILE(ID, id, tag, role, help) ATT_##ID,
#include "ops/fields.def"
    ATT_FIELD_COUNT
};

/* A set of fields, a bit for each. */
__extension__ typedef unsigned __int128 att_field_set;

/* The sets with one field: by number, and as ATT_BIT(HEAD_DIM). */
#define ATT_FIELD(number) ((att_field_set)1 << (number))
#define ATT_BIT(ID) ATT_FIELD(ATT_##ID)

/* Type of a field: one of a list of values, an integer, a bool, or the path of a file. */
enum att_kind { ATT_KIND_ENUM, ATT_KIND_INT, ATT_KIND_FLAG, ATT_KIND_FILE };
/* Use of a field: a part of the dispatch key, which the engine gives, or a choice that the compiler
 * makes itself. */
enum att_role { ATT_ROLE_KEY, ATT_ROLE_TUNE };

/** A value of an enumerated field: its spelling in descriptions, and its meaning for `attnc
 * help`. */
struct att_value {
    const char *name;
    const char *help;
};

/** A row of fields.def: the facts of a field. */
struct att_field_info {
    const char *name;
    const char *tag; /* text before the value in a kernel's name, such as "d" in "d128" */
    const char *help;
    const char *unit;               /* unit of a field of ATT_KIND_INT; NULL: other kinds */
    const char *zero;               /* word for 0 in a field of ATT_KIND_INT; NULL: 0 has no word */
    const struct att_value *values; /* values of a field of ATT_KIND_ENUM; NULL: other kinds */
    int value_count;
    int dflt;            /* default value; unused if `required` or `follows` */
    int min, max;        /* least and largest value of a field of ATT_KIND_INT */
    bool required;       /* true: the field has no default and must be given */
    bool follows;        /* true: the field's default is the value of field `like` */
    enum att_field like; /* the field whose value is the default, if `follows` */
    enum att_kind kind;
    enum att_role role;
    size_t offset; /* bytes from the start of struct att_variant to the field */
};

extern const struct att_field_info att_fields[ATT_FIELD_COUNT];

/* A place in the user's file: line and column, counted from 1. Line 0: the file does not have the
 * value, which is a default. */
struct att_loc {
    uint32_t line, column;
};

/* Most ranges of a box. A box describes calls that a kernel serves, if several kernels have the
 * same dispatch key. */
enum { ATT_WHEN_MAX = 8 };
/** A condition on a call: the argument's value is from `min` to `max`, both included. */
struct att_when {
    const char *arg; /* name of an argument in op_args.def */
    int64_t min, max;
};
/** Some calls: the calls for which all `count` conditions in `rows` hold. A `count` of 0: an empty
 * box, which no call is in. */
struct att_box {
    struct att_when rows[ATT_WHEN_MAX];
    unsigned count; /* number of conditions in `rows` */
};

/* A row of a tuning file: the best split-KV work lists for one call. `lists`, `item_cost` and
 * `merge_rate` are the values of struct attn_decode_plan_shape. */
struct att_split {
    /* The call: number of sequences, keys of a sequence, query heads and KV heads; heads 0: any
     * number of heads. */
    int batch, keys, heads, kv_heads;
    int lists, item_cost, merge_rate;
    int unit_keys;   /* keys of a unit of the plan; 0: 64 */
    bool one_launch; /* true: the kernel adds its split-KV partials in the same launch */
};
/** The rows of a tuning file about one kernel. */
struct att_choice {
    /* the kernel serves calls in any of these boxes; NULL: the calls that no other kernel serves */
    struct att_box *boxes;
    unsigned count; /* number of `boxes` */
    /* best splits for calls with the kernel's key; only in a choice without boxes */
    struct att_split *splits;
    unsigned split_count; /* number of `splits` */
};

/* A variant: a plain value that may be copied. Its creator owns `op`, `target` and paths. */
struct att_variant {
    const struct att_template *op;
    const char *target; /* name of the target, such as "gfx942" */
#define FIELD_ENUM(ID, id, tag, dflt, role, help) enum att_##id id;
#define FIELD_INT(ID, id, tag, unit, dflt, min, max, zero, role, help) int id;
#define FIELD_FLAG(ID, id, tag, role, help) bool id;
#define FIELD_FILE(ID, id, tag, role, help) const char *id;
#include "ops/fields.def"
    /* Rows of a tuning file about the kernel; NULL: the kernel serves every call. Not part of the
     * name. */
    const struct att_choice *choice;
    /* Number of the candidate to build if `tile` is auto; 0: the first row that fits. Not part of
     * the name: see attnc_compile_unspilled(). */
    int spare_tile;
    /* Rows of fitted knobs for this build; NULL: the target's rows (tir_machine.fitted). Not part
     * of the name. */
    const struct tir_fitted *fitted;
    struct att_loc at; /* place of the kernel's `op` in the user's file */
    /* Place of each field's value in the user's file. */
    struct att_loc loc[ATT_FIELD_COUNT];
};

/* Bytes of the longest name and of the longest canonical text, with the final NUL. */
enum { ATT_NAME_MAX = 256, ATT_TEXT_MAX = 1024 };

/** Sets v->op, v->target (the target's name) and every field to its default. att_variant_resolve()
 * sets the fields that follow another field. */
void att_variant_init(struct att_variant *v, const struct att_template *op, const char *target);

/** Sets fields that follow another field and were not set (loc.line is 0). Replaces equivalent
 * spellings by one: a kv_dtype equal to dtype becomes "same". */
void att_variant_resolve(struct att_variant *v);

/** Returns field `f`: the index of an enumerated value, an integer, or a flag (0 or 1). */
int att_get(const struct att_variant *v, enum att_field f);
/** Sets field `f`, which is not of kind file, to a value as att_get() returns it. */
void att_set(struct att_variant *v, enum att_field f, int value);

/** Returns field `f` of kind file: a path, or NULL. */
const char *att_get_file(const struct att_variant *v, enum att_field f);
/** Sets field `f` of kind file to `path`, which the caller owns. */
void att_set_file(struct att_variant *v, enum att_field f, const char *path);

/* Returns the element type of K and V. kv_dtype "same" is resolved, so it is never
   ATT_KV_DTYPE_SAME. */
enum att_kv_dtype att_kv_dtype(const struct att_variant *v);

/** Writes the value of field `f` as descriptions and dispatch keys spell it: "bf16", "128", "any",
 * "true", the stem of a file's name, or "none" without a file. Returns the required length, as
 * snprintf() does. */
int att_format_value(const struct att_variant *v, enum att_field f, char *buf, size_t size);

/** Writes the kernel's name, which is unique within a pack and a C identifier. It has the op,
 * dtype, head_dim, each other field that is not at its default, and the target, such as
 * "prefill_bf16_d128_sinks_gfx942". */
void att_variant_name(const struct att_variant *v, char name[ATT_NAME_MAX]);

/** Writes one line that identifies the variant, "gfx942 prefill dtype=bf16 head_dim=128 ...", with
 * every field of the op. Equal variants have equal text. `attnc build --emit=variants` prints it,
 * and the build cache hashes it. */
void att_variant_text(const struct att_variant *v, char text[ATT_TEXT_MAX]);

/** True if two variants have the same op, target and fields; locations may differ. */
bool att_variant_same(const struct att_variant *a, const struct att_variant *b);

#endif
