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

struct att_value {
    const char *name;
    const char *help;
};

/* A row of fields.def. */
struct att_field_info {
    const char *name;
    const char *tag;
    const char *help;
    const char *unit;               /* ATT_KIND_INT */
    const char *zero;               /* of ATT_KIND_INT: the word for 0, or NULL */
    const struct att_value *values; /* ATT_KIND_ENUM */
    int value_count;
    int dflt;
    int min, max;
    bool required; /* the field has no default */
    bool follows;  /* its default is the value of field `like` */
    enum att_field like;
    enum att_kind kind;
    enum att_role role;
    size_t offset; /* offset in struct att_variant */
};

extern const struct att_field_info att_fields[ATT_FIELD_COUNT];

/* A place in the user's file: line and column from 1; line 0 for a default. */
struct att_loc {
    uint32_t line, column;
};

/* The calls for which a kernel is meant, if several kernels have one key: all ranges of a box must
   hold. */
enum { ATT_WHEN_MAX = 8 };
struct att_when {
    const char *arg; /* name from op_args.def */
    int64_t min, max;
};
struct att_box {
    struct att_when rows[ATT_WHEN_MAX];
    unsigned count;
};

/* The best split of a call's keys: the call, and the members of attn_decode_plan_shape for it. */
struct att_split {
    int batch, keys, heads, kv_heads; /* the call; heads 0: any number of heads */
    int lists, item_cost, merge_rate;
    bool one_launch; /* the kernel itself adds the parts */
};
struct att_choice {
    struct att_box *boxes; /* the kernel is for the calls in any of these; none: the calls that
                              no other kernel takes */
    unsigned count;
    struct att_split *splits; /* for calls of the key; only without boxes */
    unsigned split_count;
};

/* A variant: a plain value that may be copied. Its creator owns `op`, `target` and paths. */
struct att_variant {
    const struct att_template *op;
    const char *target; /* "gfx942" */
#define FIELD_ENUM(ID, id, tag, dflt, role, help) enum att_##id id;
#define FIELD_INT(ID, id, tag, unit, dflt, min, max, zero, role, help) int id;
#define FIELD_FLAG(ID, id, tag, role, help) bool id;
#define FIELD_FILE(ID, id, tag, role, help) const char *id;
#include "ops/fields.def"
    const struct att_choice *choice; /* from a tuning file; NULL: every call. Not part of the
                                        name */
    /* The candidate to build if `tile` is auto; 0: the first row that fits. Not part of the name:
     * see attnc_compile_unspilled(). */
    int spare_tile;
    /* The fitted knobs of a build; NULL: the target's. Not part of the name. */
    const struct tir_fitted *fitted;
    struct att_loc at; /* the kernel's `op` */
    struct att_loc loc[ATT_FIELD_COUNT];
};

/* The longest name and canonical text, with the final NUL. */
enum { ATT_NAME_MAX = 256, ATT_TEXT_MAX = 1024 };

/* Sets every field to its default; fields that follow another are set by att_variant_resolve(). */
void att_variant_init(struct att_variant *v, const struct att_template *op, const char *target);

/*
 * Sets fields that follow another and were not set (loc.line 0), and normalises equivalent
 * spellings: a kv_dtype equal to dtype becomes "same".
 */
void att_variant_resolve(struct att_variant *v);

/* Returns a field of kind enum (its index), int or flag (0, 1), by id. */
int att_get(const struct att_variant *v, enum att_field f);
void att_set(struct att_variant *v, enum att_field f, int value);

/* Returns a field of kind file, by id: a path, or NULL. */
const char *att_get_file(const struct att_variant *v, enum att_field f);
void att_set_file(struct att_variant *v, enum att_field f, const char *path);

/* Returns the element type of K and V. kv_dtype "same" is resolved, so it is never
   ATT_KV_DTYPE_SAME. */
enum att_kv_dtype att_kv_dtype(const struct att_variant *v);

/*
 * Writes the value of a field as a description and a dispatch key spell it: "bf16", "128", "any",
 * "true", a file's stem, or "none" without a file. Returns the required length, as snprintf does.
 */
int att_format_value(const struct att_variant *v, enum att_field f, char *buf, size_t size);

/*
 * Writes the kernel's name, unique within a pack and a C identifier: op, dtype, head_dim, each
 * other field that is not at its default, and target, such as "prefill_bf16_d128_sinks_gfx942".
 */
void att_variant_name(const struct att_variant *v, char name[ATT_NAME_MAX]);

/*
 * Writes everything that identifies the variant in one line: "gfx942 prefill dtype=bf16
 * head_dim=128 ...", with every field of the op. Equal variants have equal text. `attnc build
 * --emit=variants` prints it, and the build cache hashes it.
 */
void att_variant_text(const struct att_variant *v, char text[ATT_TEXT_MAX]);

/* True if op, target and all fields are the same; locations do not count. */
bool att_variant_same(const struct att_variant *a, const struct att_variant *b);

#endif
