/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BUFFER_LOAD_FORMAT_*, BUFFER_STORE_FORMAT_* and TBUFFER_*: memory accesses that convert (CDNA3
 * ISA, 9.1 "Vector memory buffer instructions"; LLVM, AMDGPU::MTBUFFormat, for the numbers of the
 * formats). MTBUF instructions name the format and take the components in order; MUBUF ones take
 * both from the resource. Names of formats list the components from the highest bits down, X is in
 * the lowest.
 *
 * Components that a format lacks are 0, 0, 1 for y, z, w. The manual leaves the conversions to the
 * names. Here fractions are exact quotients rounded once. Stores round fractions and f16 to nearest
 * even, and cut u/sscaled and the floats of 10 and 11 bits toward zero. Of integers they keep the
 * low bits. 16-bit registers hold the low bits of integers and f16 otherwise. A store writes the
 * bytes of the components that it has.
 */
#include <math.h>
#include <string.h>

#include "exec_mubuf.h"
#include "smallfloat.h"
#include "tables.h"

/* Bits of op_row.arg: the number of components in registers, and flags for components of 16
 * bits. */
#define COMPONENTS(arg) ((arg) & 7)
#define D16 (1u << 3)
#define D16_HIGH (1u << 4) /* one component, in the upper half of the register */

/* Number formats, with the numbers of the resource's field. */
enum number_format { UNORM, SNORM, USCALED, SSCALED, UINT, SINT, FLOAT = 7 };

/* Data formats, by number: the bits of their components x, y, z, w, and the number formats that
 * they may have, as a mask. */
#define NUMBERS(n) (1u << (n))
#define INTEGERS (NUMBERS(UINT) | NUMBERS(SINT))
#define NO_FLOAT (INTEGERS | NUMBERS(UNORM) | NUMBERS(SNORM) | NUMBERS(USCALED) | NUMBERS(SSCALED))
#define ALL (NO_FLOAT | NUMBERS(FLOAT))

static const struct data_format {
    uint8_t bits[4];
    uint8_t numbers;
} data_formats[16] = {
    [1] = {{8}, NO_FLOAT},
    [2] = {{16}, ALL},
    [3] = {{8, 8}, NO_FLOAT},
    [4] = {{32}, INTEGERS | NUMBERS(FLOAT)},
    [5] = {{16, 16}, ALL},
    [6] = {{11, 11, 10}, ALL},         /* format 10_11_11 */
    [7] = {{10, 11, 11}, ALL},         /* format 11_11_10 */
    [8] = {{2, 10, 10, 10}, NO_FLOAT}, /* format 10_10_10_2 */
    [9] = {{10, 10, 10, 2}, NO_FLOAT}, /* format 2_10_10_10 */
    [10] = {{8, 8, 8, 8}, NO_FLOAT},
    [11] = {{32, 32}, INTEGERS | NUMBERS(FLOAT)},
    [12] = {{16, 16, 16, 16}, ALL},
    [13] = {{32, 32, 32}, INTEGERS | NUMBERS(FLOAT)},
    [14] = {{32, 32, 32, 32}, INTEGERS | NUMBERS(FLOAT)},
};

/* Sources of a register component: the constants 0 and 1, or from SELECT_X on component x, y, z or
 * w of memory. */
enum select { SELECT_0, SELECT_1, SELECT_X = 4 };

struct component {
    uint8_t bits; /* number of bits; 0: the format lacks the component */
    uint8_t at;   /* first bit of the component in the element */
};

/* The format of an access: where its components are in an element, and how they convert. */
struct format {
    struct component component[4];
    uint8_t select[4]; /* source of each register component, enum select */
    uint8_t number, bytes;
};

/* Sets *f to the format of an access, from the instruction (MTBUF) or the resource (MUBUF). False
 * after a report that the format does not exist. */
static bool find_format(struct wave *w, const struct inst *in, const struct buffer_resource *r,
                        struct format *f)
{
    bool typed = in->encoding == ENC_MTBUF;
    unsigned data = typed ? in->raw[0] >> 19 & 15 : r->data_format, at = 0;
    unsigned number = typed ? in->raw[0] >> 23 & 7 : r->num_format;
    const struct data_format *d = &data_formats[data];

    if (!(d->numbers & NUMBERS(number))) {
        wave_fault(w, in, FAULT_TRAP, 0,
                   "buffer data format %u does not exist with number format "
                   "%u",
                   data, number);
        return false;
    }
    for (unsigned i = 0; i < 4; i++) {
        f->component[i] = (struct component){d->bits[i], (uint8_t)at};
        f->select[i] = typed ? (uint8_t)(SELECT_X + i) : r->select >> 3 * i & 7;
        at += d->bits[i];
    }
    f->number = (uint8_t)number;
    f->bytes = (uint8_t)(at / 8);
    return true;
}

