/* SPDX-License-Identifier: Apache-2.0 */
/* Loads any bytes as a code object or a bundle. Loading must return a status. Every kernel of a
 * loaded object is prepared for a launch, or is refused. */
#include "tools/hipsim/core/bundle.h"
#include "tools/hipsim/core/launch.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void prepare(const struct kernel *kernel, enum gfx_target target)
{
    static const uint8_t args[64];
    struct dispatch dispatch;
    char why[400] = "";
    struct dispatch_request request = {
        .kernel = kernel,
        .grid = {257, 3, 1},
        .block = {64, 1, 1},
        .args = args,
        .args_bytes = sizeof(args),
        .lds_limit = target == GFX950 ? 160 * 1024 : 64 * 1024,
    };

    if (dispatch_prepare(&request, &dispatch, why, sizeof(why)) == DISPATCH_OK)
        dispatch_release(&dispatch);
    else if (!why[0])
        abort();
}

static void load(const uint8_t *data, size_t size, enum gfx_target target)
{
    char why[400] = "";
    struct code_object *object = NULL;
    struct image image = {.owned = malloc(size + 1), .size = size};

    if (!image.owned)
        return;
    memcpy(image.owned, data, size);
    image.data = image.owned;
    enum code_object_status status = image_select(&image, target, why, sizeof(why));
    if (status == CODE_OBJECT_OK)
        status = code_object_load(image.data, image.size, target, 0, &object, why, sizeof(why));
    if (status != CODE_OBJECT_OK && !why[0])
        abort();
    for (size_t i = 0; object && i < object->nkernels; i++)
        prepare(&object->kernels[i], target);
    code_object_destroy(object);
    image_release(&image);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    load(data, size, GFX942);
    load(data, size, GFX950);
    return 0;
}
