/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the forms of arguments, makes the contents of buffers, and prints elements. */
#include "run_args.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__extension__ typedef _Float16 half;

/* Types of elements: name, bytes, whether it is a float, whether it is signed. */
static const struct {
    const char *name;
    size_t bytes;
    bool is_float, is_signed;
} types[RUN_TYPES] = {
    [RUN_I8] = {"i8", 1, false, true},    [RUN_U8] = {"u8", 1, false, false},
    [RUN_I16] = {"i16", 2, false, true},  [RUN_U16] = {"u16", 2, false, false},
    [RUN_F16] = {"f16", 2, true, true},   [RUN_BF16] = {"bf16", 2, true, true},
    [RUN_I32] = {"i32", 4, false, true},  [RUN_U32] = {"u32", 4, false, false},
    [RUN_F32] = {"f32", 4, true, true},   [RUN_I64] = {"i64", 8, false, true},
    [RUN_U64] = {"u64", 8, false, false}, [RUN_F64] = {"f64", 8, true, true},
};

size_t run_type_bytes(enum run_type type) { return types[type].bytes; }

/* Returns the bits of f rounded to bf16, to nearest even. A NaN is still a NaN. */
static uint16_t to_bf16(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof(bits));
    if (isnan(f))
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Stores `d` as a number of the floating-point type. */
static void store_float(unsigned char *to, enum run_type type, double d)
{
    const float f = (float)d;
    const half h = (half)d;
    const uint16_t b = to_bf16(f);
    switch (type) {
    case RUN_F64: memcpy(to, &d, 8); break;
    case RUN_F32: memcpy(to, &f, 4); break;
    case RUN_F16: memcpy(to, &h, 2); break;
    default: memcpy(to, &b, 2);
    }
}

/* Parses a number and stores it to `to` as a `type`. False if it is none, or outside the type's
 * range. */
static bool read_number(const char *text, enum run_type type, unsigned char *to)
{
    char *end;
    errno = 0;
    if (types[type].is_float) {
        const double d = strtod(text, &end);
        store_float(to, type, d);
        return *text && !*end;
    }
    const unsigned unused = 64 - 8 * (unsigned)types[type].bytes;
    const bool negative = *text == '-';
    const uint64_t value = negative ? (uint64_t)strtoll(text, &end, 0) : strtoull(text, &end, 0);
    const uint64_t most = UINT64_MAX >> (unused + types[type].is_signed);
    const bool fits =
        negative ? types[type].is_signed && (int64_t)value >= -(int64_t)most - 1 : value <= most;
    memcpy(to, &value, types[type].bytes);
    return *text && !*end && !errno && fits;
}

/* Sets the argument's fill from `text`: a name, a number or "@FILE". False if it is invalid. */
static bool read_fill(const char *text, struct run_arg *arg)
{
    static const struct {
        const char *name;
        enum run_fill fill;
    } fills[] = {{"zero", RUN_ZERO}, {"ramp", RUN_RAMP}, {"random", RUN_RANDOM}};
    for (size_t i = 0; i < sizeof(fills) / sizeof(*fills); i++) {
        if (strcmp(text, fills[i].name) == 0) {
            arg->fill = fills[i].fill;
            return true;
        }
    }
    arg->fill = *text == '@' ? RUN_FILE : RUN_NUMBER;
    arg->text = text + (*text == '@');
    return *text == '@' ? text[1] != 0 : read_number(text, arg->type, arg->value);
}

/* Sets *type from the first `length` characters of `form`. False if there is no such type. */
static bool read_type(const char *form, size_t length, enum run_type *type)
{
    for (unsigned i = 0; i < RUN_TYPES; i++) {
        if (strlen(types[i].name) == length && strncmp(types[i].name, form, length) == 0) {
            *type = (enum run_type)i;
            return true;
        }
    }
    return false;
}

/* Parses the bytes of a struct, two hexadecimal digits each. False if the text is something
 * else. */
static bool read_hex(const char *digits, struct run_arg *arg)
{
    const size_t n = strlen(digits);
    if (!n || n % 2 || n / 2 > RUN_VALUE_BYTES || strspn(digits, "0123456789abcdefABCDEF") != n)
        return false;
    for (size_t i = 0; i < n / 2; i++) {
        const char byte[3] = {digits[2 * i], digits[2 * i + 1], 0};
        arg->value[i] = (unsigned char)strtoul(byte, NULL, 16);
    }
    arg->value_bytes = n / 2;
    return true;
}

/* Sets the reason why the argument is invalid. Returns false. */
static bool refuse(const char *form, const char *what, char *why, size_t why_size)
{
    snprintf(why, why_size, "argument \"%.80s\": %s", form, what);
    return false;
}

