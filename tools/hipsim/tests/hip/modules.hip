// SPDX-License-Identifier: Apache-2.0
// Tests modules: loading from a file and from memory, kernelParams and extra, global variables.
#include "check.h"

static void run(hipModule_t module, bool packed)
{
    const int n = 100;
    int host[n], *in, offset = 11;
    float result[n], *out;
    hipFunction_t mix, number, none;
    hipDeviceptr_t global;
    size_t size;

    HIP(hipModuleGetFunction(&mix, module, "mix"));
    EXPECT(hipErrorNotFound, hipModuleGetFunction(&none, module, "mixer"));
    HIP(hipModuleGetGlobal(&global, &size, module, "offset"));
    CHECK(size == sizeof(offset));
    EXPECT(hipErrorNotFound, hipModuleGetGlobal(&global, &size, module, "nothing"));
    if (packed) {
        offset = -5;
        HIP(hipModuleGetGlobal(&global, NULL, module, "offset"));
        HIP(hipMemcpyHtoD(global, &offset, sizeof(offset)));
    }
    for (int i = 0; i < n; i++)
        host[i] = i;
    HIP(hipMalloc(&in, sizeof(host)));
    HIP(hipMalloc(&out, sizeof(result)));
    HIP(hipMemcpy(in, host, sizeof(host), hipMemcpyHostToDevice));

    struct {
        char a;
        double b;
        short c;
        const int *in;
        float *out;
        int n;
    } args = {3, 0.5, -7, in, out, n};
    if (packed) {
        size = sizeof(args);
        void *extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, &args, HIP_LAUNCH_PARAM_BUFFER_SIZE,
                         &size, HIP_LAUNCH_PARAM_END};
        HIP(hipModuleLaunchKernel(mix, 2, 1, 1, 64, 1, 1, 0, 0, NULL, extra));
        size = 0;
        EXPECT(hipErrorInvalidValue,
               hipModuleLaunchKernel(mix, 2, 1, 1, 64, 1, 1, 0, 0, NULL, extra));
    } else {
        void *params[] = {&args.a, &args.b, &args.c, &args.in, &args.out, &args.n};
        HIP(hipModuleLaunchKernel(mix, 2, 1, 1, 64, 1, 1, 0, 0, params, NULL));
    }
    HIP(hipMemcpy(result, out, sizeof(result), hipMemcpyDeviceToHost));
    for (int i = 0; i < n; i++)
        CHECK(result[i] == (float)(3 + 0.5 - 7 + i + offset) * (float)(1 << (i & 3)));
    if (packed) { /* without the arguments that the kernel does not use */
        size = sizeof(out);
        void *extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, &out, HIP_LAUNCH_PARAM_BUFFER_SIZE,
                         &size, HIP_LAUNCH_PARAM_END};
        HIP(hipModuleGetFunction(&number, module, "number"));
        HIP(hipModuleLaunchKernel(number, 1, 1, 1, 64, 1, 1, 0, 0, NULL, extra));
        HIP(hipMemcpy(host, out, sizeof(*host) * 64, hipMemcpyDeviceToHost));
        CHECK(host[0] == 0 && host[63] == 63);
    }
    HIP(hipFree(in));
    HIP(hipFree(out));
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    hipModule_t module;
    HIP(hipModuleLoad(&module, argv[1]));
    run(module, false);
    HIP(hipModuleUnload(module));
    EXPECT(hipErrorInvalidHandle, hipModuleUnload(module));

    static char image[1 << 20];
    FILE *file = fopen(argv[1], "rb");
    CHECK(file);
    size_t size = fread(image, 1, sizeof(image), file);
    fclose(file);
    CHECK(size > 0 && size < sizeof(image));
    HIP(hipModuleLoadData(&module, image));
    run(module, true);
    HIP(hipModuleUnload(module));
    return 0;
}
