/* SPDX-License-Identifier: Apache-2.0
 *
 * Input of test_link.c: a kernel with tables, one of them with addresses, which the loader
 * relocates. OUTSIDE adds an undefined symbol, VARIABLE adds mutable data.
 */
static const float first[8] = {0.5f, -1, 2, 3, -4, 5, 6, 7};
static const float second[8] = {1.5f, -1, 2, 3, -4, 5, 6, 8};
static const float *const rows[2] = {first, second};

#ifdef OUTSIDE
extern __attribute__((visibility("hidden"))) const float outside[8];
#endif
#ifdef VARIABLE
__attribute__((visibility("hidden"))) float variable = 1;
#endif

__attribute__((amdgpu_kernel, visibility("protected"))) void pick_from_a_table_of_addresses(
    __attribute__((address_space(1))) float *out, int row, int column)
{
    float sum = rows[row & 1][column & 7];
#ifdef OUTSIDE
    sum += outside[column & 7];
#endif
#ifdef VARIABLE
    variable += sum;
#endif
    *out = sum;
}
