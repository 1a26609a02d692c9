/* SPDX-License-Identifier: Apache-2.0 */
/* Reads kernel metadata from MessagePack. The input is untrusted, so this file limits all sizes. */
#include "metadata.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <msgpack.h>

/* Largest kernel argument segment; compilers' are far smaller. */
#define MAX_KERNARG_BYTES (64u * 1024)
#define MAX_DOCUMENT_BYTES (64u * 1024 * 1024)

static const char *const hidden_names[ARG_KINDS] = {
#define HIDDEN_ARGUMENT(id, name) [ARG_##id] = name,
#include "hidden_args.def"
};

/* The functions from here on read the document. */

/* The extent of a MessagePack item. */
struct item {
    uint64_t children; /* items inside this one, which follow it */
    uint64_t bytes;    /* bytes of the header and of a payload without items */
};

/* Returns the number in `bytes` bytes at p, the highest byte first. */
static uint64_t big_endian(const uint8_t *p, unsigned bytes)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < bytes; i++)
        value = value << 8 | p[i];
    return value;
}

/* Sets *item to the extent of the MessagePack item at `p`, with `left` bytes to the document's end;
 * see the format table of the MessagePack specification. False if the header does not fit or the
 * tag is unknown. */
static bool item_extent(const uint8_t *p, uint64_t left, struct item *item)
{
    /* By tag, from 0xc0: bytes of the length field, bytes of a fixed payload, and whether the
     * length counts bytes or items. */
    static const struct {
        uint8_t length, fixed;
        enum { PAYLOAD, ARRAY, MAP, BAD } counts;
    } tags
        [32] =
            {
                {0, 0, PAYLOAD}, {0, 0, BAD},      {0, 0, PAYLOAD},
                {0, 0, PAYLOAD},                                    /* nil, unused, false, true */
                {1, 0, PAYLOAD}, {2, 0, PAYLOAD},  {4, 0, PAYLOAD}, /* bin */
                {1, 1, PAYLOAD}, {2, 1, PAYLOAD},  {4, 1, PAYLOAD}, /* ext */
                {0, 4, PAYLOAD}, {0, 8, PAYLOAD},                   /* float */
                {0, 1, PAYLOAD}, {0, 2, PAYLOAD},  {0, 4, PAYLOAD},
                {0, 8, PAYLOAD}, /* unsigned */
                {0, 1, PAYLOAD}, {0, 2, PAYLOAD},  {0, 4, PAYLOAD},
                {0, 8, PAYLOAD}, /* signed */
                {0, 2, PAYLOAD}, {0, 3, PAYLOAD},  {0, 5, PAYLOAD},
                {0, 9, PAYLOAD}, {0, 17, PAYLOAD}, {1, 0, PAYLOAD},
                {2, 0, PAYLOAD}, {4, 0, PAYLOAD}, /* str */
                {2, 0, ARRAY},   {4, 0, ARRAY},    {2, 0, MAP},
                {4, 0, MAP},
            };
    uint8_t tag = p[0];

    *item = (struct item){.bytes = 1};
    if (tag < 0x80 || tag >= 0xe0)
        return true;
    if (tag < 0x90) {
        item->children = 2 * (tag & 15u);
    } else if (tag < 0xa0) {
        item->children = tag & 15u;
    } else if (tag < 0xc0) {
        item->bytes += tag & 31u;
    } else {
        unsigned length = tags[tag & 31].length;
        if (tags[tag & 31].counts == BAD || left < 1u + length)
            return false;
        uint64_t count = big_endian(p + 1, length);
        item->bytes += length + tags[tag & 31].fixed;
        if (tags[tag & 31].counts == PAYLOAD)
            item->bytes += count;
        else
            item->children = tags[tag & 31].counts == MAP ? 2 * count : count;
    }
    return item->bytes <= left;
}

/* True if the document is large enough for all items that its headers announce. msgpack-c allocates
 * the announced number before it reads the items. */
static bool is_plausible(const uint8_t *data, uint64_t size)
{
    uint64_t pending = 1;

    while (pending > 0) {
        struct item item;
        if (size == 0 || !item_extent(data, size, &item))
            return false;
        data += item.bytes;
        size -= item.bytes;
        pending += item.children;
        pending--;
        if (pending > size)
            return false;
    }
    return true;
}

