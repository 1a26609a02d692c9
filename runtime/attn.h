/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * libattn: dispatch of ahead-of-time compiled attention kernels on AMD GPUs.
 *
 * Four objects, each made from the one before it:
 *
 *     attn_pack     a file of kernels, as `attnc build` writes it
 *     attn_device   a GPU that HIP knows, with one or more packs
 *     attn_op       one operation for one layer shape: the kernel that was chosen, loaded
 *     launch        a call per layer and step; it allocates, locks and waits for nothing
 *
 * Every function that can fail returns 0 (ATTN_OK) or a negative enum attn_status and writes its
 * results only on success; attn_last_error() then says in a sentence what was wrong. The library
 * never prints, never exits and never reads the environment. HIP is loaded at run time.
 *
 * Structs begin with their size, sizeof of the caller's headers. Members that the struct of an
 * older caller lacks are 0. The struct of a newer one is taken if all bytes after the known ones
 * are 0.
 *
 * Threads: packs, devices and ops may be used by any number of threads at once; each object is
 * destroyed once, when no other call uses it.
 */
#ifndef ATTN_H
#define ATTN_H

#include "attn_base.h"
#include "attn_ops.h"

#endif