/* True if the number format keeps components as integers. */
static bool is_integer(const struct format *f) { return f->number == UINT || f->number == SINT; }

/* The functions from here on convert between elements in memory and registers. */

/* Returns the sign-extended value of a code of `bits` bits. */
static int32_t sign_extended(uint32_t code, unsigned bits)
{
    return (int32_t)(code << (32 - bits)) >> (32 - bits);
}

/* Returns the largest unsigned code of `bits` bits. */
static double largest_code(unsigned bits) { return (double)((UINT64_C(1) << bits) - 1); }

/* Converts the code of a float of 10 or 11 bits, which has f16's exponent and no sign, to binary32
 * bits. */
static uint32_t float_from_code(uint32_t code, unsigned bits)
{
    if (bits == 32)
        return code;
    return bits_from_float(f32_from_f16((uint16_t)(bits == 16 ? code : code << (15 - bits))));
}

/* Returns the register value of a code of `bits` bits with the number format. */
static uint32_t register_from_code(uint32_t code, unsigned bits, enum number_format number)
{
    const double largest = largest_code(bits), top = largest_code(bits - 1);
    const int32_t value = sign_extended(code, bits);

    switch (number) {
    case UNORM: return bits_from_float((float)(code / largest));
    case SNORM: return bits_from_float((float)fmax(value / top, -1));
    case USCALED: return bits_from_float((float)code);
    case SSCALED: return bits_from_float((float)value);
    case SINT: return (uint32_t)value;
    case FLOAT: return float_from_code(code, bits);
    case UINT: break;
    }
    return code;
}

/* Returns x limited to the range from `low` to `high`; 0 for NaN. */
static double clamped(float x, double low, double high)
{
    return x > low ? (x < high ? x : high) : x == x ? low : 0;
}

/* Converts binary32 bits to the code of a float of `bits` bits: 10, 11, 16 or 32. */
static uint32_t code_from_float(uint32_t value, unsigned bits)
{
    float x = float_from_bits(value);

    if (bits == 32)
        return value;
    if (bits == 16)
        return f16_from_f32(x);
    if (x != x)
        return (1u << bits) - 1;
    if (value >> 31)
        return 0;
    uint16_t half = f16_from_f32(x < 65504 || x == INFINITY ? x : 65504);
    if (f32_from_f16(half) > x)
        half--;
    return half >> (15 - bits);
}

/* Returns the code of `bits` bits of a register value with the number format. */
static uint32_t code_from_register(uint32_t value, unsigned bits, enum number_format number)
{
    const double largest = largest_code(bits), top = largest_code(bits - 1);
    const float x = float_from_bits(value);

    switch (number) {
    case UNORM: return (uint32_t)nearbyint(clamped(x, 0, 1) * largest);
    case SNORM: return (uint32_t)(int32_t)nearbyint(clamped(x, -1, 1) * top);
    case USCALED: return (uint32_t)clamped(x, 0, largest);
    case SSCALED: return (uint32_t)(int32_t)clamped(x, -top - 1, top);
    case FLOAT: return code_from_float(value, bits);
    case UINT:
    case SINT: break;
    }
    return value;
}

/* Converts the 32-bit result of a conversion to a 16-bit register value: the low bits of an
 * integer, otherwise f16. */
static uint32_t narrowed(const struct format *f, uint32_t value)
{
    return is_integer(f) ? value & 0xffff : f16_from_f32(float_from_bits(value));
}

/* Returns the 32-bit value of a 16-bit register value. */
static uint32_t widened(const struct format *f, uint32_t half)
{
    if (f->number == SINT)
        return (uint32_t)(int32_t)(int16_t)half;
    return f->number == UINT ? half : bits_from_float(f32_from_f16((uint16_t)half));
}

/* The functions from here on find and read the elements in memory. */

/* An element of each lane in memory, in parts of at most a dword. Each part has its own addresses,
 * since swizzled buffers scatter the parts. */
struct element {
    struct lane_mem part[4];
    unsigned parts, part_bytes;
};

/* Resolves the element of each lane in parts of at most a dword. False after a report. */
static bool resolve(struct wave *w, const struct inst *in, const struct buffer_access *b,
                    const struct format *f, struct element *e)
{
    uint64_t lanes = buffer_in_range(b, b->lanes, 0, f->bytes);

    e->part_bytes = f->bytes < 4 ? f->bytes : 4;
    e->parts = f->bytes / e->part_bytes;
    for (unsigned i = 0; i < e->parts; i++) {
        e->part[i] = (struct lane_mem){.lanes = lanes};
        if (!buffer_part(w, in, b, i * e->part_bytes, e->part_bytes, &e->part[i]))
            return false;
    }
    return true;
}

