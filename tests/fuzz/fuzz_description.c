/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads any bytes as a description and prints its errors. If the description is accepted, each
 * variant is written as a description of its own, which must give the same variants.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/description.h"
#include "tests/compiler/toy.h"
#include "tests/fuzz/check.h"

enum { MAX_ROUND_TRIP = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static bool read(const char *bytes, size_t size, struct attnc_description *desc,
                 struct attnc_diag *d)
{
    *desc = (struct attnc_description){0};
    *d = (struct attnc_diag){.file = "fuzz.yaml"};
    return attnc_read_description_bytes(
        bytes, size, ".", &(struct attnc_read_options){.templates = toy_templates}, desc, d);
}

static void print_messages(struct attnc_diag *d)
{
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    attnc_diag_print(d, out);
    fclose(out);
    CHECK(d->count == 0 || size > 0);
    free(text);
}

/* Writes a description with one kernel for each variant, and with every field that its op takes. */
static void write_description(const struct attnc_description *desc, FILE *out)
{
    fputs("kernels:\n", out);
    for (size_t i = 0; i < desc->count; i++) {
        const struct att_variant *v = &desc->variants[i];
        fprintf(out, "- targets: %s\n  op: %s\n", v->target, v->op->name);
        for (int f = 0; f < ATT_FIELD_COUNT; f++) {
            char value[ATT_NAME_MAX];
            if (!(v->op->takes >> f & 1) || att_fields[f].kind == ATT_KIND_FILE)
                continue;
            att_format_value(v, f, value, sizeof(value));
            fprintf(out, "  %s: %s\n", att_fields[f].name, value);
        }
    }
}

static bool has_hook(const struct attnc_description *desc)
{
    for (size_t i = 0; i < desc->count; i++) {
        if (desc->variants[i].logits)
            return true;
    }
    return false;
}

static void check_round_trip(const struct attnc_description *desc)
{
    struct attnc_description again;
    struct attnc_diag d;
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    write_description(desc, out);
    fclose(out);
    CHECK(read(text, size, &again, &d));
    CHECK(again.count == desc->count);
    for (size_t i = 0; i < desc->count; i++)
        CHECK(att_variant_same(&again.variants[i], &desc->variants[i]));
    attnc_diag_clear(&d);
    attnc_description_free(&again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct attnc_description desc;
    struct attnc_diag d;
    bool good = read((const char *)bytes, size, &desc, &d);
    CHECK(good == (d.errors == 0 && !d.no_memory));
    CHECK(good == (desc.count > 0));
    CHECK(desc.count <= ATTNC_MAX_VARIANTS);
    print_messages(&d);
    if (good && desc.count <= MAX_ROUND_TRIP && !has_hook(&desc))
        check_round_trip(&desc);
    attnc_diag_clear(&d);
    attnc_description_free(&desc);
    return 0;
}
