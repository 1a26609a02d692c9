/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/targets/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kernel kernel_create(const char *target, unsigned waves, unsigned waves_per_simd)
{
    struct kernel k = {.t = tgt_find(target)};
    assert_non_null(k.t);
    k.f = tir_func_create("k", &k.t->machine, waves);
    assert_non_null(k.f);
    k.f->waves_per_simd = waves_per_simd;
    k.f->lowered = true;
    k.b = tir_at_end(k.f, k.f->body);
    return k;
}

struct compiled kernel_compile(struct kernel *k)
{
    struct tgt_codegen_options options = {.kind = TGT_EMIT_OBJECT};
    struct tgt_blob object;
    struct compiled c = {.t = k->t, .waves = k->f->waves, .n_args = k->f->n_args};
    char why[TGT_WHY];

    assert_true(c.n_args <= MAX_ARGS);
    for (unsigned i = 0; i < c.n_args; i++) {
        c.args[i] = k->f->args[i];
        c.args[i].name = strdup(c.args[i].name);
    }

    const struct tir_block *const body = k->f->body;
    if (!body->n_ops || tir_op(k->f, body->ops[body->n_ops - 1])->opcode != TIR_return)
        tir_return(&k->b);
    if (!tgt_emit(k->f, k->t, &options, &object, why))
        fail_msg("tgt_emit: %s", why);
    if (!tgt_link(&object, &c.code_object, why))
        fail_msg("tgt_link: %s", why);
    if (!tgt_analyze(c.code_object.data, c.code_object.size, "k", k->t, &c.facts, why))
        fail_msg("tgt_analyze: %s", why);
    const uint8_t *code;
    size_t size;
    if (!tgt_find_code(c.code_object.data, c.code_object.size, "k", &code, &size, why) ||
        !tgt_disassemble(code, size, k->t, &c.code, why))
        fail_msg("%s", why);
    tgt_blob_free(&object);
    tir_func_destroy(k->f);
    return c;
}

void compiled_free(struct compiled *c)
{
    for (unsigned i = 0; i < c->n_args; i++)
        free((char *)(uintptr_t)c->args[i].name);
    free(c->code.insts);
    tgt_blob_free(&c->code_object);
}

static bool begins(const struct compiled *c, size_t i, const char *prefix)
{
    return strncmp(c->code.insts[i].text, prefix, strlen(prefix)) == 0;
}

static void print_code(const struct compiled *c)
{
    for (size_t i = 0; i < c->code.count; i++)
        print_message("%6x  %s\n", c->code.insts[i].offset, c->code.insts[i].text);
}

unsigned count_of(const struct compiled *c, const char *prefix)
{
    unsigned n = 0;
    for (size_t i = 0; i < c->code.count; i++)
        n += begins(c, i, prefix);
    return n;
}

void assert_count(const struct compiled *c, const char *prefix, unsigned n)
{
    if (count_of(c, prefix) == n)
        return;
    print_code(c);
    fail_msg("%u of %s, not %u", count_of(c, prefix), prefix, n);
}

void assert_sequence(const struct compiled *c, const char *const *prefixes, size_t n)
{
    size_t found = 0;
    for (size_t i = 0; i < c->code.count && found < n; i++)
        found += begins(c, i, prefixes[found]);
    if (found == n)
        return;
    print_code(c);
    fail_msg("no %s where it should be", prefixes[found]);
}

struct tir_value make(struct kernel *k, unsigned opcode, struct tir_type t,
                      const struct tir_value *operands, unsigned n, int64_t imm0, int64_t imm1,
                      int64_t imm2)
{
    const int64_t imm[TIR_MAX_IMM] = {imm0, imm1, imm2};
    return tir_build(&k->b, opcode, t, operands, n, imm);
}

/* Returns a different byte offset for each lane. */
static struct tir_value lane_offset(struct kernel *k)
{
    struct tir_value lane = tir_lane_id(&k->b);
    return tir_mul(&k->b, lane, tir_int_like(&k->b, lane, 16));
}

void keep(struct kernel *k, struct tir_value v)
{
    struct tir_value base = tir_arg(&k->b, "out", TIR_I64);
    struct tir_value operands[3] = {base, lane_offset(k), v};
    make(k, TIR_global_store, (struct tir_type){0}, operands, 3, 1024 * k->outputs++, 0, 0);
}

struct tir_value unknown(struct kernel *k, struct tir_type t)
{
    struct tir_value base = tir_arg(&k->b, "in", TIR_I64);
    struct tir_value operands[2] = {base, lane_offset(k)};
    return make(k, TIR_global_load, t, operands, 2, 1024 * k->inputs++, 0, 0);
}

struct tgt_blob read_file(const char *path)
{
    struct tgt_blob b = {0};
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    b.size = (size_t)ftell(f);
    rewind(f);
    b.data = malloc(b.size);
    assert_int_equal(fread(b.data, 1, b.size, f), b.size);
    fclose(f);
    return b;
}
