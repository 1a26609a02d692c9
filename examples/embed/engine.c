/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A minimal engine with embedded kernels (attnc build --emit=object), which prints what kernels it
 * has. Any of the three build files in this directory builds it.
 */
#include <attn.h>
#include <stdio.h>

extern const unsigned char attn_pack_engine[];
extern const size_t attn_pack_engine_size;

int main(void)
{
    struct attn_pack *pack;
    if (attn_pack_open_memory(attn_pack_engine, attn_pack_engine_size, &pack)) {
        fprintf(stderr, "%s\n", attn_last_error());
        return 1;
    }
    for (uint32_t n = 0; n < attn_pack_kernel_count(pack); n++) {
        struct attn_kernel_info info = {.size = sizeof(info)};
        if (attn_pack_kernel(pack, n, &info) == ATTN_OK)
            printf("%s\n", info.name);
    }
    attn_pack_close(pack);
    return 0;
}
