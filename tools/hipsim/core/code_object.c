/* SPDX-License-Identifier: Apache-2.0 */
/* Loads code objects: segments into device memory, kernel descriptors, metadata, variables. */
#include "code_object.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elf_image.h"
#include "memory.h"

#define DESCRIPTOR_BYTES 64
#define MAX_PRIVATE_BYTES (4u * 1024 * 1024)

/* The state of a walk over the symbols of a code object. */
struct collect {
    struct code_object *object;
    const uint8_t *base;
    size_t kernel_capacity, variable_capacity;
    bool out_of_memory;
};

/* Returns the 32-bit number at p, which may have any alignment. */
static uint32_t read32(const uint8_t *p)
{
    uint32_t value;

    memcpy(&value, p, sizeof(value));
    return value;
}

/* Returns the field of `bits` bits of a word, from bit `shift` on. */
static uint32_t field(uint32_t word, unsigned shift, unsigned bits)
{
    return word >> shift & ((UINT32_C(1) << bits) - 1);
}

/* Returns the fields of a kernel descriptor. */
static struct kernel_descriptor read_descriptor(const uint8_t bytes[64])
{
    struct kernel_descriptor d = {
        .group_segment_bytes = read32(bytes),
        .private_segment_bytes = read32(bytes + 4),
        .kernarg_bytes = read32(bytes + 8),
        .rsrc3 = read32(bytes + 44),
        .rsrc1 = read32(bytes + 48),
        .rsrc2 = read32(bytes + 52),
        .properties = (uint16_t)read32(bytes + 56),
        .preload_dwords = (uint8_t)field(read32(bytes + 56), 16, 7),
        .preload_offset = (uint16_t)field(read32(bytes + 56), 23, 9),
    };

    memcpy(&d.entry_offset, bytes + 16, sizeof(d.entry_offset));
    return d;
}

/* Returns the number of user SGPRs that the descriptor's properties enable (AMDGPUUsage, "Initial
 * Kernel Execution State"). */
static unsigned enabled_user_sgprs(const struct kernel_descriptor *d)
{
    static const struct {
        uint16_t property;
        uint8_t count;
    } takes[] = {
        {KERNEL_PRIVATE_SEGMENT_BUFFER, 4}, {KERNEL_DISPATCH_PTR, 2}, {KERNEL_QUEUE_PTR, 2},
        {KERNEL_KERNARG_SEGMENT_PTR, 2},    {KERNEL_DISPATCH_ID, 2},  {KERNEL_FLAT_SCRATCH_INIT, 2},
        {KERNEL_PRIVATE_SEGMENT_SIZE, 1},
    };
    unsigned count = d->preload_dwords;

    for (size_t i = 0; i < sizeof(takes) / sizeof(*takes); i++)
        if (d->properties & takes[i].property)
            count += takes[i].count;
    return count;
}

/*
 * Computes a gfx9 kernel's register counts and MODE from its descriptor. VGPRs are allocated in
 * units of 8 from one file of 512; the first 4 * (ACCUM_OFFSET + 1) are architectural. SGPRs are
 * allocated in units of 16; the field is 2 * units - 2. Source: AMDGPUUsage, compute_pgm_rsrc1 and
 * compute_pgm_rsrc3 for GFX90A and GFX940.
 */
static void derive_gfx9(struct kernel *kernel)
{
    const struct kernel_descriptor *d = &kernel->descriptor;
    uint32_t total = (field(d->rsrc1, 0, 6) + 1) * 8;
    uint32_t accum_offset = (field(d->rsrc3, 0, 6) + 1) * 4;

    kernel->vgprs = total < accum_offset ? total : accum_offset;
    kernel->agprs = total - kernel->vgprs;
    if (kernel->agprs > 256)
        kernel->agprs = 256;
    if (kernel->vgprs > 256)
        kernel->vgprs = 256;
    kernel->sgprs = (field(d->rsrc1, 6, 4) / 2 + 1) * 16;
    kernel->user_sgprs = field(d->rsrc2, 1, 5);
    kernel->mode = field(d->rsrc1, 12, 8); /* rounding and denormals, in MODE's order */
    if (field(d->rsrc1, 21, 1))
        kernel->mode |= MODE_DX10_CLAMP;
    if (field(d->rsrc1, 23, 1))
        kernel->mode |= MODE_IEEE;
    if (field(d->rsrc1, 26, 1))
        kernel->mode |= MODE_FP16_OVFL;
}