/* True if the object is the string `text`. */
static bool equals(const msgpack_object *object, const char *text)
{
    return object->type == MSGPACK_OBJECT_STR && object->via.str.size == strlen(text) &&
           memcmp(object->via.str.ptr, text, object->via.str.size) == 0;
}

/* Returns the value of a map's key. NULL: no such key. */
static const msgpack_object *lookup(const msgpack_object *map, const char *key)
{
    if (!map || map->type != MSGPACK_OBJECT_MAP)
        return NULL;
    for (uint32_t i = 0; i < map->via.map.size; i++)
        if (equals(&map->via.map.ptr[i].key, key))
            return &map->via.map.ptr[i].val;
    return NULL;
}

/* Returns the number of a map's key; `missing`: no such key. */
static uint64_t lookup_number(const msgpack_object *map, const char *key, uint64_t missing)
{
    const msgpack_object *value = lookup(map, key);

    return value && value->type == MSGPACK_OBJECT_POSITIVE_INTEGER ? value->via.u64 : missing;
}

/* Returns a copy of a string, allocated with malloc. NULL: no string, or no memory. */
static char *copy_text(const msgpack_object *value)
{
    if (!value || value->type != MSGPACK_OBJECT_STR)
        return NULL;
    return strndup(value->via.str.ptr, value->via.str.size);
}

/* The functions from here on read the descriptions of kernels. */

/* Returns the kind of an argument. */
static enum argument_kind argument_kind(const msgpack_object *argument)
{
    const msgpack_object *value = lookup(argument, ".value_kind");

    if (!value)
        return ARG_VALUE;
    if (equals(value, "dynamic_shared_pointer"))
        return ARG_DYNAMIC_LDS;
    for (unsigned i = ARG_DYNAMIC_LDS + 1; i < ARG_KINDS; i++)
        if (equals(value, hidden_names[i]))
            return (enum argument_kind)i;
    /* Hidden arguments of unknown kinds remain 0. */
    if (value->type == MSGPACK_OBJECT_STR && value->via.str.size >= 7 &&
        memcmp(value->via.str.ptr, "hidden_", 7) == 0)
        return ARG_NONE;
    return ARG_VALUE;
}

/* Reads the list of a kernel's arguments. False with a reason if it is invalid. */
static bool read_arguments(const msgpack_object *list, struct kernel_metadata *kernel,
                           const char **problem)
{
    if (!list || list->type != MSGPACK_OBJECT_ARRAY || list->via.array.size == 0)
        return true;
    kernel->args = calloc(list->via.array.size, sizeof(*kernel->args));
    if (!kernel->args) {
        *problem = "out of memory";
        return false;
    }
    for (uint32_t i = 0; i < list->via.array.size; i++) {
        const msgpack_object *entry = &list->via.array.ptr[i];
        uint64_t offset = lookup_number(entry, ".offset", UINT64_MAX);
        uint64_t size = lookup_number(entry, ".size", UINT64_MAX);
        if (offset > MAX_KERNARG_BYTES || size > MAX_KERNARG_BYTES - offset) {
            *problem = "an argument lies outside any kernel argument segment";
            return false;
        }
        /* Runtimes do not compare the two sizes, and hand-written metadata may be inconsistent. */
        if (offset + size > kernel->kernarg_bytes)
            kernel->kernarg_bytes = (uint32_t)(offset + size);
        kernel->args[kernel->nargs++] = (struct kernel_argument){
            .offset = (uint32_t)offset,
            .size = (uint32_t)size,
            .kind = argument_kind(entry),
        };
    }
    return true;
}

/* Reads the workgroup size that a kernel requires, if it has one. */
static void read_required_workgroup(const msgpack_object *entry, struct kernel_metadata *kernel)
{
    const msgpack_object *list = lookup(entry, ".reqd_workgroup_size");

    if (!list || list->type != MSGPACK_OBJECT_ARRAY || list->via.array.size != 3)
        return;
    for (unsigned i = 0; i < 3; i++)
        if (list->via.array.ptr[i].type == MSGPACK_OBJECT_POSITIVE_INTEGER)
            kernel->required_workgroup[i] = (uint32_t)list->via.array.ptr[i].via.u64;
}

