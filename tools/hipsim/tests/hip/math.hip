// SPDX-License-Identifier: Apache-2.0
// Compares the device library's functions in f32, f64 and f16 with the host's.
#include "check.h"
#include <cmath>

__global__ void functions(const double *x, double *y, float *z, _Float16 *h)
{
    int i = threadIdx.x;
    float f = (float)x[i];
    y[3 * i] = exp(x[i]);
    y[3 * i + 1] = sin(x[i]) / sqrt(x[i]);
    y[3 * i + 2] = pow(x[i], 1.5);
    z[3 * i] = expf(f) + log2f(f);
    z[3 * i + 1] = tanhf(f) / f;
    z[3 * i + 2] = erff(f) * rsqrtf(f);
    h[i] = (_Float16)f + (_Float16)0.5f;
}

static void near(double got, double wanted, double bound)
{
    if (!(fabs(got - wanted) <= bound * fabs(wanted))) {
        fprintf(stderr, "%.17g is not within %g of %.17g\n", got, bound, wanted);
        exit(1);
    }
}

int main()
{
    const int n = 64;
    double x[n], y[3 * n], *dx, *dy;
    float z[3 * n], *dz;
    _Float16 h[n], *dh;

    for (int i = 0; i < n; i++)
        x[i] = 0.05 + 0.11 * i;
    HIP(hipMalloc(&dx, sizeof(x)));
    HIP(hipMalloc(&dy, sizeof(y)));
    HIP(hipMalloc(&dz, sizeof(z)));
    HIP(hipMalloc(&dh, sizeof(h)));
    HIP(hipMemcpy(dx, x, sizeof(x), hipMemcpyHostToDevice));
    functions<<<1, n>>>(dx, dy, dz, dh);
    HIP(hipMemcpy(y, dy, sizeof(y), hipMemcpyDeviceToHost));
    HIP(hipMemcpy(z, dz, sizeof(z), hipMemcpyDeviceToHost));
    HIP(hipMemcpy(h, dh, sizeof(h), hipMemcpyDeviceToHost));
    for (int i = 0; i < n; i++) {
        float f = (float)x[i];
        // Bounds: a few units in the last place of the format, as the library documents.
        near(y[3 * i], exp(x[i]), 4e-16);
        near(y[3 * i + 1], sin(x[i]) / sqrt(x[i]), 8e-16);
        near(y[3 * i + 2], pow(x[i], 1.5), 8e-16);
        near(z[3 * i], exp((double)f) + log2((double)f), 1e-6);
        near(z[3 * i + 1], tanh((double)f) / f, 1e-6);
        near(z[3 * i + 2], erf((double)f) / sqrt((double)f), 2e-6);
        near((double)h[i], f + 0.5, 1.0 / 1024);
    }
    return 0;
}