/*
 * Computes a GFX12 kernel's register counts and MODE from its descriptor: no AGPRs, all SGPRs. The
 * user SGPR count of gfx1250 has 6 bits; the last one is GFX9's bit for the trap handler. Two bits
 * of MODE that GFX9 can clear are always 1: GFX12 always clamps NaNs to 0 and makes signalling NaNs
 * quiet.
 */
static void derive_gfx12(struct kernel *kernel, const struct isa *isa)
{
    const struct kernel_descriptor *d = &kernel->descriptor;

    kernel->vgprs = (field(d->rsrc1, 0, 6) + 1) * isa->vgpr_unit;
    kernel->named_barriers = isa->clusters ? field(d->rsrc3, 14, 3) * 4 : 0;
    kernel->agprs = 0;
    kernel->sgprs = 0;
    kernel->user_sgprs = field(d->rsrc2, 1, isa->user_sgprs > 16 ? 6 : 5);
    kernel->mode = field(d->rsrc1, 12, 8) | MODE_DX10_CLAMP | MODE_IEEE;
    if (field(d->rsrc1, 26, 1))
        kernel->mode |= MODE_FP16_OVFL;
}

/* Returns the reason why a kernel with this descriptor cannot be launched; NULL if it can. */
static const char *descriptor_problem(const struct kernel *kernel, const struct code *code)
{
    const struct kernel_descriptor *d = &kernel->descriptor;

    if (!code || kernel->entry < code_address(code) ||
        kernel->entry - code_address(code) >= code_size(code) || kernel->entry & 3)
        return "its entry point lies outside the code";
    const struct isa *isa = isa_of(kernel->object->target);
    if (!(d->properties & KERNEL_WAVEFRONT_SIZE32) != (isa->lanes == 64))
        return isa->lanes == 64 ? "it asks for waves of 32 lanes" : "it asks for waves of 64 lanes";
    if (d->group_segment_bytes > (isa->lanes == 64 ? 160u * 1024 : isa->lds_group))
        return "it asks for more LDS than any target has";
    if (d->private_segment_bytes > MAX_PRIVATE_BYTES)
        return "its private segment is absurdly large";
    if (d->kernarg_bytes > 64 * 1024)
        return "its kernel argument segment is absurdly large";
    if (kernel->user_sgprs > isa->user_sgprs || enabled_user_sgprs(d) > kernel->user_sgprs)
        return "it enables more user SGPRs than it allocates";
    if (((uint64_t)d->preload_offset + d->preload_dwords) * 4 > d->kernarg_bytes + 3)
        return "it preloads bytes beyond its kernel argument segment";
    return NULL;
}

/* The functions from here on collect symbols. */

/* Returns the array with room for one more item, moved if necessary. NULL: no memory. */
static void *grow(void *array, size_t *capacity, size_t count, size_t item)
{
    if (count < *capacity)
        return array;
    size_t grown = *capacity ? *capacity * 2 : 16;
    void *bigger = realloc(array, grown * item);
    if (bigger)
        *capacity = grown;
    return bigger;
}

/* True if the symbol is a kernel descriptor. */
static bool is_descriptor(const char *name, const GElf_Sym *symbol)
{
    size_t length = strlen(name);

    return length > 3 && strcmp(name + length - 3, ".kd") == 0 &&
           GELF_ST_TYPE(symbol->st_info) != STT_FUNC && symbol->st_size == DESCRIPTOR_BYTES;
}

/* Adds the kernel of a descriptor symbol. False without memory. */
static bool add_kernel(struct collect *collect, const char *name, const GElf_Sym *symbol)
{
    struct code_object *object = collect->object;
    struct kernel *kernels =
        grow(object->kernels, &collect->kernel_capacity, object->nkernels, sizeof(*kernels));
    char *copy = strndup(name, strlen(name) - 3);

    if (kernels)
        object->kernels = kernels;
    if (!kernels || !copy) {
        free(copy);
        return false;
    }
    struct kernel *kernel = &kernels[object->nkernels++];
    *kernel = (struct kernel){
        .name = copy,
        .descriptor_address = (uintptr_t)collect->base + symbol->st_value,
        .descriptor = read_descriptor(collect->base + symbol->st_value),
        .object = object,
    };
    kernel->entry = kernel->descriptor_address + (uint64_t)kernel->descriptor.entry_offset;
    const struct isa *isa = isa_of(object->target);
    if (isa->gfx12)
        derive_gfx12(kernel, isa);
    else
        derive_gfx9(kernel);
    return true;
}

