/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hipsim/tests/program.h"

#include <llvm-c/Core.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRIPLE "amdgcn-amd-amdhsa"

struct program program_new(enum gfx_target target)
{
    struct program p = {.target = target,
                        .mode = MODE_DEFAULT,
                        .block = 64,
                        .vgprs = PROGRAM_VGPRS,
                        .groups = 1,
                        .exec = UINT64_MAX};
    memset(p.v_valid, 0xff, sizeof(p.v_valid));
    memset(p.s_valid, 0xff, sizeof(p.s_valid));
    p.scc_valid = 1;
    p.budget = 1000000;
    p.checks = CHECK_ALL & ~(uint32_t)(CHECK_HAZARD | CHECK_STRICT); /* the texts have no s_nop */
    return p;
}

void program_fill(struct program *p, unsigned reg, uint32_t value)
{
    for (unsigned i = 0; i < 64; i++)
        p->v[reg][i] = value;
}

void program_fill64(struct program *p, unsigned reg, uint64_t value)
{
    program_fill(p, reg, (uint32_t)value);
    program_fill(p, reg + 1, (uint32_t)(value >> 32));
}

uint64_t program_v64(const struct program *p, unsigned reg, unsigned lane)
{
    return p->v[reg][lane] | (uint64_t)p->v[reg + 1][lane] << 32;
}

uint64_t program_s64(const struct program *p, unsigned reg)
{
    return p->s[reg] | (uint64_t)p->s[reg + 1] << 32;
}

/* The section of a test's machine code. LLVM adds padding to .text. */
#define SECTION ".program"

/* Moves the section SECTION of a relocatable ELF64 object to the front of the buffer. False if
 * there is none. */
static bool extract_code(uint8_t *elf, size_t *bytes)
{
    uint64_t shoff, off, size;
    uint16_t shentsize, shnum, shstrndx;
    memcpy(&shoff, elf + 40, 8);
    memcpy(&shentsize, elf + 58, 2);
    memcpy(&shnum, elf + 60, 2);
    memcpy(&shstrndx, elf + 62, 2);
    uint64_t names;
    memcpy(&names, elf + shoff + (size_t)shstrndx * shentsize + 24, 8);
    for (unsigned i = 0; i < shnum; i++) {
        const uint8_t *sh = elf + shoff + (size_t)i * shentsize;
        uint32_t name;
        memcpy(&name, sh, 4);
        if (strcmp((const char *)elf + names + name, SECTION) != 0)
            continue;
        memcpy(&off, sh + 24, 8);
        memcpy(&size, sh + 32, 8);
        memmove(elf, elf + off, size);
        *bytes = size;
        return true;
    }
    return false;
}

/* Returns LLVM's machine for the target, which is created at its first use. */
static LLVMTargetMachineRef machine_of(enum gfx_target target)
{
    static LLVMTargetMachineRef machines[ISAS];
    const size_t i = (size_t)(isa_of(target) - isas);
    if (machines[i])
        return machines[i];
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTarget();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUAsmPrinter();
    LLVMInitializeAMDGPUAsmParser();
    LLVMTargetRef amdgpu;
    assert_int_equal(LLVMGetTargetFromTriple(TRIPLE, &amdgpu, NULL), 0);
    return machines[i] =
               LLVMCreateTargetMachine(amdgpu, TRIPLE, isa_of(target)->name, "",
                                       LLVMCodeGenLevelNone, LLVMRelocPIC, LLVMCodeModelDefault);
}

/* Prints LLVM's message about an error in the text, and sets *failed (bool). */
static void note_error(LLVMDiagnosticInfoRef info, void *failed)
{
    if (LLVMGetDiagInfoSeverity(info) != LLVMDSError)
        return;
    char *const message = LLVMGetDiagInfoDescription(info);
    fprintf(stderr, "%s\n", message);
    LLVMDisposeMessage(message);
    *(bool *)failed = true;
}

