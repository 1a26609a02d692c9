/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/attnc/pack_file.h"

#include <string.h>

#include "tools/attnc/command.h"
#include "tools/attnc/output.h"

int open_pack(const char *path, struct attn_pack **pack)
{
    note_input(path);
    int status = attn_pack_open(path, pack);
    if (status == ATTN_OK)
        return EXIT_GOOD;
    /* Of a file that cannot be read the library itself says which. */
    int code = status == ATTN_IO ? EXIT_ENVIRONMENT : EXIT_USER;
    const char *said = attn_last_error();
    return strstr(said, path) ? complain(code, "%s", said) : complain(code, "%s: %s", path, said);
}
