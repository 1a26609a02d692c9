/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/targets/run.h"

#include <string.h>

#include "tools/hipsim/core/decode.h"
#include "tools/hipsim/core/engine.h"
#include "tools/hipsim/core/isa.h"
#include "tools/hipsim/core/memory.h"

static void *allocate(const void *bytes, size_t size)
{
    const struct hipsim_mem_request request = {.size = size, .kind = HIPSIM_MEM_DEVICE};
    assert_true(hipsim_mem_init());
    void *p = hipsim_mem_alloc(&request);
    assert_non_null(p);
    memcpy(p, bytes, size);
    hipsim_mem_mark((uint64_t)(uintptr_t)p, size);
    return p;
}

static int64_t value_of(const char *name, const void *in, const void *out,
                        const struct setting *settings, unsigned n)
{
    if (strcmp(name, "in") == 0)
        return (int64_t)(uintptr_t)in;
    if (strcmp(name, "out") == 0)
        return (int64_t)(uintptr_t)out;
    for (unsigned i = 0; i < n; i++)
        if (strcmp(name, settings[i].name) == 0)
            return settings[i].value;
    fail_msg("argument %s has no value", name);
    return 0;
}

static enum gfx_target gfx_of(const struct tgt *t)
{
    size_t i = 0;
    while (strcmp(isas[i].name, t->machine.name))
        i++;
    return isas[i].target;
}

/* Returns the launch state that the kernel's descriptor requests: kernarg pointer, workgroup id
 * x. */
static struct launch launch_of(const struct compiled *c, struct code *code, const void *kernarg)
{
    const unsigned threads = tir_lanes(&c->t->machine) * c->waves;
    struct launch l = {
        .code = code,
        .kernel = "k",
        .entry_pc = code_address(code),
        .grid = {threads, 1, 1},
        .block = {threads, 1, 1},
        .nuser_sgpr = 2,
        .sgpr_workgroup_id = {true, false, false},
        .nvgpr = c->facts.vgprs,
        .nagpr = c->facts.agprs,
        .mode = MODE_DENORM_F32 | MODE_DENORM_F16_F64 | MODE_IEEE | MODE_DX10_CLAMP,
        .lds_bytes = c->facts.lds_bytes,
        .checks = CHECK_ALL,
        .threads = 1,
        .budget = 1 << 20,
    };
    uint64_t address = (uint64_t)(uintptr_t)kernarg;
    l.user_sgpr[0] = (uint32_t)address;
    l.user_sgpr[1] = (uint32_t)(address >> 32);
    return l;
}

void run(const struct compiled *c, struct values *v, const struct setting *settings, unsigned n)
{
    memset(v->out, 0xaa, sizeof(v->out));
    void *in = allocate(v->in, sizeof(v->in)), *out = allocate(v->out, sizeof(v->out));
    uint8_t kernarg[16 * MAX_ARGS] = {0};
    for (unsigned i = 0; i < c->n_args; i++) {
        int64_t value = value_of(c->args[i].name, in, out, settings, n);
        memcpy(kernarg + c->args[i].offset, &value, tir_dtype_bits(c->args[i].dtype) / 8);
    }
    void *arguments = allocate(kernarg, sizeof(kernarg));

    const uint8_t *bytes;
    size_t size;
    char why[TGT_WHY];
    if (!tgt_find_code(c->code_object.data, c->code_object.size, "k", &bytes, &size, why))
        fail_msg("%s", why);
    struct code *code = code_create(gfx_of(c->t), bytes, size, (uint64_t)(uintptr_t)bytes);
    assert_non_null(code);
    struct launch l = launch_of(c, code, arguments);
    if (engine_run(&l) != 0)
        fail_msg("%s", l.fault.text);
    memcpy(v->out, out, sizeof(v->out));
    code_destroy(code);
    hipsim_mem_free(in);
    hipsim_mem_free(out);
    hipsim_mem_free(arguments);
}

void compile_and_run(struct kernel *k, struct values *v, const struct setting *s, unsigned n)
{
    struct compiled c = kernel_compile(k);
    run(&c, v, s, n);
    compiled_free(&c);
}
