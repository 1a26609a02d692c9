/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lays out packs. Kernels are copied when they are added and serialised at the end in the order of
 * their names. The bytes thus depend neither on the order of a parallel build nor on addresses.
 */
#include "compiler/pack_writer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* Memory for a copy of the caller's data, in a list that is freed with the writer. */
struct chunk {
    struct chunk *next;
    max_align_t bytes[];
};

/* A growing array of bytes. */
struct buffer {
    uint8_t *data;
    size_t size, capacity;
};

/* An added kernel and its place in the pack; place_code() and append_record() set the place. */
struct kernel {
    struct attnc_pack_kernel k; /* points to copies that the writer owns */
    size_t record;              /* byte offset of its record in the section of kernels */
    uint64_t code_offset;       /* byte offset of its code in the section of code */
    uint64_t code_checksum;     /* XXH3 of its code */
};

struct attnc_pack_writer {
    struct chunk *chunks;
    struct kernel *kernels;
    size_t count, capacity;
    bool failed;     /* an earlier call failed, and later ones fail too */
    char error[256]; /* message of the first failure */
};

/* The sections of a pack under construction, and a hash table of the strings. */
struct layout {
    struct attnc_pack_writer *w;
    struct buffer strings, index, records, code;
    /* hash table, open addressing: byte offset of a string in `strings`; 0: free */
    uint32_t *slots;
    size_t slot_count, string_count; /* slots, a power of 2; slots that are taken */
};

