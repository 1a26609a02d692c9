/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pack format: compiler/pack_writer.c writes it and runtime/pack.c reads it, byte for byte.
 * docs/pack-format.md explains it. Little-endian, every field naturally aligned.
 *
 *   header | strings | index | kernel records | code objects, each on a 4 KiB boundary
 *
 * Opening a pack reads the header, the strings that kernels share, and the index. A kernel's record
 * contains a checksum and private text, and its code object has a checksum of its own. Neither is
 * read before the kernel is needed.
 */
#ifndef ATTN_PACK_FORMAT_H
#define ATTN_PACK_FORMAT_H

#include <assert.h>
#include <stdint.h>

#define ATTN_PACK_MAGIC "attnpack"

enum {
    /* Version of the format and of what kernels read. 2: work items contain keys, not pages. 3:
     * kernels have splits, and kernels of plan read item_cost and merge_rate. 4: workgroups_most
     * limits a grid. 5: a workgroup of mla_rope_cache may have rows of queries and of latents, and
     * one of qk_rmsnorm rows of q and of kv. */
    ATTN_PACK_VERSION = 5,
    ATTN_PACK_CODE_ALIGN = 4096, /* bytes: a page, so that code objects can be mapped */
};

/* Limits, so that a reader's work on one kernel is bounded. */
enum {
    ATTN_PACK_KERNELS_MAX = 1 << 20,
    ATTN_PACK_PAIRS_MAX = 64,
    ATTN_PACK_KERNARGS_MAX = 128,
    ATTN_PACK_KERNARG_BYTES_MAX = 1024,
    ATTN_PACK_FACTORS_MAX = 4, /* most factors of one grid dimension */
    ATTN_PACK_WHENS_MAX = 8,
    ATTN_PACK_SPLITS_MAX = 128,
    /* Most kernel records with the same key. A kernel has one record for each box of calls that it
     * is for. */
    ATTN_PACK_MATCHES_MAX = 16,
    ATTN_PACK_TEXT_MAX = 4096, /* bytes of the longest string, with its NUL */
    ATTN_PACK_RECORD_MAX = 32768,
};

/* Sections, in the order in which the file contains them. CODE may be empty only when there are no
 * kernels. */
enum attn_pack_section_id {
    ATTN_PACK_STRINGS,
    ATTN_PACK_INDEX,
    ATTN_PACK_KERNELS,
    ATTN_PACK_CODE,
    ATTN_PACK_SECTIONS
};

/* Place and checksum of a section. All checksums of a pack are XXH3, 64 bits, seed 0. */
struct attn_pack_section {
    uint64_t offset;   /* byte offset from the start of the file; sections do not overlap */
    uint64_t size;     /* bytes of the section, without the zero padding after it */
    uint64_t checksum; /* checksum of the section's bytes */
};

struct attn_pack_header {
    char magic[8];
    uint32_t version;
    uint32_t header_size; /* sizeof(struct attn_pack_header) */
    uint64_t file_size;
    uint32_t kernel_count;
    uint32_t zero;
    struct attn_pack_section sections[ATTN_PACK_SECTIONS];
    uint64_t checksum; /* checksum of the header's bytes before this field */
};

/*
 * A string of the strings section: its offset there. The section starts with an empty string and
 * ends with a NUL; its bytes are NUL or printable ASCII.
 */
typedef uint32_t attn_pack_string;

/*
 * The index section has kernel_count rows, ascending by (hash, kernel). Then follow kernel_count
 * 32-bit record offsets from the start of the kernel records: one per kernel, in the order of
 * names.
 *
 * The hash of a kernel is the sum, modulo 2^64, of XXH3(value, seed XXH3(field)) over its key's
 * pairs and the pairs ("op", op) and ("target", target). A lookup that changes one field therefore
 * costs one subtraction and one addition.
 */
struct attn_pack_index_row {
    uint64_t hash;
    uint32_t kernel;
    uint32_t zero;
};

/* One field of the dispatch key, spelt as in a kernel's description: ("head_dim", "128"). */
struct attn_pack_pair {
    attn_pack_string field;
    attn_pack_string value;
};

enum attn_arg_kind {
    ATTN_KIND_I64, /* an int64 or a pointer */
    ATTN_KIND_I32,
    ATTN_KIND_F32,
    ATTN_KIND_COUNT
};