/* Reads the metadata of a kernel. False with a reason if they are invalid. */
static bool read_kernel(const msgpack_object *entry, struct kernel_metadata *kernel,
                        const char **problem)
{
    uint64_t kernarg = lookup_number(entry, ".kernarg_segment_size", 0);
    uint64_t wave = lookup_number(entry, ".wavefront_size", 64);

    kernel->symbol = copy_text(lookup(entry, ".symbol"));
    kernel->name = copy_text(lookup(entry, ".name"));
    if (!kernel->symbol || !kernel->name) {
        *problem = "a kernel has no .name or no .symbol";
        return false;
    }
    if (kernarg > MAX_KERNARG_BYTES) {
        *problem = "a kernel argument segment is absurdly large";
        return false;
    }
    if (wave != 32 && wave != 64) { /* the kernel descriptor says which of the two it is */
        *problem = "a kernel's .wavefront_size is neither 32 nor 64";
        return false;
    }
    kernel->kernarg_bytes = (uint32_t)kernarg;
    kernel->max_workgroup = (uint32_t)lookup_number(entry, ".max_flat_workgroup_size", 0);
    kernel->uniform_workgroup = lookup_number(entry, ".uniform_work_group_size", 0) != 0;
    read_required_workgroup(entry, kernel);
    return read_arguments(lookup(entry, ".args"), kernel, problem);
}

/* Reads the list of kernels. False with a reason if it is invalid. */
static bool read_kernels(const msgpack_object *list, struct metadata *metadata,
                         const char **problem)
{
    if (!list || list->type != MSGPACK_OBJECT_ARRAY || list->via.array.size == 0)
        return true;
    metadata->kernels = calloc(list->via.array.size, sizeof(*metadata->kernels));
    if (!metadata->kernels) {
        *problem = "out of memory";
        return false;
    }
    for (uint32_t i = 0; i < list->via.array.size; i++) {
        metadata->nkernels++;
        if (!read_kernel(&list->via.array.ptr[i], &metadata->kernels[i], problem))
            return false;
    }
    return true;
}

/* Reads the formats of printf, if there are any. */
static void read_printf_formats(const msgpack_object *list, struct metadata *metadata)
{
    if (!list || list->type != MSGPACK_OBJECT_ARRAY || list->via.array.size == 0)
        return;
    metadata->printf_formats = calloc(list->via.array.size, sizeof(*metadata->printf_formats));
    if (!metadata->printf_formats)
        return;
    for (uint32_t i = 0; i < list->via.array.size; i++) {
        char *text = copy_text(&list->via.array.ptr[i]);
        if (text)
            metadata->printf_formats[metadata->nprintf_formats++] = text;
    }
}

bool metadata_read(const void *data, size_t size, struct metadata *metadata, char *why,
                   size_t why_size)
{
    const char *problem = "it is no MessagePack document";
    msgpack_unpacked unpacked;
    size_t offset = 0;
    bool ok = false;

    *metadata = (struct metadata){0};
    msgpack_unpacked_init(&unpacked);
    if (size <= MAX_DOCUMENT_BYTES && is_plausible(data, size) &&
        msgpack_unpack_next(&unpacked, data, size, &offset) == MSGPACK_UNPACK_SUCCESS) {
        const msgpack_object *root = &unpacked.data;
        metadata->target = copy_text(lookup(root, "amdhsa.target"));
        read_printf_formats(lookup(root, "amdhsa.printf"), metadata);
        ok = read_kernels(lookup(root, "amdhsa.kernels"), metadata, &problem);
    }
    msgpack_unpacked_destroy(&unpacked);
    if (!ok) {
        metadata_free(metadata);
        snprintf(why, why_size, "the metadata note is malformed: %s", problem);
    }
    return ok;
}

void kernel_metadata_clear(struct kernel_metadata *kernel)
{
    free(kernel->symbol);
    free(kernel->name);
    free(kernel->args);
    *kernel = (struct kernel_metadata){0};
}

void metadata_free(struct metadata *metadata)
{
    for (size_t i = 0; i < metadata->nkernels; i++)
        kernel_metadata_clear(&metadata->kernels[i]);
    for (size_t i = 0; i < metadata->nprintf_formats; i++)
        free(metadata->printf_formats[i]);
    free(metadata->kernels);
    free(metadata->printf_formats);
    free(metadata->target);
    *metadata = (struct metadata){0};
}

uint32_t metadata_explicit_bytes(const struct kernel_metadata *kernel)
{
    uint32_t end = 0;

    for (uint32_t i = 0; i < kernel->nargs; i++) {
        const struct kernel_argument *arg = &kernel->args[i];
        if (!argument_is_hidden(arg->kind) && arg->offset + arg->size > end)
            end = arg->offset + arg->size;
    }
    return end;
}
