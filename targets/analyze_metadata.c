/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a kernel's metadata in a code object (AMDGPUUsage, "Code Object V5 Metadata") by the
 * library comgr.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "targets/analyze.h"
#include "targets/comgr.h"

/* True if a call of comgr succeeded. */
static bool ok(amd_comgr_status_t s) { return s == AMD_COMGR_STATUS_SUCCESS; }

/* Copies the string with key `key` of a map to `text`, which has `size` bytes. Returns false if the
 * map lacks it or it does not fit. */
static bool read_string(amd_comgr_metadata_node_t map, const char *key, char *text, size_t size)
{
    amd_comgr_metadata_node_t node;
    if (!ok(tgt_comgr.metadata_lookup(map, key, &node)))
        return false;
    size_t needed = 0;
    bool good = ok(tgt_comgr.get_metadata_string(node, &needed, NULL)) && needed <= size &&
                ok(tgt_comgr.get_metadata_string(node, &needed, text));
    tgt_comgr.destroy_metadata(node);
    return good;
}

/* Returns the number with key `key` of a map, 0 if it is absent. */
static unsigned read_number(amd_comgr_metadata_node_t map, const char *key)
{
    char text[32];
    return read_string(map, key, text, sizeof(text)) ? (unsigned)strtoul(text, NULL, 10) : 0;
}

/* Sets registers, spills and sizes in *facts from the metadata of a kernel. */
static void read_kernel(amd_comgr_metadata_node_t kernel, struct tgt_kernel_facts *facts)
{
    unsigned total = read_number(kernel, ".vgpr_count");
    facts->agprs = read_number(kernel, ".agpr_count");
    facts->vgprs = total > facts->agprs ? total - facts->agprs : total;
    facts->sgprs = read_number(kernel, ".sgpr_count");
    facts->vgpr_spills = read_number(kernel, ".vgpr_spill_count");
    facts->sgpr_spills = read_number(kernel, ".sgpr_spill_count");
    facts->scratch_bytes = read_number(kernel, ".private_segment_fixed_size");
    facts->lds_bytes = read_number(kernel, ".group_segment_fixed_size");
    facts->kernarg_bytes = read_number(kernel, ".kernarg_segment_size");
    facts->workgroup_size = read_number(kernel, ".max_flat_workgroup_size");
}

/* Sets *facts from the metadata of the kernel `name` in a list. Returns false if the list has no
 * such kernel. */
static bool find_kernel(amd_comgr_metadata_node_t list, const char *name,
                        struct tgt_kernel_facts *facts)
{
    size_t count = 0;
    bool found = false;
    tgt_comgr.get_metadata_list_size(list, &count);
    for (size_t i = 0; i < count && !found; i++) {
        amd_comgr_metadata_node_t kernel;
        char text[512];
        if (!ok(tgt_comgr.index_list_metadata(list, i, &kernel)))
            continue;
        found = read_string(kernel, ".name", text, sizeof(text)) && strcmp(text, name) == 0;
        if (found)
            read_kernel(kernel, facts);
        tgt_comgr.destroy_metadata(kernel);
    }
    return found;
}

/* Sets *facts from the metadata of the kernel `name` in a code object. Returns false if it has no
 * such kernel. */
static bool read_from(amd_comgr_data_t data, const char *name, struct tgt_kernel_facts *facts)
{
    amd_comgr_metadata_node_t root, list;
    if (!ok(tgt_comgr.get_data_metadata(data, &root)))
        return false;
    bool found = false;
    if (ok(tgt_comgr.metadata_lookup(root, "amdhsa.kernels", &list))) {
        found = find_kernel(list, name, facts);
        tgt_comgr.destroy_metadata(list);
    }
    tgt_comgr.destroy_metadata(root);
    return found;
}

bool tgt_read_metadata(const void *code_object, size_t size, const char *name,
                       struct tgt_kernel_facts *facts, char why[TGT_WHY])
{
    amd_comgr_data_t data;
    if (!tgt_load_comgr(why, TGT_WHY))
        return false;
    if (!ok(tgt_comgr.create_data(AMD_COMGR_DATA_KIND_EXECUTABLE, &data))) {
        snprintf(why, TGT_WHY, "comgr: out of memory");
        return false;
    }
    bool found = ok(tgt_comgr.set_data(data, size, code_object)) && read_from(data, name, facts);
    if (!found)
        snprintf(why, TGT_WHY, "%s: no metadata of such a kernel in the code object", name);
    tgt_comgr.release_data(data);
    return found;
}
