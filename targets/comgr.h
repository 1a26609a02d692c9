/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of comgr that read the metadata of code objects. The library is loaded at the first
 * use, because it brings an LLVM of its own, which takes 20 ms of CPU time to load.
 */
#ifndef TARGETS_COMGR_H
#define TARGETS_COMGR_H

#include <stdbool.h>
#include <stddef.h>

/* Newer versions of comgr than Debian 12's have the header in the folder amd_comgr, and warn if it
 * is included from the old place. */
#if __has_include(<amd_comgr/amd_comgr.h>)
#    include <amd_comgr/amd_comgr.h>
#else
#    include <amd_comgr.h>
#endif

/** Calls X(name) for each function amd_comgr_NAME of struct tgt_comgr. */
#define TGT_COMGR_CALLS(X)    \
    X(create_data)            \
    X(set_data)               \
    X(release_data)           \
    X(get_data_metadata)      \
    X(destroy_metadata)       \
    X(metadata_lookup)        \
    X(get_metadata_string)    \
    X(get_metadata_list_size) \
    X(index_list_metadata)

/** The functions of TGT_COMGR_CALLS(): `set_data` is amd_comgr_set_data(). */
struct tgt_comgr {
#define MEMBER(name) __typeof__(&amd_comgr_##name) name;
    TGT_COMGR_CALLS(MEMBER)
#undef MEMBER
};

/** Comgr's functions. To be read only after tgt_load_comgr() has returned true. */
extern struct tgt_comgr tgt_comgr;

/**
 * Loads comgr and fills `tgt_comgr` at the first call; later calls return that call's result. The
 * library stays loaded. Any thread may call this. Returns false if comgr of this header's major
 * version is not installed, lacks a function or finds no memory. Then `why`, of `size` bytes, gets
 * "comgr: " and the dynamic linker's message, cut to fit.
 */
bool tgt_load_comgr(char *why, size_t size);

#endif
