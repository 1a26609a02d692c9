// SPDX-License-Identifier: Apache-2.0
// Tests printf in kernels, with C's conversions: it writes to the host's standard output.
#include "check.h"
#include <string.h>
#include <unistd.h>

__global__ void talk(const char *name, int *result)
{
    if (threadIdx.x == 3)
        *result = printf("%s|%5d|%-4u|%x|%c|%%|%.3f|%ld|%*d\n", name, -42, 7u, 0xbeef, 'z', 3.25,
                         1234567890123L, 6, 99);
    if (threadIdx.x >= 62)
        printf("lane %d of block %d\n", (int)threadIdx.x, (int)blockIdx.x);
}

int main()
{
    const char *expected = "device|  -42|7   |beef|z|%|3.250|1234567890123|    99\n";
    char text[4096] = "", *name;
    int *result, printed = 0;
    FILE *file = tmpfile();
    int saved = dup(1);

    HIP(hipMalloc(&name, 16));
    HIP(hipMalloc(&result, sizeof(*result)));
    HIP(hipMemcpy(name, "device", 7, hipMemcpyHostToDevice));
    fflush(stdout);
    dup2(fileno(file), 1);
    talk<<<2, 64>>>(name, result);
    HIP(hipDeviceSynchronize());
    fflush(stdout);
    dup2(saved, 1);
    rewind(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = 0;
    HIP(hipMemcpy(&printed, result, sizeof(printed), hipMemcpyDeviceToHost));
    CHECK(strstr(text, expected));
    CHECK(printed == (int)strlen(expected));
    CHECK(strstr(text, "lane 62 of block 0\n") && strstr(text, "lane 63 of block 1\n"));
    CHECK(strlen(text) == 2 * strlen(expected) + 4 * strlen("lane 62 of block 0\n"));
    return 0;
}
