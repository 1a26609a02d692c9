/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads any text as tile IR. A function that parses is printed and read again. If the verifier
 * accepts it, it runs through the passes that take any function, and must be accepted after each.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/passes.h"
#include "targets/tgt.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static char *text_of(const struct tir_func *f, size_t *size)
{
    char *text = NULL;
    FILE *const out = open_memstream(&text, size);
    if (!out)
        abort();
    tir_print(f, out);
    fclose(out);
    return text;
}

static void round_trip(const struct tir_func *f)
{
    char error[256];
    size_t size, again_size;
    char *const text = text_of(f, &size);
    struct tir_func *const parsed = tir_parse(text, size, f->machine, error);
    if (!parsed) {
        fprintf(stderr, "%s\n%s", error, text);
        abort();
    }
    char *const again = text_of(parsed, &again_size);
    if (strcmp(text, again)) {
        fprintf(stderr, "%s// reads back as\n%s", text, again);
        abort();
    }
    free(text);
    free(again);
    tir_func_destroy(parsed);
}

static void run(struct tir_func *f, const char *name,
                bool (*pass)(struct tir_func *, const struct tir_schedule *))
{
    static const struct tir_schedule schedule;
    pass(f, &schedule);
    if (!tir_verify(f, name, stderr))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char error[256];
    struct tir_func *const f =
        tir_parse((const char *)bytes, size, &tgt_find("gfx942")->machine, error);
    if (!f)
        return 0;
    const bool sound = tir_verify(f, "reading", NULL);
    if (sound) {
        round_trip(f);
        run(f, "opt_fold", tir_opt_fold);
        run(f, "opt_cse", tir_opt_cse);
        run(f, "opt_hoist", tir_opt_hoist);
        run(f, "opt_dce", tir_opt_dce);
        round_trip(f);
    }
    tir_func_destroy(f);
    return 0;
}
