/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the code objects of the calibration as HIP's runtime reads them. The runtime takes
 * functions from the symbols and kernels from the metadata, both through comgr. It only finds a
 * kernel that is in both. Command line: targets and files, alternating.
 */
#include "targets/comgr.h"
#include "tests/unit_test.h"
#include "tools/hipsim/core/bundle.h"
#include "tools/hipsim/core/code_object.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 256, SIMD_VGPRS = 512, SIMDS = 4, WAVE = 64 };

static char **arguments;

static void read_text(amd_comgr_metadata_node_t map, const char *key, char text[TEXT])
{
    amd_comgr_metadata_node_t node;
    size_t size = 0;
    assert_int_equal(amd_comgr_metadata_lookup(map, key, &node), AMD_COMGR_STATUS_SUCCESS);
    assert_int_equal(amd_comgr_get_metadata_string(node, &size, NULL), AMD_COMGR_STATUS_SUCCESS);
    assert_true(size <= TEXT);
    assert_int_equal(amd_comgr_get_metadata_string(node, &size, text), AMD_COMGR_STATUS_SUCCESS);
    amd_comgr_destroy_metadata(node);
}

static uint32_t read_number(amd_comgr_metadata_node_t map, const char *key)
{
    char text[TEXT];
    read_text(map, key, text);
    return (uint32_t)strtoul(text, NULL, 10);
}

/* Checks that a kernel's metadata agrees with its descriptor, and that a workgroup fits on a CU. */
static void check_kernel(amd_comgr_metadata_node_t node, const struct code_object *object)
{
    char name[TEXT], symbol[TEXT], descriptor[TEXT + 3];
    read_text(node, ".name", name);
    read_text(node, ".symbol", symbol);
    snprintf(descriptor, sizeof(descriptor), "%s.kd", name);
    assert_string_equal(symbol, descriptor);
    const struct kernel *kernel = code_object_kernel(object, name);
    assert_non_null(kernel);
    const struct kernel_descriptor *d = &kernel->descriptor;
    assert_int_equal(read_number(node, ".kernarg_segment_size"), d->kernarg_bytes);
    assert_int_equal(read_number(node, ".kernarg_segment_align"), 8);
    assert_int_equal(read_number(node, ".group_segment_fixed_size"), d->group_segment_bytes);
    assert_int_equal(read_number(node, ".private_segment_fixed_size"), d->private_segment_bytes);
    assert_int_equal(read_number(node, ".wavefront_size"), WAVE);
    const uint32_t vgprs = read_number(node, ".vgpr_count");
    const uint32_t items = read_number(node, ".max_flat_workgroup_size");
    assert_in_range(items, WAVE, 512);
    assert_in_range(vgprs * (items / WAVE), 1, SIMD_VGPRS * SIMDS);
    assert_int_equal(metadata_explicit_bytes(&kernel->metadata), d->kernarg_bytes);
}

/* Compares register counts of descriptor and metadata. A compiler's metadata has the number of used
 * registers, an assembled kernel's the number of allocated registers. */
static void check_registers(amd_comgr_metadata_node_t node, const struct code_object *object)
{
    char name[TEXT];
    read_text(node, ".name", name);
    if (!strncmp(name, "reduce", strlen("reduce")))
        return;
    const struct kernel *kernel = code_object_kernel(object, name);
    assert_int_equal(read_number(node, ".vgpr_count"), kernel->vgprs + kernel->agprs);
    assert_int_equal(read_number(node, ".agpr_count"), kernel->agprs);
    assert_int_equal(read_number(node, ".sgpr_count"), kernel->sgprs);
}

struct functions {
    const struct code_object *object;
    size_t count;
};

/* Counts function symbols. HIP looks a function up in the symbols before it looks the kernel up in
 * the metadata. */
static amd_comgr_status_t count_function(amd_comgr_symbol_t symbol, void *ctx)
{
    struct functions *functions = ctx;
    amd_comgr_symbol_type_t type;
    uint64_t length;
    char name[TEXT];
    assert_int_equal(amd_comgr_symbol_get_info(symbol, AMD_COMGR_SYMBOL_INFO_TYPE, &type),
                     AMD_COMGR_STATUS_SUCCESS);
    amd_comgr_symbol_get_info(symbol, AMD_COMGR_SYMBOL_INFO_NAME_LENGTH, &length);
    assert_true(length < TEXT);
    amd_comgr_symbol_get_info(symbol, AMD_COMGR_SYMBOL_INFO_NAME, name);
    if (type != AMD_COMGR_SYMBOL_TYPE_FUNC)
        return AMD_COMGR_STATUS_SUCCESS;
    functions->count++;
    assert_non_null(code_object_kernel(functions->object, name));
    return AMD_COMGR_STATUS_SUCCESS;
}

static void check_object(const struct code_object *object, const struct image *image)
{
    amd_comgr_data_t data;
    amd_comgr_metadata_node_t root, version, minor, kernels, kernel;
    char digit[2];
    size_t size = sizeof(digit), count = 0;
    assert_int_equal(amd_comgr_create_data(AMD_COMGR_DATA_KIND_EXECUTABLE, &data),
                     AMD_COMGR_STATUS_SUCCESS);
    assert_int_equal(amd_comgr_set_data(data, image->size, (const char *)image->data),
                     AMD_COMGR_STATUS_SUCCESS);
    assert_int_equal(amd_comgr_get_data_metadata(data, &root), AMD_COMGR_STATUS_SUCCESS);
    assert_int_equal(amd_comgr_metadata_lookup(root, "amdhsa.version", &version),
                     AMD_COMGR_STATUS_SUCCESS);
    assert_int_equal(amd_comgr_index_list_metadata(version, 1, &minor), AMD_COMGR_STATUS_SUCCESS);
    assert_int_equal(amd_comgr_get_metadata_string(minor, &size, digit), AMD_COMGR_STATUS_SUCCESS);
    assert_string_equal(digit, "2");
    assert_int_equal(amd_comgr_metadata_lookup(root, "amdhsa.kernels", &kernels),
                     AMD_COMGR_STATUS_SUCCESS);
    amd_comgr_get_metadata_list_size(kernels, &count);
    assert_int_equal(count, object->nkernels);
    for (size_t i = 0; i < count; i++) {
        amd_comgr_index_list_metadata(kernels, i, &kernel);
        check_kernel(kernel, object);
        check_registers(kernel, object);
        amd_comgr_destroy_metadata(kernel);
    }
    struct functions functions = {.object = object};
    assert_int_equal(amd_comgr_iterate_symbols(data, count_function, &functions),
                     AMD_COMGR_STATUS_SUCCESS);
    assert_int_equal(functions.count, object->nkernels);
    amd_comgr_destroy_metadata(minor);
    amd_comgr_destroy_metadata(version);
    amd_comgr_destroy_metadata(kernels);
    amd_comgr_destroy_metadata(root);
    amd_comgr_release_data(data);
}

TEST(has_every_kernel)
{
    assert_non_null(arguments[0]);
    for (char **at = arguments; *at; at += 2) {
        struct image image;
        struct code_object *object;
        char why[600] = "";
        const enum gfx_target target = strcmp(at[0], "gfx950") ? GFX942 : GFX950;
        print_message("%s\n", at[1]);
        assert_int_equal(image_from_file(at[1], &image, why, sizeof(why)), CODE_OBJECT_OK);
        assert_int_equal(
            code_object_load(image.data, image.size, target, 0, &object, why, sizeof(why)),
            CODE_OBJECT_OK);
        check_object(object, &image);
        code_object_destroy(object);
        image_release(&image);
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    arguments = argv + 1;
    return run_unit_tests();
}