/* Adds the global variable of a symbol. False without memory. */
static bool add_variable(struct collect *collect, const char *name, const GElf_Sym *symbol)
{
    struct code_object *object = collect->object;
    struct global_variable *variables = grow(object->variables, &collect->variable_capacity,
                                             object->nvariables, sizeof(*variables));
    char *copy = strdup(name);

    if (variables)
        object->variables = variables;
    if (!variables || !copy) {
        free(copy);
        return false;
    }
    variables[object->nvariables++] = (struct global_variable){
        .name = copy,
        .address = (uintptr_t)collect->base + symbol->st_value,
        .size = symbol->st_size,
    };
    return true;
}

/* Adds the kernel or variable of a symbol to the code object. False without memory. */
static bool collect_symbol(void *ctx, const char *name, const GElf_Sym *symbol)
{
    struct collect *collect = ctx;
    bool ok = true;

    if (is_descriptor(name, symbol))
        ok = add_kernel(collect, name, symbol);
    else if (GELF_ST_TYPE(symbol->st_info) == STT_OBJECT)
        ok = add_variable(collect, name, symbol);
    collect->out_of_memory = !ok;
    return ok;
}

/* Compares kernels by name, for qsort(). */
static int by_kernel_name(const void *a, const void *b)
{
    return strcmp(((const struct kernel *)a)->name, ((const struct kernel *)b)->name);
}

/* Compares variables by name, for qsort(). */
static int by_variable_name(const void *a, const void *b)
{
    return strcmp(((const struct global_variable *)a)->name,
                  ((const struct global_variable *)b)->name);
}

/* The functions from here on load a code object. */

/* Moves the metadata of each kernel to the kernel with the same symbol. */
static void attach_metadata(struct code_object *object)
{
    for (size_t i = 0; i < object->nkernels; i++)
        object->kernels[i].metadata.kernarg_bytes = object->kernels[i].descriptor.kernarg_bytes;
    for (size_t i = 0; i < object->metadata.nkernels; i++) {
        struct kernel_metadata *from = &object->metadata.kernels[i];
        size_t length = strlen(from->symbol);
        if (length <= 3)
            continue;
        from->symbol[length - 3] = 0;
        struct kernel *kernel = (struct kernel *)code_object_kernel(object, from->symbol);
        from->symbol[length - 3] = '.';
        if (!kernel || kernel->metadata.name)
            continue;
        kernel->metadata = *from;
        *from = (struct kernel_metadata){0};
    }
}

/* Checks the descriptors of all kernels. Sets the reason if one is not supported. */
static enum code_object_status check_kernels(const struct code_object *object, char *why,
                                             size_t why_size)
{
    for (size_t i = 0; i < object->nkernels; i++) {
        const char *problem = descriptor_problem(&object->kernels[i], object->code);
        if (!problem)
            continue;
        snprintf(why, why_size, "the kernel descriptor of %.200s is corrupt: %s",
                 object->kernels[i].name, problem);
        return CODE_OBJECT_INVALID;
    }
    return CODE_OBJECT_OK;
}

/* Writes "out of memory" to image->why. Returns CODE_OBJECT_OUT_OF_MEMORY. */
static enum code_object_status out_of_memory(const struct elf_image *image)
{
    snprintf(image->why, image->why_size, "out of memory while loading the code object");
    return CODE_OBJECT_OUT_OF_MEMORY;
}

/* Allocates device memory for the loaded image. */
static enum code_object_status place(struct code_object *object, const struct elf_image *image)
{
    struct hipsim_mem_request request = {
        .size = image->span,
        .alignment = 4096,
        .kind = HIPSIM_MEM_CODE,
        .device = object->device,
    };

