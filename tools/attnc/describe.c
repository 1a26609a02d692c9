/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc describe: a model's own config.json (the Hugging Face layout) becomes the description of
 * the kernels that serve it, to be built or edited.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/yaml.h"
#include "targets/tgt.h"
#include "tools/attnc/command.h"

static struct {
    const char *output;
} args;

static const struct option_row options[] = {
    {"output", 'o', "FILE", "where to write the description (default: standard output)",
     &args.output, NULL},
    {0},
};

/* What a config says about attention; 0 or NULL where it does not. */
struct model {
    const char *architecture, *dtype;
    long heads, kv_heads, head_dim, head_dim_v;
    bool latent, window, soft_cap, sinks;
};

static const struct attnc_yaml_node *find(const struct attnc_yaml *y,
                                          const struct attnc_yaml_node *map, const char *key)
{
    for (uint32_t id = map->kind == ATTNC_YAML_MAP ? map->first : 0; id;) {
        const struct attnc_yaml_node *name = attnc_yaml_node(y, id);
        uint32_t value = y->nodes[id].next;
        if (name->kind == ATTNC_YAML_SCALAR && strcmp(attnc_yaml_text(y, name), key) == 0)
            return attnc_yaml_node(y, value);
        id = y->nodes[value].next;
    }
    return NULL;
}

/* The text of a scalar that is not null; the first of a list. */
static const char *text(const struct attnc_yaml *y, const struct attnc_yaml_node *map,
                        const char *key)
{
    const struct attnc_yaml_node *n = find(y, map, key);
    if (n && n->kind == ATTNC_YAML_LIST && n->first)
        n = attnc_yaml_node(y, n->first);
    if (!n || n->kind != ATTNC_YAML_SCALAR || strcmp(attnc_yaml_text(y, n), "null") == 0)
        return NULL;
    return attnc_yaml_text(y, n);
}

static long number(const struct attnc_yaml *y, const struct attnc_yaml_node *map, const char *key)
{
    const char *value = text(y, map, key);
    return value ? strtol(value, NULL, 10) : 0;
}

static struct model read_model(const struct attnc_yaml *y)
{
    const struct attnc_yaml_node *top = attnc_yaml_node(y, 1);
    struct model m = {.architecture = text(y, top, "architectures")};
    /* Models that see keep their language model's numbers one level down. */
    const struct attnc_yaml_node *inner = find(y, top, "text_config");
    top = inner && inner->kind == ATTNC_YAML_MAP ? inner : top;

    m.dtype = text(y, top, "dtype") ? text(y, top, "dtype") : text(y, top, "torch_dtype");
    m.heads = number(y, top, "num_attention_heads");
    m.kv_heads = number(y, top, "num_key_value_heads");
    m.head_dim = number(y, top, "head_dim");
    if (!m.head_dim && m.heads > 0)
        m.head_dim = number(y, top, "hidden_size") / m.heads;
    m.latent = number(y, top, "qk_nope_head_dim") > 0;
    if (m.latent) { /* latent attention, not absorbed: a head each */
        m.head_dim = number(y, top, "qk_nope_head_dim") + number(y, top, "qk_rope_head_dim");
        m.head_dim_v = number(y, top, "v_head_dim");
        m.kv_heads = m.heads;
    }
    if (!m.kv_heads)
        m.kv_heads = m.heads;
    const char *use = text(y, top, "use_sliding_window");
    m.window = number(y, top, "sliding_window") > 0 && !(use && strcmp(use, "false") == 0);
    m.soft_cap = number(y, top, "attn_logit_softcapping") > 0;
    const char *type = text(y, top, "model_type");
    m.sinks = type && strcmp(type, "gpt_oss") == 0;
    return m;
}