/* The text is the module's inline assembly: a process of llvm-mc takes ten times longer. */
void *assemble_try(enum gfx_target target, const char *text, size_t *bytes)
{
    static const char section[] = ".section " SECTION ",\"ax\"\n";
    bool failed = false;
    uint8_t *code = NULL;
    LLVMContextRef context = LLVMContextCreate();
    LLVMContextSetDiagnosticHandler(context, note_error, &failed);
    LLVMModuleRef module = LLVMModuleCreateWithNameInContext("program", context);
    LLVMSetTarget(module, TRIPLE);
    LLVMAppendModuleInlineAsm(module, section, sizeof(section) - 1);
    LLVMAppendModuleInlineAsm(module, text, strlen(text));
    LLVMMemoryBufferRef object = NULL;
    char *message = NULL;
    if (LLVMTargetMachineEmitToMemoryBuffer(machine_of(target), module, LLVMObjectFile, &message,
                                            &object))
        fail_msg("%s", message);
    if (!failed && (code = malloc(LLVMGetBufferSize(object))))
        memcpy(code, LLVMGetBufferStart(object), LLVMGetBufferSize(object));
    LLVMDisposeMemoryBuffer(object);
    LLVMDisposeModule(module);
    LLVMContextDispose(context);
    if (code && extract_code(code, bytes))
        return code;
    free(code);
    return NULL;
}

void *assemble(enum gfx_target target, const char *text, size_t *bytes)
{
    void *code = assemble_try(target, text, bytes);
    if (!code)
        fail_msg("does not assemble: %s", text);
    return code;
}

static uint32_t agprs_of(const struct program *p)
{
    return isa_of(p->target)->gfx12 ? 0 : PROGRAM_AGPRS;
}

/* Sets the registers when the first workgroup begins. Their values are read after its last
 * instruction. */
static void preset(void *ctx, struct workgroup *wg)
{
    struct program *p = ctx;
    for (uint32_t n = 0; n < wg->nwaves; n++) {
        struct wave *w = wg->waves[n];
        memcpy(w->v, p->v, sizeof(p->v));
        if (agprs_of(p))
            memcpy(w->a, p->a, sizeof(p->a));
        memcpy(w->v_valid, p->v_valid, sizeof(p->v_valid));
        memset(w->a_valid, 0xff, sizeof(w->a_valid));
        uint32_t place[4]; /* TTMP6 to TTMP9: workgroup, cluster */
        memcpy(place, w->sgpr + SGPR_TTMP0 + 6, sizeof(place));
        memcpy(w->sgpr, p->s, sizeof(p->s));
        if (p->cluster)
            memcpy(w->sgpr + SGPR_TTMP0 + 6, place, sizeof(place));
        memcpy(w->s_valid, p->s_valid, sizeof(p->s_valid));
        sgpr_write64(w, SGPR_EXEC, p->exec & w->lanes, true);
        w->scc = p->scc;
        w->scc_valid = p->scc_valid;
        w->sgpr[100] = w->id;               /* s100: the wave's number */
        w->sgpr[101] = (uint32_t)wg->index; /* s101: the workgroup's number */
    }
}

static void collect(void *ctx, struct workgroup *wg)
{
    struct program *p = ctx;
    const struct wave *w = wg->waves[0];
    memcpy(p->v, w->v, sizeof(p->v));
    if (agprs_of(p))
        memcpy(p->a, w->a, sizeof(p->a));
    memcpy(p->v_valid, w->v_valid, sizeof(p->v_valid));
    memcpy(p->s, w->sgpr, sizeof(p->s));
    memcpy(p->s_valid, w->s_valid, sizeof(p->s_valid));
    p->scc = w->scc;
    p->scc_valid = w->scc_valid;
    p->exec = wave_exec(w);
    p->mode_after = w->mode;
    p->lds_arrivals = wg->lds_arrivals;
}

/* Empty observer of instructions. With it, instructions execute one by one. */
static void look_on(void *ctx, const struct wave *w, const struct inst *in,
                    const struct mem_access *access)
{
    (void)ctx;
    (void)w;
    (void)in;
    (void)access;
}