    object->base = hipsim_mem_alloc(&request);
    if (!object->base)
        return out_of_memory(image);
    object->size = image->span;
    hipsim_mem_clear(object->base, image->span);
    elf_image_copy(image, object->base);
    hipsim_mem_mark((uintptr_t)object->base, image->span);
    hipsim_mem_protect_text(object->base, (uintptr_t)object->base + image->text_begin,
                            (uintptr_t)object->base + image->text_end);
    enum code_object_status status = elf_image_relocate(image, object->base);
    if (status != CODE_OBJECT_OK || image->text_end <= image->text_begin)
        return status;
    object->code = code_create(object->target, object->base + image->text_begin,
                               image->text_end - image->text_begin,
                               (uintptr_t)object->base + image->text_begin);
    return object->code ? CODE_OBJECT_OK : out_of_memory(image);
}

/* Reads the symbols and the metadata of the placed image. */
static enum code_object_status fill(struct code_object *object, const struct elf_image *image)
{
    struct collect collect = {.object = object, .base = object->base};
    size_t note_size;

    elf_image_symbols(image, collect_symbol, &collect);
    if (collect.out_of_memory)
        return out_of_memory(image);
    if (object->nkernels)
        qsort(object->kernels, object->nkernels, sizeof(*object->kernels), by_kernel_name);
    if (object->nvariables)
        qsort(object->variables, object->nvariables, sizeof(*object->variables), by_variable_name);
    const void *note = elf_image_metadata(image, &note_size);
    if (note && !metadata_read(note, note_size, &object->metadata, image->why, image->why_size))
        return CODE_OBJECT_INVALID;
    object->has_metadata = note != NULL;
    attach_metadata(object);
    return check_kernels(object, image->why, image->why_size);
}

enum code_object_status code_object_load(const void *image_bytes, size_t size,
                                         enum gfx_target target, unsigned device,
                                         struct code_object **object, char *why, size_t why_size)
{
    struct elf_image image = {.size = size, .why = why, .why_size = why_size};
    void *aligned = NULL;
    enum code_object_status status;

    *object = NULL;
    /* libelf needs aligned tables, but an image in a bundle may have any address. */
    if ((uintptr_t)image_bytes & 7) {
        aligned = malloc(size ? size : 1);
        if (!aligned)
            return out_of_memory(&image);
        memcpy(aligned, image_bytes, size);
    }
    image.bytes = aligned ? aligned : image_bytes;
    struct code_object *loaded = calloc(1, sizeof(*loaded));
    status = loaded ? elf_image_open(&image, target) : out_of_memory(&image);
    if (status == CODE_OBJECT_OK) {
        loaded->target = target;
        loaded->device = device;
        loaded->version = image.bytes[EI_ABIVERSION] + 2u;
        status = place(loaded, &image);
    }
    if (status == CODE_OBJECT_OK)
        status = fill(loaded, &image);
    elf_image_close(&image);
    free(aligned);
    if (status == CODE_OBJECT_OK)
        *object = loaded;
    else
        code_object_destroy(loaded);
    return status;
}

void code_object_destroy(struct code_object *object)
{
    if (!object)
        return;
    for (size_t i = 0; i < object->nkernels; i++) {
        free(object->kernels[i].name);
        kernel_metadata_clear(&object->kernels[i].metadata);
    }
    for (size_t i = 0; i < object->nvariables; i++)
        free(object->variables[i].name);
    free(object->kernels);
    free(object->variables);
    metadata_free(&object->metadata);
    if (object->code)
        code_destroy(object->code);
    if (object->base)
        hipsim_mem_free(object->base);
    free(object);
}

const struct kernel *code_object_kernel(const struct code_object *object, const char *name)
{
    struct kernel key = {.name = (char *)(uintptr_t)name};

    if (!object->nkernels)
        return NULL;
    return bsearch(&key, object->kernels, object->nkernels, sizeof(key), by_kernel_name);
}

const struct global_variable *code_object_variable(const struct code_object *object,
                                                   const char *name)
{
    struct global_variable key = {.name = (char *)(uintptr_t)name};

    if (!object->nvariables)
        return NULL;
    return bsearch(&key, object->variables, object->nvariables, sizeof(key), by_variable_name);
}
