/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/attnc/report/page.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/attnc/cli/command.h"
#include "tools/attnc/cli/output.h"

/* Writes the data into a page's script, with "</" escaped, since it would end the script. */
static void put_data(FILE *out, const char *data)
{
    for (; *data; data++) {
        fputc(*data, out);
        if (data[0] == '<' && data[1] == '/')
            fputc('\\', out);
    }
}

/* Writes the page at `path` from its lines, NULL at the end, with `data` in place of "@DATA@".
 * Returns an exit_code after a message. */
static int write_page(const char *const *lines, const char *data, const char *path)
{
    static const char mark[] = "@DATA@";
    struct output page;
    const int code = begin_output(&page);
    if (code != EXIT_GOOD)
        return code;
    for (const char *const *line = lines; *line; line++) {
        const char *place = strstr(*line, mark);
        fprintf(page.out, "%.*s", place ? (int)(place - *line) : INT_MAX, *line);
        if (place) {
            put_data(page.out, data);
            fputs(place + strlen(mark), page.out);
        }
        fputc('\n', page.out);
    }
    return end_output(&page, path, EXIT_GOOD);
}

int begin_page(struct page *p)
{
    *p = (struct page){0};
    p->json.out = open_memstream(&p->data, &p->size);
    if (!p->json.out)
        return complain(EXIT_ENVIRONMENT, "out of memory");
    json_begin_object(&p->json, NULL);
    json_string(&p->json, "version", ATTNC_PROVENANCE);
    return EXIT_GOOD;
}

int end_page(struct page *p, const char *const *lines, const char *path, int code)
{
    json_end(&p->json);
    if (fclose(p->json.out) != 0 && code == EXIT_GOOD)
        code = complain(EXIT_ENVIRONMENT, "out of memory");
    if (code == EXIT_GOOD)
        code = write_page(lines, p->data, path);
    free(p->data);
    return code;
}
