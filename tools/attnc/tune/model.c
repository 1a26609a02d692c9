/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc tune --model: derives the kernels and the head counts of one rank from a model's
 * config.json.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/read_file.h"
#include "compiler/yaml.h"
#include "targets/tgt.h"
#include "tools/attnc/cli/command.h"
#include "tools/attnc/describe/describe_kernels.h"
#include "tools/attnc/cli/output.h"
#include "tools/attnc/tune/model.h"

/* Writes to `out` a description of the kernels of the model on one of `ranks` ranks, and the head
 * counts of each group of layers. Returns an exit_code after a message with `path`. */
static int describe(struct model *m, long ranks, const char *path, struct tune_model *out)
{
    struct deployment d = {.ranks = {ranks},
                           .rank_count = 1,
                           .page_size = "16",
                           .kv_dtype = "same",
                           .kv_scale = "none",
                           .kv_layout = "nhd"};
    d.draft_tokens = m->draft_tokens > 0 ? 3 : 0;
    for (unsigned i = 0; i < m->group_count; i++) {
        const struct model_group *g = &m->groups[i];
        struct rank_heads r;
        if (!share_heads(g, ranks, &r))
            return complain(EXIT_USER,
                            "%s: TP %ld: %ld query heads and %ld key/value heads cannot be shared "
                            "out",
                            path, ranks, g->heads, g->kv_heads);
        out->heads[out->head_count++] = (struct tune_heads){
            .heads = (int)r.heads, .kv_heads = (int)r.kv_heads, .head_dim = (int)g->head_dim};
    }
    FILE *f = open_memstream(&out->text, &out->size);
    if (!f)
        return complain(EXIT_ENVIRONMENT, "out of memory");
    fputs("targets: [", f);
    for (const struct tgt *const *t = tgt_all; *t; t++)
        fprintf(f, "%s%s", t == tgt_all ? "" : ", ", (*t)->machine.name);
    fprintf(f, "]\ndefaults: { dtype: %s }\nkernels:\n", m->fp16 ? "fp16" : "bf16");
    const unsigned entries = write_kernels(m, &d, f);
    fclose(f);
    return entries ? EXIT_GOOD
                   : complain(EXIT_USER, "%s: no kernel of the model can be built", path);
}

int tune_parse_model(const char *path, struct model *m)
{
    char *bytes, why[MODEL_WHY];
    size_t size;
    struct attnc_yaml y;
    *m = (struct model){0};
    note_input(path);
    if (!attnc_read_file(path, ATTNC_MAX_BYTES, &bytes, &size))
        return complain(EXIT_ENVIRONMENT, "%s: %s", path, strerror(errno));
    struct attnc_diag d = {.file = path, .text = bytes, .size = size};
    const bool parsed = attnc_yaml_parse(&y, bytes, size, &d);
    attnc_diag_print(&d, stderr);
    const bool good = parsed && model_read(m, &y, why);
    if (parsed && !good)
        complain(EXIT_USER, "%s: %s", path, why);
    attnc_yaml_free(&y);
    attnc_diag_clear(&d);
    free(bytes);
    return good ? EXIT_GOOD : EXIT_USER;
}

int tune_read_model(const char *path, long ranks, struct tune_model *out)
{
    struct model m;
    *out = (struct tune_model){0};
    int code = tune_parse_model(path, &m);
    if (code == EXIT_GOOD)
        code = describe(&m, ranks, path, out);
    model_free(&m);
    return code;
}