bool run_arg_read(const char *form, struct run_arg *arg, char *why, size_t why_size)
{
    *arg = (struct run_arg){.type = RUN_U8};
    if (strcmp(form, "null") == 0) {
        arg->is_null = true;
        return true;
    }
    if (*form == '@') {
        arg->is_buffer = true;
        return read_fill(form, arg) || refuse(form, "no file", why, why_size);
    }
    if (strncmp(form, "hex=", 4) == 0)
        return read_hex(form + 4, arg) ||
               refuse(form, "no pairs of hexadecimal digits", why, why_size);
    const size_t length = strcspn(form, ":=");
    if (!read_type(form, length, &arg->type))
        return refuse(form, "no type; types are i8 u8 i16 u16 f16 bf16 i32 u32 f32 i64 u64 f64",
                      why, why_size);
    arg->value_bytes = types[arg->type].bytes;
    if (form[length] == '=')
        return read_number(form + length + 1, arg->type, arg->value) ||
               refuse(form, "no number of this type", why, why_size);
    char *end;
    errno = 0;
    arg->is_buffer = true;
    if (form[length] != ':' || form[length + 1] < '0' || form[length + 1] > '9')
        return refuse(form, "neither =NUMBER nor :COUNT", why, why_size);
    arg->count = strtoull(form + length + 1, &end, 0);
    if (errno || !arg->count || arg->count > SIZE_MAX / 16 || (*end && *end != '='))
        return refuse(form, "no count of elements", why, why_size);
    return !*end || read_fill(end + 1, arg) ||
           refuse(form, "neither zero, ramp, random, @FILE nor a number of this type", why,
                  why_size);
}

/* Returns the contents of a file, or its first `most` bytes if `most` is not 0, allocated with
 * malloc(). Sets *bytes to their number. On failure NULL, with a sentence in `why`. */
static void *read_file(const char *path, size_t most, size_t *bytes, char *why, size_t why_size)
{
    FILE *file = fopen(path, "rb");
    long size = -1;
    if (file && fseek(file, 0, SEEK_END) == 0)
        size = ftell(file);
    *bytes = most ? most : (size_t)(size > 0 ? size : 0);
    void *data = size > 0 && (size_t)size >= *bytes ? malloc(*bytes) : NULL;
    if (data) {
        rewind(file);
        if (fread(data, 1, *bytes, file) != *bytes) {
            free(data);
            data = NULL;
        }
    }
    if (!data && size >= 0)
        snprintf(why, why_size, "%s has %ld bytes, %zu are needed", path, size, *bytes);
    else if (!data)
        snprintf(why, why_size, "%s: %s", path, strerror(errno));
    if (file)
        fclose(file);
    return data;
}

/* Returns the next pseudo-random number of 24 bits. */
static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u; /* constants of Numerical Recipes */
    return *state >> 8;
}

/* Stores element number `index` of a buffer in `to`. */
static void fill_element(const struct run_arg *arg, uint64_t index, uint32_t *random,
                         unsigned char *to)
{
    uint64_t value = index;
    if (arg->fill == RUN_NUMBER) {
        memcpy(to, arg->value, types[arg->type].bytes);
        return;
    }
    if (arg->fill == RUN_RANDOM)
        value = next_random(random);
    if (types[arg->type].is_float)
        store_float(to, arg->type,
                    arg->fill == RUN_RANDOM ? (double)value / (1 << 23) - 1 : (double)value);
    else {
        value = arg->fill == RUN_RANDOM ? value % 100 : value;
        memcpy(to, &value, types[arg->type].bytes);
    }
}

void *run_arg_bytes(const struct run_arg *arg, uint32_t seed, size_t *bytes, char *why,
                    size_t why_size)
{
    const size_t each = types[arg->type].bytes;
    uint32_t random = seed;
    *bytes = arg->count * each;
    if (arg->fill == RUN_FILE)
        return read_file(arg->text, *bytes, bytes, why, why_size);
    unsigned char *data = calloc(arg->count, each);
    if (!data)
        snprintf(why, why_size, "out of memory for a buffer of %zu bytes", *bytes);
    for (uint64_t i = 0; data && arg->fill > RUN_ZERO && i < arg->count; i++)
        fill_element(arg, i, &random, data + i * each);
    return data;
}

void run_print_element(char *text, size_t size, enum run_type type, const void *array, size_t index)
{
    const unsigned char *from = (const unsigned char *)array + index * types[type].bytes;
    uint64_t bits = 0;
    double d;
    float f;
    half h;
    memcpy(&bits, from, types[type].bytes);
    switch (type) {
    case RUN_F64: memcpy(&d, from, 8); break;
    case RUN_F32: memcpy(&f, from, 4), d = f; break;
    case RUN_F16: memcpy(&h, from, 2), d = (double)h; break;
    case RUN_BF16: bits <<= 16, memcpy(&f, &bits, 4), d = f; break;
    default: d = 0;
    }
    const unsigned unused = 64 - 8 * (unsigned)types[type].bytes;
    if (types[type].is_float)
        snprintf(text, size, "%.*g", type == RUN_F64 ? 17 : 7, d);
    else if (types[type].is_signed)
        snprintf(text, size, "%" PRId64, (int64_t)(bits << unused) >> unused);
    else
        snprintf(text, size, "%" PRIu64, bits);
}
