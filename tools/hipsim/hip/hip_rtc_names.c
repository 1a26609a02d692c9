/* SPDX-License-Identifier: Apache-2.0 */
/* Finds a name expression's symbol: the one at the address that the expression's variable has. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elf_image.h"
#include "hip_rtc.h"

/* A search in a symbol table. */
struct search {
    const char *name; /* name of the symbol; NULL: any symbol at `value` except the variables */
    uint64_t value;
    char *found;
    bool seen;
};

/* Sets the search's value to the address of the symbol with its name. False ends the walk. */
static bool by_name(void *context, const char *name, const GElf_Sym *symbol)
{
    struct search *s = context;

    if (strcmp(name, s->name) != 0)
        return true;
    s->value = symbol->st_value;
    s->seen = true;
    return false;
}

/* Sets the search's result to the name of a symbol with its address. False ends the walk. */
static bool by_value(void *context, const char *name, const GElf_Sym *symbol)
{
    struct search *s = context;

    if (symbol->st_value != s->value ||
        strncmp(name, RTC_NAME_PREFIX, strlen(RTC_NAME_PREFIX)) == 0)
        return true;
    s->found = strdup(name);
    return false;
}

/* Returns the symbol of name expression number `index`, allocated with malloc(). NULL if there is
 * none. */
static char *lower(const struct elf_image *image, const uint8_t *base, size_t index)
{
    char variable[sizeof(RTC_NAME_PREFIX) + 24];
    struct search search = {.name = variable};
    uint64_t address;

    snprintf(variable, sizeof(variable), RTC_NAME_PREFIX "%zu", index);
    elf_image_symbols(image, by_name, &search);
    if (!search.seen || search.value > image->span - sizeof(address))
        return NULL;
    memcpy(&address, base + search.value, sizeof(address));
    search.value = address - (uintptr_t)base;
    elf_image_symbols(image, by_value, &search);
    return search.found;
}

bool rtc_lower_names(struct rtc_source *source, enum gfx_target target, const char *code,
                     size_t size)
{
    char why[300] = "";
    struct elf_image image = {
        .bytes = (const uint8_t *)code, .size = size, .why = why, .why_size = sizeof(why)};
    const bool is_open = elf_image_open(&image, target) == CODE_OBJECT_OK;
    uint8_t *base = is_open ? calloc(1, image.span + 1) : NULL;
    bool all = base != NULL;

    if (base) {
        elf_image_copy(&image, base);
        all = elf_image_relocate(&image, base) == CODE_OBJECT_OK;
    }
    for (size_t i = 0; all && i < source->nnames; i++) {
        source->names[i].lowered = lower(&image, base, i);
        all = source->names[i].lowered != NULL;
    }
    free(base);
    elf_image_close(&image);
    return all;
}