/* Returns the address of the component's first byte in lane l. */
static uint8_t *component_bytes(const struct element *e, struct component c, unsigned l)
{
    return e->part[c.at / 32].ptr[l] + c.at % 32 / 8;
}

/* Returns the number of bytes of memory that have bits of the component. */
static unsigned component_size(struct component c) { return (c.at % 8 + c.bits + 7u) / 8; }

/* Returns the component's code in lane l. */
static uint32_t read_component(const struct element *e, struct component c, unsigned l)
{
    uint64_t bytes = 0;

    memcpy(&bytes, component_bytes(e, c, l), component_size(c));
    return (uint32_t)(bytes >> c.at % 8 & ((UINT64_C(1) << c.bits) - 1));
}

/* The functions from here on execute loads. */

/* Returns lane l's value of the register component whose source is `select` (enum select). `d16`
 * returns it in 16 bits. */
static uint32_t loaded(const struct format *f, const struct element *e, unsigned select, unsigned l,
                       bool d16)
{
    struct component c = {0};
    bool inside = e->part[0].lanes >> l & 1;
    uint32_t one = is_integer(f) ? 1 : d16 ? 0x3c00 : 0x3f800000;

    if (select >= SELECT_X)
        c = f->component[select - SELECT_X];
    if (select == SELECT_1 || (inside && select == SELECT_X + 3 && !c.bits))
        return one;
    if (!inside || !c.bits)
        return 0;
    uint32_t code = read_component(e, c, l);
    if (d16 && f->number == FLOAT && c.bits == 16)
        return code;
    uint32_t value = register_from_code(code, c.bits, (enum number_format)f->number);
    return d16 ? narrowed(f, value) : value;
}

/* Returns the lanes in which the register component with source `select` is defined in memory. */
static uint64_t loaded_valid(struct wave *w, const struct format *f, struct element *e,
                             unsigned select, uint64_t lanes)
{
    struct component c = {0};

    if (select >= SELECT_X)
        c = f->component[select - SELECT_X];
    if (!c.bits)
        return lanes;
    struct lane_mem *m = &e->part[c.at / 32];
    return mem_written(w, m, c.at % 32 / 8, component_size(c)) | m->dropped;
}

/* Writes result number i of lane l, of 16 or 32 bits. */
static void write_component(struct wave *w, const struct inst *in, unsigned i, unsigned l,
                            uint32_t value)
{
    struct reg_rows out = reg_rows(w, &in->dst);
    unsigned shift = in->row->arg & D16_HIGH ? 16 : i % 2 * 16;

    if (!(in->row->arg & D16)) {
        out.row[i][l] = value;
        return;
    }
    uint32_t *to = &out.row[i / 2][l];
    const uint32_t kept = i % 2 ? 0xffff : mem_kept_bits(w, shift ? PART_HIGH : PART_LOW);
    *to = (*to & kept) | value << shift;
}

/* Records that result number i is defined in the lanes `ok` and undefined in the other `lanes`. */
static void note_component(struct wave *w, const struct inst *in, unsigned i, uint64_t lanes,
                           uint64_t ok)
{
    const bool d16 = in->row->arg & D16, high = in->row->arg & D16_HIGH;
    const unsigned r = d16 ? i / 2 : i;
    struct reg_rows out = reg_rows(w, &in->dst);

    if (d16 && i % 2 == 0 && i + 1 == COMPONENTS(in->row->arg)) {
        mem_note_part(w, &in->dst, r, lanes, ok, high ? 0xffff0000 : 0x0000ffff,
                      mem_kept_bits(w, high ? PART_HIGH : PART_LOW));
        return;
    }
    if (d16 && i % 2)
        ok &= out.valid[r];
    out.valid[r] = (out.valid[r] & ~lanes) | (ok & lanes);
    out.part[r] &= ~lanes;
}

/* Executes a load with a format. */
static void exec_load(struct wave *w, const struct inst *in)
{
    bool d16 = in->row->arg & D16;
    struct buffer_access b;
    struct element e;
    struct format f;
    unsigned l;

    if (!buffer_begin(w, in, true, &b) || !find_format(w, in, &b.resource, &f) ||
        !resolve(w, in, &b, &f, &e))
        return;
    for (unsigned i = 0; i < COMPONENTS(in->row->arg); i++) {
        note_component(w, in, i, b.lanes, loaded_valid(w, &f, &e, f.select[i], b.lanes));
        FOR_LANES(l, b.lanes)
        write_component(w, in, i, l, loaded(&f, &e, f.select[i], l, d16));
    }
    buffer_issue(w, in);
}