/* One kernel argument: the offset in the kernarg segment of the value that ops/ names `arg`. */
struct attn_pack_kernarg {
    attn_pack_string arg;
    uint16_t offset;
    uint8_t size; /* bytes of the argument: 8 for I64, 4 for I32 and F32 */
    uint8_t kind; /* enum attn_arg_kind */
};

/* A factor of a grid dimension: ceil(arg / number), or `number` if arg is the empty string. */
struct attn_pack_factor {
    attn_pack_string arg;
    uint32_t number;
};

/*
 * A condition for choosing among kernels with the same key, per call: min <= arg <= max must hold
 * for each row of the chosen kernel. A kernel without rows is chosen if no other matches.
 */
struct attn_pack_when {
    attn_pack_string arg;
    uint32_t zero;
    int64_t min, max;
};

/*
 * The tuned best split of a decode call's keys: the call, and what a caller should plan for similar
 * calls. Launches do not read it.
 */
struct attn_pack_split {
    int32_t batch, keys;     /* sequences, and attention keys of each; above 0 */
    int32_t heads, kv_heads; /* numbers of query heads and of KV heads; 0: not known */
    int32_t lists;           /* number of work lists; 0: no work lists */
    /* Fields of attn_decode_plan_shape to plan with, 0 to 256. */
    int16_t item_cost, merge_rate;
    int32_t one_launch; /* 1: use the kernel of the key with one_launch */
    int32_t unit_keys;  /* keys of a unit of the plan: 16, 32 or 64; 0: 64 */
};

/*
 * A kernel record: this struct, then pairs (ascending by field name), kernargs (ascending by
 * offset), factors (x, then y, then z), whens and splits. The record's own text follows:
 * NUL-terminated printable ASCII. Name, symbol, tuning and provenance are offsets into it from the
 * record's start.
 */
struct attn_pack_kernel {
    uint64_t checksum; /* checksum of the record's bytes after this field */
    uint32_t size;     /* bytes of the record, a multiple of 8 */
    attn_pack_string op;
    attn_pack_string target; /* name of the GPU target, such as "gfx942" */
    uint32_t name;           /* the kernel's name, unique in the pack */
    uint32_t symbol;         /* the kernel's symbol in its code object, without ".kd" */
    /* tile and schedule that the compiler chose: "block_q=128 block_kv=64 ..." */
    uint32_t tuning;
    uint32_t provenance; /* compiler version and input that produced the kernel */
    uint16_t pair_count;
    uint16_t kernarg_count;
    uint16_t factor_count[3];
    uint16_t when_count;
    uint32_t kernarg_size;
    uint32_t workgroup[3];
#define NUMBER(type, name) type name;
#include "pack/kernel_numbers.def"
    uint16_t split_count;
    /* Most workgroups of a launch whose sequences are about equally long: a larger grid becomes
     * this many workgroups in x. 0: no limit. */
    uint16_t workgroups_most;
    /* byte offset of the code object in the code section, a multiple of 4096 */
    uint64_t code_offset;
    uint64_t code_size;
    uint64_t code_checksum;
};

static_assert(sizeof(struct attn_pack_section) == 24, "part of the format");
static_assert(sizeof(struct attn_pack_header) == 136, "part of the format");
static_assert(sizeof(struct attn_pack_index_row) == 16, "part of the format");
static_assert(sizeof(struct attn_pack_pair) == 8, "part of the format");
static_assert(sizeof(struct attn_pack_kernarg) == 8, "part of the format");
static_assert(sizeof(struct attn_pack_factor) == 8, "part of the format");
static_assert(sizeof(struct attn_pack_when) == 24, "part of the format");
static_assert(sizeof(struct attn_pack_split) == 32, "part of the format");
static_assert(sizeof(struct attn_pack_kernel) == 120, "part of the format");
static_assert(sizeof(struct attn_pack_kernel) +
                      ATTN_PACK_PAIRS_MAX * sizeof(struct attn_pack_pair) +
                      ATTN_PACK_KERNARGS_MAX * sizeof(struct attn_pack_kernarg) +
                      3 * ATTN_PACK_FACTORS_MAX * sizeof(struct attn_pack_factor) +
                      ATTN_PACK_WHENS_MAX * sizeof(struct attn_pack_when) +
                      ATTN_PACK_SPLITS_MAX * sizeof(struct attn_pack_split) +
                      4 * ATTN_PACK_TEXT_MAX <=
                  ATTN_PACK_RECORD_MAX,
              "every record fits");

#endif