void program_at(struct program *p, struct code *code, uint64_t offset)
{
    struct observer observer = {.ctx = p, .workgroup_begin = preset, .workgroup_end = collect};
    observer.inst = p->one_by_one ? look_on : NULL;
    struct launch launch = {
        .code = code,
        .kernel = "program",
        .entry_pc = code_address(code) + offset,
        .grid = {p->block * p->groups, 1, 1},
        .block = {p->block, 1, 1},
        .nvgpr = p->vgprs,
        .nagpr = agprs_of(p),
        .mode = p->mode,
        .lds_bytes = p->lds_bytes,
        .lds_limit = p->lds_limit,
        .private_bytes = p->private_bytes,
        .checks = p->checks,
        .keep_going = p->keep_going,
        .order = p->order,
        .seed = p->seed,
        .budget = p->budget,
        .threads = 1,
        .cooperative = p->together,
        .cluster = {p->cluster, !!p->cluster, !!p->cluster},
        .named_barriers = p->named_barriers,
        .observer = &observer,
    };
    engine_run(&launch);
    p->fault = launch.fault;
    p->findings = launch.findings;
    memcpy(p->margins, launch.margins, sizeof(p->margins));
    p->race_incomplete = launch.race_incomplete;
    p->places = 0;
    for (const struct finding *f = launch.first_finding; f; f = f->next)
        if (p->places < sizeof(p->found) / sizeof(p->found[0]))
            p->found[p->places++] = f->fault;
    launch_forget_findings(&launch);
    p->counters = launch.counters;
}

void program_try(struct program *p, const char *text)
{
    size_t bytes = 0, n = strlen(text);
    char *whole = malloc(n + 32);
    assert_non_null(whole);
    snprintf(whole, n + 32, "%s\ns_endpgm\n", text);
    void *machine = assemble(p->target, whole, &bytes);
    free(whole);
    struct code *code = code_create(p->target, machine, bytes, (uint64_t)(uintptr_t)machine);
    assert_non_null(code);
    program_at(p, code, 0);
    code_destroy(code);
    free(machine);
}

void program_run(struct program *p, const char *text)
{
    program_try(p, text);
    if (p->fault.kind != FAULT_NONE)
        fail_msg("%s\n%s", text, p->fault.text);
}

void check_pair(enum fault_kind kind, const struct fault *bad, const char *bad_text,
                const struct fault *good, const char *good_text)
{
    if (bad->kind != kind)
        fail_msg("no %s but \"%s\":\n%s", fault_name(kind), bad->text, bad_text);
    if (good->kind != FAULT_NONE)
        fail_msg("%s\n%s", good->text, good_text);
}

/* Distance in bytes between cases in the text. All cases are assembled by one run of the
 * assembler. */
#define CASE_BYTES 64

static char *join_cases(const struct op_case *cases, size_t n)
{
    size_t room = 1;
    for (size_t i = 0; i < n; i++)
        room += strlen(cases[i].text) + 40;
    char *text = malloc(room), *at = text;
    assert_non_null(text);
    for (size_t i = 0; i < n; i++)
        at += sprintf(at, ".p2align 6\n%s\ns_endpgm\n", cases[i].text);
    return text;
}

void check_cases(enum gfx_target target, uint32_t mode, const struct op_case *cases, size_t n)
{
    size_t bytes = 0;
    char *text = join_cases(cases, n);
    void *machine = assemble(target, text, &bytes);
    free(text);
    struct code *code = code_create(target, machine, bytes, (uint64_t)(uintptr_t)machine);
    assert_non_null(code);
    unsigned wrong = 0;
    for (size_t i = 0; i < n; i++) {
        const struct op_case *c = &cases[i];
        struct program p = program_new(target);
        p.mode = mode;
        program_fill64(&p, 0, UINT64_C(0xdeadbeefdeadbeef));
        program_fill64(&p, 2, c->a);
        program_fill64(&p, 4, c->b);
        program_fill64(&p, 6, c->c);
        p.s[SGPR_VCC] = 0xaaaaaaaa;
        p.s[SGPR_VCC + 1] = 0xaaaaaaaa;
        program_at(&p, code, i * CASE_BYTES);
        if (p.fault.kind != FAULT_NONE)
            fail_msg("%s\n%s", c->text, p.fault.text);
        bool wide = strstr(c->text, "v[0:1]") != NULL;
        for (unsigned lane = 0; lane < isa_of(target)->lanes; lane += 9) {
            uint64_t got = wide ? program_v64(&p, 0, lane) : p.v[0][lane];
            if (got == c->want)
                continue;
            print_error("%s, a %#llx b %#llx c %#llx: lane %u is %#llx, not %#llx\n", c->text,
                        (unsigned long long)c->a, (unsigned long long)c->b,
                        (unsigned long long)c->c, lane, (unsigned long long)got,
                        (unsigned long long)c->want);
            wrong++;
            break;
        }
    }
    code_destroy(code);
    free(machine);
    assert_int_equal(wrong, 0);
}
