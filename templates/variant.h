/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file declares a variant: one kernel to be built, as a value per field of fields.def, for
 * one op family and one target. The description reader fills it; templates and the key read it.
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

enum att_kind { ATT_KIND_ENUM, ATT_KIND_INT, ATT_KIND_FLAG, ATT_KIND_FILE };
enum att_role { ATT_ROLE_KEY, ATT_ROLE_TUNE };

/** A value of an enumerated field. */
struct att_value {
    const char *name;
    const char *help;
};

/** A row of fields.def: the facts of a field. */
struct att_field_info {
    const char *name;
    const char *tag;
    const char *help;
    const char *unit;               /* unit of an integer field; NULL: other kinds */
    const char *zero;               /* word for 0 in a field of ATT_KIND_INT; NULL: 0 has no word */
    const struct att_value *values; /* values of an enumerated field; NULL: other kinds */
    int value_count;
    int dflt;
    int min, max;
    bool required; /* true: the field has no default and must be given */
    bool follows;  /* true: the field's default is the value of field `like` */
    enum att_field like;
    enum att_kind kind;
    enum att_role role;
    size_t offset; /* bytes from the start of struct att_variant to the field */
};

extern const struct att_field_info att_fields[ATT_FIELD_COUNT];

/* A place in the user's file: line and column, counted from 1. Line 0: the value is a default. */
struct att_loc {
    uint32_t line, column;
};

/* Most ranges of a box. Boxes describe the calls that a kernel serves, if several kernels have one
 * key. */
enum { ATT_WHEN_MAX = 8 };
/** A range of an argument's values, `min` to `max`. */
struct att_when {
    const char *arg; /* name of an argument in op_args.def */
    int64_t min, max;
};
/** Some calls: those in which all `count` ranges hold. */
struct att_box {
    struct att_when rows[ATT_WHEN_MAX];
    unsigned count;
};

/* The best split of a call's keys: the call, and the values of struct attn_decode_plan_shape for
 * it. */
struct att_split {
    /* The call: number of sequences, keys of a sequence, query heads and KV heads; heads 0: any
     * number of heads. */
    int batch, keys, heads, kv_heads;
    int lists, item_cost, merge_rate;
    bool one_launch; /* true: the kernel adds its split-KV partials in the same launch */
};
/** The statements of a tuning file on a kernel. */
struct att_choice {
    struct att_box *boxes; /* the kernel serves calls in any of these boxes; no boxes: the calls
                              that no other kernel serves */
    unsigned count;
    struct att_split *splits; /* best splits for calls of the key; only in a choice without boxes */
    unsigned split_count;
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
    /* Statements of a tuning file; NULL: the kernel serves every call. Not part of the name. */
    const struct att_choice *choice;
    /* Number of the candidate to build if `tile` is auto; 0: the first row that fits. Not part of
     * the name: see attnc_compile_unspilled(). */
    int spare_tile;
    /* The fitted knobs of a build; NULL: the target's. Not part of the name. */
    const struct tir_fitted *fitted;
    struct att_loc at; /* place of the kernel's `op` in the user's file */
    struct att_loc loc[ATT_FIELD_COUNT];
};

/* The longest name and canonical text, with the final NUL. */
enum { ATT_NAME_MAX = 256, ATT_TEXT_MAX = 1024 };

/** Sets every field to its default. att_variant_resolve() sets the fields that follow another
 * field. */
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