static bool fail(struct attnc_pack_writer *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Stores the writer's first error; returns false. */
static bool fail(struct attnc_pack_writer *w, const char *format, ...)
{
    if (w->failed)
        return false;
    w->failed = true;
    va_list args;
    va_start(args, format);
    vsnprintf(w->error, sizeof(w->error), format, args);
    va_end(args);
    return false;
}

/* Stores the error of exhausted memory; returns false. */
static bool out_of_memory(struct attnc_pack_writer *w) { return fail(w, "out of memory"); }

struct attnc_pack_writer *attnc_pack_writer_create(void)
{
    return calloc(1, sizeof(struct attnc_pack_writer));
}

void attnc_pack_writer_destroy(struct attnc_pack_writer *w)
{
    if (!w)
        return;
    while (w->chunks) {
        struct chunk *next = w->chunks->next;
        free(w->chunks);
        w->chunks = next;
    }
    free(w->kernels);
    free(w);
}

const char *attnc_pack_writer_error(const struct attnc_pack_writer *w) { return w->error; }

/* The functions from here on copy data of the caller. Each returns NULL or false after a failure,
 * and records its message. */

/* Returns a copy of `size` bytes that the writer owns and frees, or NULL after a failure. */
static void *copy(struct attnc_pack_writer *w, const void *bytes, size_t size)
{
    if (w->failed)
        return NULL;
    struct chunk *chunk = malloc(sizeof(*chunk) + size);
    if (!chunk) {
        out_of_memory(w);
        return NULL;
    }
    chunk->next = w->chunks;
    w->chunks = chunk;
    if (size)
        memcpy(chunk->bytes, bytes, size);
    return chunk->bytes;
}

/* Returns a copy of `s`, which must be printable ASCII of limited length; a copy of "" if `s` is
 * NULL. `what` names the string in messages. */
static const char *copy_string(struct attnc_pack_writer *w, const char *what, const char *s)
{
    if (!s)
        s = "";
    size_t length = strlen(s);
    for (size_t i = 0; i < length; i++) {
        if (s[i] < 0x20 || s[i] > 0x7e) {
            fail(w, "%s: byte 0x%02x is not printable ASCII", what, (unsigned char)s[i]);
            return NULL;
        }
    }
    if (length >= ATTN_PACK_TEXT_MAX) {
        fail(w, "%s: %zu characters, at most %d fit", what, length, ATTN_PACK_TEXT_MAX - 1);
        return NULL;
    }
    return copy(w, s, length + 1);
}

/* Returns a copy of `s` like copy_string(), but an empty string or NULL is a failure. */
static const char *copy_name(struct attnc_pack_writer *w, const char *what, const char *s)
{
    if (!s || !*s) {
        fail(w, "%s is empty", what);
        return NULL;
    }
    return copy_string(w, what, s);
}

/* Bytes that an argument of each kind takes in the kernarg segment. */
static const uint8_t kind_size[ATTN_KIND_COUNT] = {
    [ATTN_KIND_I64] = 8,
    [ATTN_KIND_I32] = 4,
    [ATTN_KIND_F32] = 4,
};

/* Compares two key fields by name, for qsort(). */
static int by_field(const void *a, const void *b)
{
    const struct attnc_pack_pair *x = a, *y = b;
    return strcmp(x->field, y->field);
}

/* Replaces the key of a kernel by a copy that is sorted by field. A field that occurs twice is a
 * failure. */
static bool copy_key(struct attnc_pack_writer *w, struct attnc_pack_kernel *k)
{
    if (k->key_count > ATTN_PACK_PAIRS_MAX)
        return fail(w, "%s: %zu key fields, at most %d fit", k->name, k->key_count,
                    ATTN_PACK_PAIRS_MAX);
    struct attnc_pack_pair *key = copy(w, k->key, k->key_count * sizeof(*key));
    for (size_t i = 0; key && i < k->key_count; i++) {
        key[i].field = copy_name(w, "a key's field", key[i].field);
        key[i].value = copy_name(w, "a key's value", key[i].value);
    }
    if (w->failed)
        return false;
    qsort(key, k->key_count, sizeof(*key), by_field);
    for (size_t i = 1; i < k->key_count; i++) {
        if (!strcmp(key[i - 1].field, key[i].field))
            return fail(w, "%s: key field %s twice", k->name, key[i].field);
    }
    k->key = key;
    return true;
}

/* Replaces the arguments of a kernel by a copy, and checks that their offsets ascend within the
 * segment. */
static bool copy_kernargs(struct attnc_pack_writer *w, struct attnc_pack_kernel *k)
{
    if (k->kernarg_count > ATTN_PACK_KERNARGS_MAX)
        return fail(w, "%s: %zu kernel arguments, at most %d fit", k->name, k->kernarg_count,
                    ATTN_PACK_KERNARGS_MAX);
    if (k->kernarg_size > ATTN_PACK_KERNARG_BYTES_MAX)
        return fail(w, "%s: %u bytes of kernel arguments, at most %d fit", k->name, k->kernarg_size,
                    ATTN_PACK_KERNARG_BYTES_MAX);
    struct attnc_pack_kernarg *args = copy(w, k->kernargs, k->kernarg_count * sizeof(*args));
    uint32_t end = 0;
    for (size_t i = 0; args && i < k->kernarg_count; i++) {
        args[i].arg = copy_name(w, "a kernel argument's name", args[i].arg);
        if (w->failed)
            return false;
        if ((unsigned)args[i].kind >= ATTN_KIND_COUNT)
            return fail(w, "%s: argument %s has no known kind", k->name, args[i].arg);
        unsigned size = kind_size[args[i].kind];
        if (args[i].offset % size || args[i].offset < end)
            return fail(w, "%s: argument %s at offset %u is misaligned or overlaps", k->name,
                        args[i].arg, args[i].offset);
        end = args[i].offset + size;
    }
    if (end > k->kernarg_size)
        return fail(w, "%s: arguments take %u bytes of a segment of %u", k->name, end,
                    k->kernarg_size);
    k->kernargs = args;
    return !w->failed;
}

/* Replaces the factors of a kernel's grid by a copy. */
static bool copy_grid(struct attnc_pack_writer *w, struct attnc_pack_kernel *k)
{
    for (int d = 0; d < 3; d++) {
        if (k->grid_count[d] > ATTN_PACK_FACTORS_MAX)
            return fail(w, "%s: %zu factors in a grid dimension, at most %d fit", k->name,
                        k->grid_count[d], ATTN_PACK_FACTORS_MAX);
        size_t count = k->grid_count[d];
        struct attnc_pack_factor *factors = copy(w, k->grid[d], count * sizeof(*factors));
        for (size_t i = 0; factors && i < count; i++) {
            factors[i].arg = copy_string(w, "a grid factor's argument", factors[i].arg);
            if (factors[i].number == 0)
                return fail(w, "%s: a grid factor of 0", k->name);
        }
        k->grid[d] = factors;
    }
    return !w->failed;
}

/* Replaces the conditions under which a kernel is chosen by a copy. */
static bool copy_when(struct attnc_pack_writer *w, struct attnc_pack_kernel *k)
{
    if (k->when_count > ATTN_PACK_WHENS_MAX)
        return fail(w, "%s: %zu conditions, at most %d fit", k->name, k->when_count,
                    ATTN_PACK_WHENS_MAX);
    struct attnc_pack_when *when = copy(w, k->when, k->when_count * sizeof(*when));
    for (size_t i = 0; when && i < k->when_count; i++)
        when[i].arg = copy_name(w, "a condition's argument", when[i].arg);
    k->when = when;
    return !w->failed;
}

/* Replaces a kernel's table of splits by a copy. */
static bool copy_splits(struct attnc_pack_writer *w, struct attnc_pack_kernel *k)
{
    if (k->split_count > ATTN_PACK_SPLITS_MAX)
        return fail(w, "%s: %zu splits, at most %d fit", k->name, k->split_count,
                    ATTN_PACK_SPLITS_MAX);
    k->splits = copy(w, k->splits, k->split_count * sizeof(*k->splits));
    return !w->failed;
}

bool attnc_pack_writer_add(struct attnc_pack_writer *w, const struct attnc_pack_kernel *kernel)
{
    if (w->failed)
        return false;
    if (w->count == w->capacity) {
        size_t capacity = w->capacity ? 2 * w->capacity : 64;
        struct kernel *grown = realloc(w->kernels, capacity * sizeof(*grown));
        if (!grown)
            return out_of_memory(w);
        w->kernels = grown;
        w->capacity = capacity;
    }
    struct attnc_pack_kernel k = *kernel;
    k.name = copy_name(w, "a kernel's name", k.name);
    k.symbol = copy_name(w, "a kernel's symbol", k.symbol);
    k.op = copy_name(w, "a kernel's op", k.op);
    k.target = copy_name(w, "a kernel's target", k.target);
    k.tuning = copy_string(w, "a kernel's tuning", k.tuning);
    k.provenance = copy_string(w, "a kernel's provenance", k.provenance);
    if (w->failed || !copy_key(w, &k) || !copy_kernargs(w, &k) || !copy_grid(w, &k) ||
        !copy_when(w, &k) || !copy_splits(w, &k))
        return false;
    if (k.code_size == 0)
        return fail(w, "%s: no code", k.name);
    if (!k.workgroup[0] || !k.workgroup[1] || !k.workgroup[2])
        return fail(w, "%s: a workgroup dimension of 0", k.name);
    k.code = copy(w, k.code, k.code_size);
    if (!k.code)
        return false;
    w->kernels[w->count++] = (struct kernel){.k = k};
    return true;
}

/* The functions from here on append to sections. Each returns false after a failure, and records
 * its message. */

/* Appends `size` bytes to the buffer, which grows as needed. */
static bool append(struct layout *l, struct buffer *b, const void *bytes, size_t size)
{
    if (size > b->capacity - b->size) {
        size_t capacity = b->capacity ? b->capacity : 4096;
        while (capacity - b->size < size)
            capacity *= 2;
        uint8_t *grown = realloc(b->data, capacity);
        if (!grown)
            return out_of_memory(l->w);
        b->data = grown;
        b->capacity = capacity;
    }
    if (size)
        memcpy(b->data + b->size, bytes, size);
    b->size += size;
    return true;
}

/* Appends zeros until the buffer's size is a multiple of `boundary` bytes. */
static bool align(struct layout *l, struct buffer *b, size_t boundary)
{
    static const uint8_t zeros[ATTN_PACK_CODE_ALIGN];
    size_t over = b->size % boundary;
    return over == 0 || append(l, b, zeros, boundary - over);
}

/* Returns the index of the slot of string `s` in the hash table l->slots, or of the free slot for
 * it. */
static size_t find_slot(const struct layout *l, const char *s)
{
    size_t i = XXH3_64bits(s, strlen(s)) & (l->slot_count - 1);
    while (l->slots[i] && strcmp((const char *)l->strings.data + l->slots[i], s))
        i = (i + 1) & (l->slot_count - 1);
    return i;
}

/* Doubles the number of slots in the hash table of strings. */
static bool grow_slots(struct layout *l)
{
    size_t old_count = l->slot_count;
    uint32_t *old = l->slots;
    l->slot_count = old_count ? 2 * old_count : 256;
    l->slots = calloc(l->slot_count, sizeof(*l->slots));
    if (!l->slots) {
        l->slots = old;
        l->slot_count = old_count;
        return out_of_memory(l->w);
    }
    for (size_t i = 0; i < old_count; i++) {
        if (old[i])
            l->slots[find_slot(l, (const char *)l->strings.data + old[i])] = old[i];
    }
    free(old);
    return true;
}

/* Returns the byte offset of `s` in the section of strings, to which it is added at its first use.
 * Returns 0 for "" and after a failure. */
static attn_pack_string intern(struct layout *l, const char *s)
{
    if (!*s || l->w->failed)
        return 0;
    if (2 * l->string_count >= l->slot_count && !grow_slots(l))
        return 0;
    size_t slot = find_slot(l, s);
    if (l->slots[slot] == 0) {
        uint32_t offset = l->strings.size;
        if (!append(l, &l->strings, s, strlen(s) + 1))
            return 0;
        l->slots[slot] = offset;
        l->string_count++;
    }
    return l->slots[slot];
}

/* Returns the hash of a field of a dispatch key and its value. */
static uint64_t hash_pair(const char *field, const char *value)
{
    return XXH3_64bits_withSeed(value, strlen(value), XXH3_64bits(field, strlen(field)));
}

/* Returns the hash of a kernel's dispatch key with op and target. It does not depend on the order
 * of the fields. */
static uint64_t hash_key(const struct attnc_pack_kernel *k)
{
    uint64_t hash = hash_pair("op", k->op) + hash_pair("target", k->target);
    for (size_t i = 0; i < k->key_count; i++)
        hash += hash_pair(k->key[i].field, k->key[i].value);
    return hash;
}

/* Appends the code of kernels[index] to the section of code, unless an earlier kernel has equal
 * code. Then both share it. */
static bool place_code(struct layout *l, struct kernel *kernels, size_t index)
{
    struct kernel *kernel = &kernels[index];
    kernel->code_checksum = XXH3_64bits(kernel->k.code, kernel->k.code_size);
    for (size_t i = 0; i < index; i++) {
        if (kernels[i].code_checksum == kernel->code_checksum &&
            kernels[i].k.code_size == kernel->k.code_size &&
            !memcmp(kernels[i].k.code, kernel->k.code, kernel->k.code_size)) {
            kernel->code_offset = kernels[i].code_offset;
            return true;
        }
    }
    if (!align(l, &l->code, ATTN_PACK_CODE_ALIGN))
        return false;
    kernel->code_offset = l->code.size;
    return append(l, &l->code, kernel->k.code, kernel->k.code_size);
}

/* Appends the tables of a kernel's record, which follow its fixed part: key, arguments, grid,
 * conditions, splits. */
static bool append_tables(struct layout *l, const struct attnc_pack_kernel *k)
{
    struct buffer *out = &l->records;
    for (size_t i = 0; i < k->key_count; i++) {
        struct attn_pack_pair row = {intern(l, k->key[i].field), intern(l, k->key[i].value)};
        append(l, out, &row, sizeof(row));
    }
    for (size_t i = 0; i < k->kernarg_count; i++) {
        const struct attnc_pack_kernarg *a = &k->kernargs[i];
        struct attn_pack_kernarg row = {intern(l, a->arg), a->offset, kind_size[a->kind],
                                        (uint8_t)a->kind};
        append(l, out, &row, sizeof(row));
    }
    for (int d = 0; d < 3; d++) {
        for (size_t i = 0; i < k->grid_count[d]; i++) {
            struct attn_pack_factor row = {intern(l, k->grid[d][i].arg), k->grid[d][i].number};
            append(l, out, &row, sizeof(row));
        }
    }
    for (size_t i = 0; i < k->when_count; i++) {
        struct attn_pack_when row = {intern(l, k->when[i].arg), 0, k->when[i].min, k->when[i].max};
        append(l, out, &row, sizeof(row));
    }
    append(l, out, k->splits, k->split_count * sizeof(*k->splits));
    return !l->w->failed;
}

/* Appends a string to the record that begins at byte `start` of the section. Returns the string's
 * byte offset in the record. */
static uint32_t append_text(struct layout *l, size_t start, const char *s)
{
    uint32_t offset = l->records.size - start;
    append(l, &l->records, s, strlen(s) + 1);
    return offset;
}

/* Appends the record of a kernel with its tables and texts to the section of kernels. */
static bool append_record(struct layout *l, struct kernel *kernel)
{
    const struct attnc_pack_kernel *k = &kernel->k;
    size_t start = l->records.size;
    struct attn_pack_kernel r = {
        .op = intern(l, k->op),
        .target = intern(l, k->target),
        .pair_count = k->key_count,
        .kernarg_count = k->kernarg_count,
        .factor_count = {k->grid_count[0], k->grid_count[1], k->grid_count[2]},
        .when_count = k->when_count,
        .split_count = (uint16_t)k->split_count,
        .workgroups_most = k->workgroups_most,
        .kernarg_size = k->kernarg_size,
        .workgroup = {k->workgroup[0], k->workgroup[1], k->workgroup[2]},
#define NUMBER(type, name) .name = k->name,
#include "pack/kernel_numbers.def"
        .code_offset = kernel->code_offset,
        .code_size = k->code_size,
        .code_checksum = kernel->code_checksum,
    };
    if (!append(l, &l->records, &r, sizeof(r)) || !append_tables(l, k))
        return false;
    r.name = append_text(l, start, k->name);
    r.symbol = append_text(l, start, k->symbol);
    r.tuning = append_text(l, start, k->tuning);
    r.provenance = append_text(l, start, k->provenance);
    if (!align(l, &l->records, 8))
        return false;
    r.size = l->records.size - start;
    memcpy(l->records.data + start, &r, sizeof(r));
    r.checksum =
        XXH3_64bits(l->records.data + start + sizeof(r.checksum), r.size - sizeof(r.checksum));
    memcpy(l->records.data + start, &r, sizeof(r));
    kernel->record = start;
    if (l->records.size > UINT32_MAX || l->strings.size > UINT32_MAX)
        return fail(l->w, "the kernel records take more than 4 GiB");
    return true;
}

/* Compares two kernels by name, for qsort(). */
static int by_name(const void *a, const void *b)
{
    const struct kernel *x = a, *y = b;
    return strcmp(x->k.name, y->k.name);
}

/* Compares two rows of the index by hash, then by kernel number, for qsort(). */
static int by_hash(const void *a, const void *b)
{
    const struct attn_pack_index_row *x = a, *y = b;
    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return x->kernel < y->kernel ? -1 : x->kernel > y->kernel;
}

/* Writes the section of the index: a row for each kernel, sorted by hash, then the byte offset of
 * each kernel's record. */
static bool append_index(struct layout *l)
{
    const struct kernel *kernels = l->w->kernels;
    size_t count = l->w->count;
    for (size_t i = 0; i < count; i++) {
        struct attn_pack_index_row row = {.hash = hash_key(&kernels[i].k), .kernel = i};
        append(l, &l->index, &row, sizeof(row));
    }
    if (l->w->failed)
        return false;
    if (count)
        qsort(l->index.data, count, sizeof(struct attn_pack_index_row), by_hash);
    for (size_t i = 0; i < count; i++) {
        uint32_t offset = kernels[i].record;
        append(l, &l->index, &offset, sizeof(offset));
    }
    return !l->w->failed;
}

/* Fills all sections of a pack. Two kernels with the same name are a failure. */
static bool lay_out(struct layout *l)
{
    struct attnc_pack_writer *w = l->w;
    if (w->count > ATTN_PACK_KERNELS_MAX)
        return fail(w, "%zu kernels, at most %d fit", w->count, ATTN_PACK_KERNELS_MAX);
    if (w->count)
        qsort(w->kernels, w->count, sizeof(*w->kernels), by_name);
    if (!append(l, &l->strings, "", 1))
        return false;
    for (size_t i = 0; i < w->count; i++) {
        if (i && !strcmp(w->kernels[i - 1].k.name, w->kernels[i].k.name))
            return fail(w, "two kernels are called %s", w->kernels[i].k.name);
        if (!place_code(l, w->kernels, i) || !append_record(l, &w->kernels[i]))
            return false;
    }
    return append_index(l);
}

/* Writes the header and the sections in file order to `out`. */
static bool assemble(struct layout *l, struct buffer *out)
{
    const struct buffer *parts[ATTN_PACK_SECTIONS] = {
        [ATTN_PACK_STRINGS] = &l->strings,
        [ATTN_PACK_INDEX] = &l->index,
        [ATTN_PACK_KERNELS] = &l->records,
        [ATTN_PACK_CODE] = &l->code,
    };
    struct attn_pack_header h = {
        .version = ATTN_PACK_VERSION,
        .header_size = sizeof(h),
        .kernel_count = l->w->count,
    };
    memcpy(h.magic, ATTN_PACK_MAGIC, sizeof(h.magic));
    append(l, out, &h, sizeof(h));
    for (int s = 0; s < ATTN_PACK_SECTIONS; s++) {
        if (!align(l, out, s == ATTN_PACK_CODE ? ATTN_PACK_CODE_ALIGN : 8))
            return false;
        h.sections[s].offset = out->size;
        h.sections[s].size = parts[s]->size;
        h.sections[s].checksum = XXH3_64bits(parts[s]->data, parts[s]->size);
        if (!append(l, out, parts[s]->data, parts[s]->size))
            return false;
    }
    h.file_size = out->size;
    h.checksum = XXH3_64bits(&h, offsetof(struct attn_pack_header, checksum));
    memcpy(out->data, &h, sizeof(h));
    return true;
}

bool attnc_pack_writer_finish(struct attnc_pack_writer *w, void **bytes, size_t *size)
{
    if (w->failed)
        return false;
    struct layout l = {.w = w};
    struct buffer out = {0};
    bool ok = lay_out(&l) && assemble(&l, &out);
    free(l.strings.data);
    free(l.index.data);
    free(l.records.data);
    free(l.code.data);
    free(l.slots);
    if (!ok) {
        free(out.data);
        return false;
    }
    *bytes = out.data;
    *size = out.size;
    return true;
}
