/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/attnc/page.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/attnc/command.h"
#include "tools/attnc/output.h"

/* "</" must not end the script that holds the data. */
static void put_data(FILE *out, const char *data)
{
    for (; *data; data++) {
        fputc(*data, out);
        if (data[0] == '<' && data[1] == '/')
            fputc('\\', out);
    }
}

int write_page(const char *const *lines, const char *data, const char *path)
{
    static const char mark[] = "@DATA@";
    char *page = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&page, &size);
    if (!out)
        return complain(EXIT_ENVIRONMENT, "out of memory");
    for (const char *const *line = lines; *line; line++) {
        const char *place = strstr(*line, mark);
        fprintf(out, "%.*s", place ? (int)(place - *line) : INT_MAX, *line);
        if (place) {
            put_data(out, data);
            fputs(place + strlen(mark), out);
        }
        fputc('\n', out);
    }
    fclose(out);
    const int code = write_output(path, page, size);
    free(page);
    return code;
}
