/* SPDX-License-Identifier: Apache-2.0
 *
 * A page of the indexer's cache: all its keys, then their scales, 4 bytes each. SHUFFLE keeps 16
 * tokens together, 16 bytes of each.
 */
#ifndef TEMPLATES_INDEX_PAGE_H
#define TEMPLATES_INDEX_PAGE_H

#include "templates/cache/cache.h"

/** Returns the byte offset of a token's key from its page's beginning. `token` (i32, of any shape)
 * counts from the page's first token. A key has `bytes` bytes. */
struct tir_value att_index_key_byte(struct tir_builder *b, struct tir_value token, int bytes,
                                    bool shuffle);

/** Returns the byte offset of the scale of a token's key from its page's beginning. `token` (i32,
 * of any shape) counts from the page's first token. A key has `bytes` bytes. */
struct tir_value att_index_scale_byte(const struct att_paging *p, struct tir_value token,
                                      int bytes);

/** Returns fp8 keys at `base` (i64) as a cache. att_cache_load() and att_cache_store() take
 * att_index_key_byte() as a row's address. */
struct att_cache att_index_keys(struct tir_builder *b, struct tir_value base, bool shuffle);

#endif
