/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the layout of a page of the indexer's cache: the keys of all its tokens, and
 * then their scales of 4 bytes. In the SHUFFLE order 16 bytes of each of 16 tokens are adjacent,
 * then their next 16 bytes.
 */
#ifndef TEMPLATES_INDEX_PAGE_H
#define TEMPLATES_INDEX_PAGE_H

#include "templates/cache/cache.h"

/** Returns the byte offset (i32) of a token's key from the start of its page. `token` (i32, of any
 * shape) is the token's index in the page. A key has `bytes` bytes. `shuffle` selects the SHUFFLE
 * order. */
struct tir_value att_index_key_byte(struct tir_builder *b, struct tir_value token, int bytes,
                                    bool shuffle);

/** Returns the byte offset (i32) of the scale of a token's key from the start of its page. `token`
 * (i32, of any shape) is the token's index in the page. A key has `bytes` bytes. */
struct tir_value att_index_scale_byte(const struct att_paging *p, struct tir_value token,
                                      int bytes);

/** Returns a cache, for att_cache_load() and att_cache_store(), of the fp8 keys at address `base`
 * (i64). `shuffle`: pages have the order of kv_layout shuffle. A row's byte offset from `base` is
 * att_index_key_byte(), plus the offset of its page if `base` is not a page. */
struct att_cache att_index_keys(struct tir_builder *b, struct tir_value base, bool shuffle);

#endif
