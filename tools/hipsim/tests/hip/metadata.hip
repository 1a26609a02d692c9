// SPDX-License-Identifier: Apache-2.0
// Tests kernels that HIP's runtime does not find, because the metadata does not name them.
#include "check.h"

int main(int argc, char **argv)
{
    CHECK(argc == 3); // objects: with a note that names some of the kernels, and without a note
    hipModule_t module;
    hipFunction_t function;
    HIP(hipModuleLoad(&module, argv[1]));
    HIP(hipModuleGetFunction(&function, module, "named"));
    HIP(hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, 0, NULL, NULL));
    HIP(hipDeviceSynchronize());
    EXPECT(hipErrorNotFound, hipModuleGetFunction(&function, module, "forgotten"));
    EXPECT(hipErrorNotFound, hipModuleGetFunction(&function, module, "misnamed"));
    EXPECT(hipErrorNotFound, hipModuleGetFunction(&function, module, "other"));
    HIP(hipModuleUnload(module));
    EXPECT(hipErrorNoBinaryForGpu, hipModuleLoad(&module, argv[2]));
    return 0;
}
