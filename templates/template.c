/* SPDX-License-Identifier: Apache-2.0 */
/* This file lists the op families; a new one is its file and its row in templates.def. */
#include "templates/template.h"

#include <stdarg.h>
#include <stdio.h>

#define TEMPLATE(name) extern const struct att_template att_template_##name;
#include "templates/templates.def"

const struct att_template *const att_templates[] = {
#define TEMPLATE(name) &att_template_##name,
#include "templates/templates.def"
    NULL,
};

bool att_reject(struct att_why *why, enum att_field field, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why->text, sizeof(why->text), format, args);
    va_end(args);
    why->field = field;
    return false;
}
