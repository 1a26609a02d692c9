/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a kernel's metadata in a code object (AMDGPUUsage, "Code Object V5 Metadata") by libelf and
 * msgpack. A static build has this file instead of analyze_metadata.c: comgr contains a second LLVM
 * and exists only as a shared library.
 */
#include <gelf.h>
#include <msgpack.h>
#include <stdio.h>
#include <string.h>

#include "targets/analyze.h"

enum { NOTE_TYPE = 32 /* NT_AMDGPU_METADATA */ };

/* Sets *document and *size to the msgpack document in the note with the metadata. Returns false if
 * the file has none. */
static bool find_note(Elf *elf, const char **document, size_t *size)
{
    size_t headers = 0;
    if (!elf || elf_getphdrnum(elf, &headers))
        return false;
    for (size_t i = 0; i < headers; i++) {
        GElf_Phdr header;
        GElf_Nhdr note;
        size_t at = 0, name, text;
        if (!gelf_getphdr(elf, (int)i, &header) || header.p_type != PT_NOTE)
            continue;
        Elf_Data *data = elf_getdata_rawchunk(elf, (int64_t)header.p_offset, header.p_filesz,
                                              header.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR);
        while (data && (at = gelf_getnote(data, at, &note, &name, &text)) > 0) {
            if (note.n_type != NOTE_TYPE || note.n_namesz != sizeof("AMDGPU") ||
                memcmp((const char *)data->d_buf + name, "AMDGPU", sizeof("AMDGPU")) != 0)
                continue;
            *document = (const char *)data->d_buf + text;
            *size = note.n_descsz;
            return true;
        }
    }
    return false;
}

/* Returns the value with key `key` of a map. Returns NULL if `map` is NULL or no map, or lacks the
 * key. */
static const msgpack_object *find(const msgpack_object *map, const char *key)
{
    for (uint32_t i = 0; map && map->type == MSGPACK_OBJECT_MAP && i < map->via.map.size; i++) {
        const msgpack_object_kv *kv = &map->via.map.ptr[i];
        if (kv->key.type == MSGPACK_OBJECT_STR && kv->key.via.str.size == strlen(key) &&
            memcmp(kv->key.via.str.ptr, key, strlen(key)) == 0)
            return &kv->val;
    }
    return NULL;
}

/* Returns the number with key `key` of a map, 0 if it is absent. */
static unsigned find_number(const msgpack_object *map, const char *key)
{
    const msgpack_object *value = find(map, key);
    return value && value->type == MSGPACK_OBJECT_POSITIVE_INTEGER ? (unsigned)value->via.u64 : 0;
}

/* Sets registers, spills and sizes in *facts from the metadata of a kernel. */
static void read_kernel(const msgpack_object *kernel, struct tgt_kernel_facts *facts)
{
    const unsigned total = find_number(kernel, ".vgpr_count");
    facts->agprs = find_number(kernel, ".agpr_count");
    facts->vgprs = total > facts->agprs ? total - facts->agprs : total;
    facts->sgprs = find_number(kernel, ".sgpr_count");
    facts->vgpr_spills = find_number(kernel, ".vgpr_spill_count");
    facts->sgpr_spills = find_number(kernel, ".sgpr_spill_count");
    facts->scratch_bytes = find_number(kernel, ".private_segment_fixed_size");
    facts->lds_bytes = find_number(kernel, ".group_segment_fixed_size");
    facts->kernarg_bytes = find_number(kernel, ".kernarg_segment_size");
    facts->workgroup_size = find_number(kernel, ".max_flat_workgroup_size");
}

/* Sets *facts from the metadata of the kernel `name`. Returns false if the document has no such
 * kernel. */
static bool read_document(const msgpack_object *root, const char *name,
                          struct tgt_kernel_facts *facts)
{
    const msgpack_object *list = find(root, "amdhsa.kernels");
    for (uint32_t i = 0; list && list->type == MSGPACK_OBJECT_ARRAY && i < list->via.array.size;
         i++) {
        const msgpack_object *kernel = &list->via.array.ptr[i], *text = find(kernel, ".name");
        if (!text || text->type != MSGPACK_OBJECT_STR || text->via.str.size != strlen(name) ||
            memcmp(text->via.str.ptr, name, strlen(name)) != 0)
            continue;
        read_kernel(kernel, facts);
        return true;
    }
    return false;
}

bool tgt_read_metadata(const void *code_object, size_t size, const char *name,
                       struct tgt_kernel_facts *facts, char why[TGT_WHY])
{
    const char *document;
    size_t bytes;
    msgpack_unpacked unpacked;
    elf_version(EV_CURRENT);
    Elf *elf = elf_memory((char *)(uintptr_t)code_object, size); /* libelf only reads it */
    msgpack_unpacked_init(&unpacked);
    const bool found =
        find_note(elf, &document, &bytes) &&
        msgpack_unpack_next(&unpacked, document, bytes, NULL) == MSGPACK_UNPACK_SUCCESS &&
        read_document(&unpacked.data, name, facts);
    if (!found)
        snprintf(why, TGT_WHY, "%s: no metadata of such a kernel in the code object", name);
    msgpack_unpacked_destroy(&unpacked);
    elf_end(elf);
    return found;
}