/* The functions from here on execute stores. */

/* Returns the code that lane l stores for component `c`, from register component i. */
static uint32_t stored(struct wave *w, const struct inst *in, const struct format *f, unsigned i,
                       unsigned l, struct component c)
{
    struct reg_rows data = reg_rows(w, &in->src[SRC_DATA]);
    unsigned shift = in->row->arg & D16_HIGH ? 16 : i % 2 * 16;

    if (!(in->row->arg & D16))
        return code_from_register(data.row[i][l], c.bits, (enum number_format)f->number);
    uint32_t half = data.row[i / 2][l] >> shift & 0xffff;
    if (f->number == FLOAT && c.bits == 16)
        return half;
    return code_from_register(widened(f, half), c.bits, (enum number_format)f->number);
}

/* Converts lane l's registers to the bytes of an element in memory. Sets written[i] for the bytes
 * that the store writes. */
static void build_element(struct wave *w, const struct inst *in, const struct format *f, unsigned l,
                          uint8_t bytes[20], bool written[16])
{
    memset(bytes, 0, 20);
    memset(written, 0, 16);
    for (unsigned i = COMPONENTS(in->row->arg); i-- > 0;) {
        struct component c = {0};
        if (f->select[i] >= SELECT_X)
            c = f->component[f->select[i] - SELECT_X];
        if (!c.bits)
            continue;
        uint64_t mask = ((UINT64_C(1) << c.bits) - 1) << c.at % 8, word = 0;
        memcpy(&word, bytes + c.at / 8, 5);
        word = (word & ~mask) | ((uint64_t)stored(w, in, f, i, l, c) << c.at % 8 & mask);
        memcpy(bytes + c.at / 8, &word, 5);
        for (unsigned at = 0; at < component_size(c); at++)
            written[c.at / 8 + at] = true;
    }
}

/* Executes a store with a format. */
static void exec_store(struct wave *w, const struct inst *in)
{
    struct buffer_access b;
    struct element e;
    struct format f;
    uint8_t bytes[20];
    bool written[16];
    unsigned l;

    if (!buffer_begin(w, in, true, &b) || !find_format(w, in, &b.resource, &f) ||
        !resolve(w, in, &b, &f, &e) ||
        !mem_defined(w, in, &in->src[SRC_DATA], e.part[0].lanes, "the stored data"))
        return;
    FOR_LANES(l, e.part[0].lanes)
    {
        build_element(w, in, &f, l, bytes, written);
        for (unsigned at = 0; at < f.bytes; at++) {
            struct lane_mem *m = &e.part[at / e.part_bytes];
            if (!written[at])
                continue;
            __atomic_store_n(m->ptr[l] + at % e.part_bytes, bytes[at], __ATOMIC_RELAXED);
            mem_mark(w, m, at % e.part_bytes, 1, UINT64_C(1) << l);
        }
    }
    buffer_issue(w, in);
}

/* The table of the instructions' rows follows. */

#define ROW(prefix, n, run, d, data, f, a) \
    {.name = prefix n,                     \
     .exec = run,                          \
     .dst = d,                             \
     .src = {T_B64, data, T_B128, T_U32},  \
     .flags = ROW_VMEM | ROW_SHARED | (f), \
     .wait = 1 + WAIT_VM,                  \
     .arg = a}
#define BOTH(prefix, n, d, keeps, a)                                            \
    ROW(prefix, "load_format_" n, exec_load, d, T_NONE, ROW_LOAD | (keeps), a), \
        ROW(prefix, "store_format_" n, exec_store, T_NONE, d, ROW_STORE, a)
#define KEEPS_HALF (ROW_DST_IS_SRC | ROW_PARTIAL)
#define FORMATS(prefix)                                                       \
    BOTH(prefix, "x", T_B32, 0, 1), BOTH(prefix, "xy", T_B64, 0, 2),          \
        BOTH(prefix, "xyz", T_B96, 0, 3), BOTH(prefix, "xyzw", T_B128, 0, 4), \
        BOTH(prefix, "d16_x", T_B32, KEEPS_HALF, D16 | 1),                    \
        BOTH(prefix, "d16_xy", T_B32, 0, D16 | 2),                            \
        BOTH(prefix, "d16_xyz", T_B64, KEEPS_HALF, D16 | 3),                  \
        BOTH(prefix, "d16_xyzw", T_B64, 0, D16 | 4)

const struct op_row exec_format_rows[] = {
    FORMATS("buffer_"),
    FORMATS("tbuffer_"),
    BOTH("buffer_", "d16_hi_x", T_B32, KEEPS_HALF, D16 | D16_HIGH | 1),
    {.name = NULL},
};
