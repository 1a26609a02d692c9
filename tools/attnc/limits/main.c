/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This program prints the C file in which `attnc help OP` finds the limits of an op. The checks of
 * the templates decide them, in seconds: hence the build calls these, and not each user.
 */
#include <stdio.h>

#include "templates/template.h"
#include "tools/attnc/limits/limits.h"

int main(void)
{
    puts("#include \"tools/attnc/cli/op_limits.h\"\n\n#include <stddef.h>\n#include <string.h>\n");
    for (const struct att_template *const *t = att_templates; *t; t++) {
        printf("static const char *const of_%s[] = {\n", (*t)->name);
        print_limits(*t);
        puts("    NULL,\n};\n");
    }
    puts("const char *const *op_limits(const char *op)\n{");
    for (const struct att_template *const *t = att_templates; *t; t++)
        printf("    if (!strcmp(op, \"%s\"))\n        return of_%s;\n", (*t)->name, (*t)->name);
    puts("    return NULL;\n}");
    return ferror(stdout) != 0;
}