/* What every kernel of the model has; `lse` and pages are the op's. */
static void print_kernel(const struct model *m, const char *op, FILE *out)
{
    fprintf(out, "  - op: %s\n    dtype: %s\n    head_dim: %ld\n", op,
            m->dtype && strstr(m->dtype, "float16") == m->dtype ? "fp16" : "bf16", m->head_dim);
    if (m->head_dim_v && m->head_dim_v != m->head_dim)
        fprintf(out, "    head_dim_v: %ld\n", m->head_dim_v);
    fprintf(out, "    gqa: %ld\n    mask: %s\n", m->heads / m->kv_heads,
            m->window ? "[causal, window]" : "causal");
    if (m->sinks)
        fputs("    sinks: true\n", out);
    if (m->soft_cap)
        fputs("    soft_cap: true\n", out);
}

static void print_description(const struct model *m, FILE *out)
{
    fprintf(out, "# %.80s: %ld query heads, %ld key/value heads\ntargets: [",
            m->architecture ? m->architecture : "model", m->heads, m->kv_heads);
    for (const struct tgt *const *t = tgt_all; *t; t++)
        fprintf(out, "%s%s", t == tgt_all ? "" : ", ", (*t)->machine.name);
    fputs("]\nkernels:\n", out);
    print_kernel(m, "prefill", out);
    fputs("    lse: [false, true] # true: chunked prefill merges chunks by it\n", out);
    if (m->latent)
        return; /* decodes over the latent cache, not over heads */
    print_kernel(m, "decode", out);
    fputs("    page_size: 16      # tokens in a page of the engine's cache\n", out);
}

static int describe(const struct attnc_yaml *y, const char *path)
{
    struct model m = {0};
    if (y->count > 1)
        m = read_model(y);
    if (m.heads <= 0 || m.kv_heads <= 0 || m.heads % m.kv_heads || m.head_dim <= 0)
        return complain(EXIT_USER,
                        "%s: no num_attention_heads and head_dim or hidden_size that "
                        "make sense: not a model's config.json?",
                        path);
    char *bytes = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&bytes, &size);
    if (!out)
        return complain(EXIT_ENVIRONMENT, "out of memory");
    print_description(&m, out);
    fclose(out);
    int code = write_output(args.output ? args.output : "-", bytes, size);
    free(bytes);
    return code;
}

static int parse_and_describe(const char *bytes, size_t size, const char *path)
{
    struct attnc_diag d = {.file = path, .text = bytes, .size = size};
    struct attnc_yaml y;
    int code = EXIT_USER;
    if (attnc_yaml_parse(&y, bytes, size, &d))
        code = describe(&y, path);
    attnc_diag_print(&d, stderr);
    attnc_yaml_free(&y);
    attnc_diag_clear(&d);
    return code;
}

static int run(int argc, char **argv)
{
    if (argc != 1)
        return complain(EXIT_USER, "usage: attnc describe CONFIG_JSON [-o FILE]");
    struct stat st;
    int fd = open(argv[0], O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        return complain(EXIT_ENVIRONMENT, "%s: %s", argv[0], strerror(errno));
    if (!S_ISREG(st.st_mode) || st.st_size == 0) {
        close(fd);
        return complain(EXIT_USER, "%s: not a file with text", argv[0]);
    }
    char *bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (bytes == MAP_FAILED)
        return complain(EXIT_ENVIRONMENT, "%s: %s", argv[0], strerror(errno));
    int code = parse_and_describe(bytes, (size_t)st.st_size, argv[0]);
    munmap(bytes, (size_t)st.st_size);
    return code;
}

const struct command command_describe = {
    .name = "describe",
    .usage = "CONFIG_JSON [-o FILE]",
    .summary = "Write the description of the kernels that a model's config.json asks for",
    .options = options,
    .details =
        "Reads the Hugging Face layout: heads, head_dim, sliding_window, attn_logit_softcapping,\n"
        "and for latent attention qk_nope_head_dim, qk_rope_head_dim and v_head_dim. The ratio of\n"
        "heads is the model's: tensor parallelism keeps it while each rank has a KV head.\n",
    .run = run,
};
