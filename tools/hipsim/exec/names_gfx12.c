/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include "tables.h"

const struct row_alias exec_aliases[] = {
#define SAME(name) {#name, #name},
#define NAME(name, row) {#name, #row},
#include "names_gfx12.def"
    {NULL, NULL},
};
