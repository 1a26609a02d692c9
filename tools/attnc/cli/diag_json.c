/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/attnc/cli/diag_json.h"

void diag_json(struct json *j, const struct attnc_diag *d)
{
    for (size_t i = 0; i < d->count; i++) {
        const struct attnc_message *m = &d->messages[i];
        json_begin_object(j, NULL);
        json_string(j, "file", d->file);
        json_integer(j, "line", m->at.line);
        json_integer(j, "column", m->at.column);
        json_string(j, "severity", m->error ? "error" : "warning");
        json_string(j, "text", m->text);
        json_string(j, "note", m->attached);
        json_end(j);
    }
}
