/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/op_words.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "compiler/nearest.h"

enum { MOST_OPS = 3 }; /* most ops of one suggestion */

/* Names in engines and kernel libraries, and the ops that do the same work. */
static const struct {
    const char *name, *ops[MOST_OPS];
} common_names[] = {
    {"attention", {"prefill", "decode", "mla_decode"}},
    {"attn", {"prefill", "decode", "mla_decode"}},
    {"sdpa", {"prefill", "decode"}},
    {"fmha", {"prefill", "decode"}},
    {"mha", {"prefill", "decode"}},
    {"gqa", {"prefill", "decode"}},
    {"mqa", {"prefill", "decode"}},
    {"flash", {"prefill"}},
    {"flash_attn", {"prefill"}},
    {"flash_attention", {"prefill"}},
    {"fa", {"prefill"}},
    {"fa2", {"prefill"}},
    {"fa3", {"prefill"}},
    {"varlen", {"prefill"}},
    {"mha_fwd", {"prefill"}},
    {"fmha_fwd", {"prefill"}},
    {"extend", {"prefill"}},
    {"context", {"prefill"}},
    {"generate", {"decode"}},
    {"pa", {"decode"}},
    {"paged", {"decode"}},
    {"paged_decode", {"decode"}},
    {"paged_attention", {"decode"}},
    {"flash_decode", {"decode"}},
    {"flash_decoding", {"decode"}},
    {"mla", {"mla_decode", "mla_rope_cache"}},
    {"flash_mla", {"mla_decode"}},
    {"mla_prefill", {"prefill"}},
    {"absorb", {"head_product"}},
    {"bmm", {"head_product"}},
    {"gemm", {"head_product"}},
    {"rope", {"rope_qk_norm_cache", "mla_rope_cache"}},
    {"rotary", {"rope_qk_norm_cache", "mla_rope_cache"}},
    {"rotary_embedding", {"rope_qk_norm_cache", "mla_rope_cache"}},
    {"norm", {"qk_rmsnorm", "rope_qk_norm_cache"}},
    {"rmsnorm", {"qk_rmsnorm", "rope_qk_norm_cache"}},
    {"rms_norm", {"qk_rmsnorm", "rope_qk_norm_cache"}},
    {"reshape_and_cache", {"cache_write"}},
    {"kv_cache", {"cache_write", "cache_gather", "cache_copy"}},
    {"swap_blocks", {"cache_copy"}},
    {"copy_blocks", {"cache_copy"}},
    {"merge", {"combine"}},
    {"merge_attn_states", {"combine"}},
    {"reduce", {"combine"}},
    {"scheduler", {"plan"}},
    {"top_k", {"topk"}},
    {"lightning_indexer", {"indexer_topk", "indexer_logits"}},
    {"mqa_logits", {"indexer_logits"}},
};

/* True if `a`, a user's word, is the name `b`. '-' in `a` equals '_', and the case of its letters
 * is ignored. */
static bool is_same(const char *a, const char *b)
{
    while (*a && (tolower((unsigned char)*a) == *b || (*a == '-' && *b == '_')))
        a++, b++;
    return !*a && !*b;
}

/* Returns the op's own spelling of `name`, or NULL if there is no such op. */
static const char *find(const struct att_template *const *templates, const char *name)
{
    for (; *templates; templates++) {
        if (is_same(name, (*templates)->name))
            return (*templates)->name;
    }
    return NULL;
}

/* True if `word`, of `length` letters, is one of the '_'-separated words of `name`. */
static bool has_word(const char *name, const char *word, size_t length)
{
    for (;;) {
        const size_t here = strcspn(name, "_");
        if (here == length && strncasecmp(name, word, length) == 0)
            return true;
        if (!name[here])
            return false;
        name += here + 1;
    }
}

/* True if a word of `name` is also a word of the name of `op`. */
static bool shares_word(const char *name, const char *op)
{
    for (;;) {
        const size_t length = strcspn(name, "_-");
        if (length > 1 && has_word(op, name, length))
            return true;
        if (!name[length])
            return false;
        name += length + 1;
    }
}

/* Writes to `found` the names of the ops that other libraries call `name`. Returns their number. */
static size_t find_common(const struct att_template *const *templates, const char *name,
                          const char *found[MOST_OPS])
{
    size_t count = 0;
    for (size_t i = 0; i < sizeof(common_names) / sizeof(common_names[0]); i++) {
        if (!is_same(name, common_names[i].name))
            continue;
        for (size_t o = 0; o < MOST_OPS && common_names[i].ops[o]; o++) {
            found[count] = find(templates, common_names[i].ops[o]);
            count += found[count] != NULL;
        }
        break;
    }
    return count;
}

/* Writes to `found` the names of the ops that share a word with `name`. Returns their number. */
static size_t find_by_words(const struct att_template *const *templates, const char *name,
                            const char *found[MOST_OPS])
{
    size_t count = 0;
    for (; *templates && count < MOST_OPS; templates++) {
        if (shares_word(name, (*templates)->name))
            found[count++] = (*templates)->name;
    }
    return count;
}

bool attnc_suggest_ops(const struct att_template *const *templates, const char *name, char *text,
                       size_t size)
{
    const char *found[MOST_OPS];
    size_t count = find_common(templates, name, found), length = 0;
    struct attnc_nearest nearest = attnc_nearest_to(name);
    for (const struct att_template *const *t = templates; *t && !count; t++)
        attnc_nearest_offer(&nearest, (*t)->name);
    if (nearest.name)
        found[count++] = nearest.name;
    if (!count)
        count = find_by_words(templates, name, found);
    text[0] = '\0';
    for (size_t i = 0; i < count && length < size; i++)
        length += (size_t)snprintf(text + length, size - length, "%s'%s'",
                                   i == 0          ? ""
                                   : i + 1 < count ? ", "
                                                   : " or ",
                                   found[i]);
    return count > 0;
}
