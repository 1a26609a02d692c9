/* SPDX-License-Identifier: Apache-2.0
 *
 * A page of the indexer's cache has the keys of all its tokens, and then their scales of 4 bytes.
 * In the SHUFFLE order 16 bytes of each of 16 tokens are adjacent, then their next 16 bytes.
 */
#ifndef TEMPLATES_INDEX_PAGE_H
#define TEMPLATES_INDEX_PAGE_H

#include "templates/cache/cache.h"

/** Returns the byte offset of a token's key from the start of its page. `token` (i32, of any shape)
 * counts from the page's first token. A key has `bytes` bytes. `shuffle` selects the SHUFFLE
 * order. */
struct tir_value att_index_key_byte(struct tir_builder *b, struct tir_value token, int bytes,
                                    bool shuffle);

/** Returns the byte offset of the scale of a token's key from the start of its page. `token` (i32,
 * of any shape) counts from the page's first token. A key has `bytes` bytes. */
struct tir_value att_index_scale_byte(const struct att_paging *p, struct tir_value token,
                                      int bytes);

/** Returns the fp8 keys at address `base` (i64) as a cache for att_cache_load() and
 * att_cache_store(). A row's address there is `base` plus att_index_key_byte(). */
struct att_cache att_index_keys(struct tir_builder *b, struct tir_value base, bool shuffle);

#endif
