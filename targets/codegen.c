/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiles one function with LLVM: builds a module with one kernel, lowers the IR, inlines hooks
 * and emits the result. Each call of tgt_emit() has its own LLVM context. Calls share LLVM's
 * command line options, which are set once. Calls of a thread share a machine for each target.
 */
#include <llvm-c/Analysis.h>
#include <llvm-c/BitReader.h>
#include <llvm-c/Linker.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "targets/descriptor.h"
#include "targets/lower_isa.h"

static const char triple[] = "amdgcn-amd-amdhsa";

/* The number of targets. */
enum {
    TARGETS = 0
#define TARGET(name, isa) +1
#include "targets/targets.def"
#undef TARGET
};

void tgt_blob_free(struct tgt_blob *b)
{
    free(b->data);
    *b = (struct tgt_blob){0};
}

/* Initialises LLVM and sets its options.
 *
 * Both machine schedulers are off, because the order of the IR is the schedule. Merging of loads is
 * off, because waits count loads. Loop strength reduction is off, because it would add address
 * arithmetic to loops. The structurizer skips uniform regions, which all branches are: a cold block
 * is then one jump away, and no flag is carried through the blocks in between. Matrix instructions
 * accumulate in VGPRs, where cold branches rescale the accumulators.
 *
 * Two options save a seventh of LLVM's time. Straight-line strength reduction tests whether each
 * value may be poison, and scans the next 32 instructions for that. No value of these kernels may
 * be poison, since only loop counters are nsw and hooks wrap (compiler/hooks.c). N-ary
 * reassociation finds nothing that the pass opt_cse has left.
 *
 * Dual-issue pairs of vector instructions (gfx1250) are off. LLVM 22.1 inserts no wait state before
 * a pair whose second instruction writes a register that a WMMA or a transcendental reads (CDNA5
 * ISA, 7.12.1). */
static void start_llvm(void)
{
    static const char *const options[] = {
        "attnc",
        "-enable-misched=0",
        "-enable-post-misched=0",
        "-amdgpu-load-store-vectorizer=0",
        "-disable-lsr",
        "-structurizecfg-skip-uniform-regions",
        "-disable-machine-licm",
        "-amdgpu-mfma-vgpr-form",
        "-enable-poison-reuse-guard=false",
        "-opt-disable=nary-reassociate",
        "-amdgpu-atomic-optimizer-strategy=None",
        "-amdgpu-enable-vopd=0",
    };
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTarget();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUAsmPrinter();
    LLVMInitializeAMDGPUAsmParser();
    LLVMParseCommandLineOptions(sizeof(options) / sizeof(options[0]), options, NULL);
}

/* Writes LLVM's message, which may be NULL, to `why`, truncated to fit, and frees it. Returns
 * false. */
static bool llvm_says(char why[TGT_WHY], char *message)
{
    snprintf(why, TGT_WHY, "LLVM: %s", message ? message : "no reason given");
    LLVMDisposeMessage(message);
    return false;
}

/* The places to which on_diagnostic() writes an error of LLVM. */
struct diagnostics {
    bool failed; /* true: LLVM has reported an error */
    char *why;   /* text of the error, TGT_WHY bytes */
};

/* Stores the first error that LLVM reports in `context`, a struct diagnostics. */
static void on_diagnostic(LLVMDiagnosticInfoRef info, void *context)
{
    struct diagnostics *d = context;
    if (LLVMGetDiagInfoSeverity(info) != LLVMDSError || d->failed)
        return;
    d->failed = true;
    llvm_says(d->why, LLVMGetDiagInfoDescription(info));
}

/* Returns metadata for an alias-scope list of one scope. A string identifies scope and domain,
 * instead of a node that refers to itself (LangRef, "noalias"). */
static LLVMValueRef make_scope(struct lower *l, const char *name)
{
    LLVMMetadataRef domain_name = LLVMMDStringInContext2(l->ctx, "lds", 3);
    LLVMMetadataRef domain = LLVMMDNodeInContext2(l->ctx, &domain_name, 1);
    LLVMMetadataRef parts[2] = {LLVMMDStringInContext2(l->ctx, name, strlen(name)), domain};
    LLVMMetadataRef scope = LLVMMDNodeInContext2(l->ctx, parts, 2);
    return LLVMMetadataAsValue(l->ctx, LLVMMDNodeInContext2(l->ctx, &scope, 1));
}

/* Returns LLVM's number of the kind of metadata called `name`. */
static unsigned metadata_kind(struct lower *l, const char *name)
{
    return LLVMGetMDKindIDInContext(l->ctx, name, (unsigned)strlen(name));
}

/* Sets the LLVM types, kinds of metadata and alias scopes in `l`. */
static void cache_types(struct lower *l)
{
    l->void_ = LLVMVoidTypeInContext(l->ctx);
    l->i1 = LLVMInt1TypeInContext(l->ctx);
    l->i8 = LLVMInt8TypeInContext(l->ctx);
    l->i16 = LLVMInt16TypeInContext(l->ctx);
    l->i32 = LLVMInt32TypeInContext(l->ctx);
    l->i64 = LLVMInt64TypeInContext(l->ctx);
    l->lanes = LLVMIntTypeInContext(l->ctx, lower_lanes(l));
    l->f16 = LLVMHalfTypeInContext(l->ctx);
    l->bf16 = LLVMBFloatTypeInContext(l->ctx);
    l->f32 = LLVMFloatTypeInContext(l->ctx);
    l->global_ptr = LLVMPointerTypeInContext(l->ctx, AS_GLOBAL);
    l->lds_ptr = LLVMPointerTypeInContext(l->ctx, AS_LDS);
    l->constant_ptr = LLVMPointerTypeInContext(l->ctx, AS_CONSTANT);
    l->rsrc = LLVMPointerTypeInContext(l->ctx, AS_BUFFER_RESOURCE);
    l->md_alias_scope = metadata_kind(l, "alias.scope");
    l->md_noalias = metadata_kind(l, "noalias");
    l->md_invariant = metadata_kind(l, "invariant.load");
    l->md_prof = metadata_kind(l, "prof");
    l->lds_scope = make_scope(l, "lds");
    l->dma_scope = make_scope(l, "dma");
}

void lower_attribute(struct lower *l, const char *key, const char *value)
{
    LLVMAttributeRef a = LLVMCreateStringAttribute(l->ctx, key, (unsigned)strlen(key), value,
                                                   (unsigned)strlen(value));
    LLVMAddAttributeAtIndex(l->kernel, LLVMAttributeFunctionIndex, a);
}

/* Sets attribute `key` of the kernel to `format` printed with the number `n`, which `format` may
 * contain twice. */
static void add_number_attribute(struct lower *l, const char *key, const char *format, unsigned n)
{
    char text[32];
    snprintf(text, sizeof(text), format, n, n);
    lower_attribute(l, key, text);
}

/* Sets the kernel's attributes: unused launch state, target, workgroup size, occupancy, registers
 * and LDS. */
static void set_kernel_attributes(struct lower *l)
{
    /* Launch state that kernels of attnc never use: hidden arguments, other ids. */
    static const char *const unused[] = {
        "amdgpu-no-dispatch-ptr",    "amdgpu-no-queue-ptr",         "amdgpu-no-dispatch-id",
        "amdgpu-no-implicitarg-ptr", "amdgpu-no-hostcall-ptr",      "amdgpu-no-heap-ptr",
        "amdgpu-no-default-queue",   "amdgpu-no-completion-action", "amdgpu-no-multigrid-sync-arg",
        "amdgpu-no-lds-kernel-id",   "amdgpu-no-workitem-id-y",     "amdgpu-no-workitem-id-z",
    };
    for (size_t i = 0; i < sizeof(unused) / sizeof(unused[0]); i++)
        lower_attribute(l, unused[i], "");

    unsigned waves_per_simd = l->f->waves_per_simd ? l->f->waves_per_simd : 1;
    lower_attribute(l, "target-cpu", l->t->machine.name);
    lower_attribute(l, "uniform-work-group-size", "true");
    add_number_attribute(l, "amdgpu-flat-work-group-size", "%u,%u", lower_lanes(l) * l->f->waves);
    add_number_attribute(l, "amdgpu-waves-per-eu", "%u", waves_per_simd);
    l->isa->set_registers(l, waves_per_simd);
    if (l->f->lds_bytes)
        add_number_attribute(l, "amdgpu-lds-size", "%u", l->f->lds_bytes);
}

/* Checks that LLVM's byte offsets of the kernel's parameters, naturally aligned in their order, are
 * the offsets in the IR, by which libattn packs arguments. */
static bool check_offsets(struct lower *l)
{
    unsigned offset = 0;
    for (uint32_t i = 0; i < l->f->n_args; i++) {
        const struct tir_arg *a = &l->f->args[i];
        unsigned size = tir_dtype_bits(a->dtype) / 8;
        offset = (offset + size - 1) / size * size;
        if (a->offset != offset) {
            lower_fail(l, "argument %s is at offset %u, not at %u", a->name, a->offset, offset);
            return false;
        }
        offset += size;
    }
    return true;
}

/* Sets an entry count of the kernel, without which LLVM ignores branch weights. */
static void set_entry_count(struct lower *l)
{
    LLVMMetadataRef parts[2] = {
        LLVMMDStringInContext2(l->ctx, "function_entry_count", 20),
        LLVMValueAsMetadata(LLVMConstInt(l->i64, 1000, false)),
    };
    LLVMGlobalSetMetadata(l->kernel, l->md_prof, LLVMMDNodeInContext2(l->ctx, parts, 2));
}

/* Declares the kernel with its parameters and attributes. Returns false after lower_fail(). */
static bool declare_kernel(struct lower *l)
{
    LLVMTypeRef *params = calloc(l->f->n_args + 1, sizeof(*params));
    if (!params) {
        lower_fail(l, "out of memory");
        return false;
    }
    for (uint32_t i = 0; i < l->f->n_args; i++)
        params[i] =
            l->pointers && l->pointers[i] ? l->global_ptr : lower_dtype(l, l->f->args[i].dtype);
    LLVMTypeRef type = LLVMFunctionType(l->void_, params, l->f->n_args, false);
    l->kernel = LLVMAddFunction(l->module, l->f->name, type);
    free(params);
    for (uint32_t i = 0; i < l->f->n_args; i++)
        LLVMSetValueName2(LLVMGetParam(l->kernel, i), l->f->args[i].name,
                          strlen(l->f->args[i].name));

    const unsigned amdgpu_kernel = 91; /* value of llvm::CallingConv::AMDGPU_KERNEL */
    LLVMSetFunctionCallConv(l->kernel, amdgpu_kernel);
    LLVMSetVisibility(l->kernel, LLVMProtectedVisibility);
    set_kernel_attributes(l);
    set_entry_count(l);
    return check_offsets(l);
}

/* Emits the entry block, which computes lane and wave number. The wave number is read from the
 * first lane, so that LLVM knows that it is uniform. */
static void build_entry(struct lower *l)
{
    LLVMPositionBuilderAtEnd(l->b, LLVMAppendBasicBlockInContext(l->ctx, l->kernel, "entry"));
    LLVMValueRef thread = emit_intrinsic(l, "llvm.amdgcn.workitem.id.x", NULL, 0, NULL, 0);
    if (l->f->waves == 1) {
        l->lane = thread;
        l->wave = lower_i32(l, 0);
        return;
    }
    LLVMValueRef wave = LLVMBuildLShr(l->b, thread, lower_i32(l, l->t->machine.lane_bits), "");
    l->lane = LLVMBuildAnd(l->b, thread, lower_i32(l, lower_lanes(l) - 1), "");
    l->wave = emit_intrinsic(l, "llvm.amdgcn.readfirstlane", &l->i32, 1, &wave, 1);
}

/* True if a waitcnt op of the function waits for a count of memory operations, so that LLVM must
 * not merge loads. */
static bool counts_loads(const struct tir_func *f)
{
    for (uint32_t id = 1; id < f->n_ops; id++) {
        const struct tir_op *op = tir_op(f, (struct tir_ref){id});
        if (op->opcode == TIR_waitcnt && op->imm[0] >= 0)
            return true;
    }
    return false;
}

/* Lowers the function to LLVM IR. `ir` is the printed IR to which debug lines refer; size 0: no
 * debug lines. Returns false after lower_fail(). */
static bool lower_function(struct lower *l, const struct tgt_blob *ir)
{
    cache_types(l);
    l->counts_loads = counts_loads(l->f);
    l->values = calloc(l->f->n_values, sizeof(*l->values));
    if (!l->values || !lower_agprs_begin(l)) {
        lower_fail(l, "out of memory");
    } else if (declare_kernel(l)) {
        if (ir->size)
            lower_lines_begin(l, ir);
        build_entry(l);
        lower_block(l, l->f->body);
        lower_lines_end(l);
    }
    lower_agprs_end(l);
    free(l->values);
    return !l->failed;
}

/* Sets the version of the code object's format to 5, as in hooks. */
static void set_code_object_version(struct lower *l)
{
    static const char key[] = "amdhsa_code_object_version";
    LLVMMetadataRef version = LLVMValueAsMetadata(lower_i32(l, 500)); /* version 5.00 */
    LLVMAddModuleFlag(l->module, LLVMModuleFlagBehaviorError, key, sizeof(key) - 1, version);
}

/* Sets the text of the object's section .comment, which names the compilers that made it. */
static void set_producer(struct lower *l, const char *producer)
{
    LLVMMetadataRef text = LLVMMDStringInContext2(l->ctx, producer, strlen(producer));
    LLVMAddNamedMetadataOperand(
        l->module, "llvm.ident",
        LLVMMetadataAsValue(l->ctx, LLVMMDNodeInContext2(l->ctx, &text, 1)));
}

/* The functions from here on link and inline hooks. */

/* Links the bitcode of a user's hook into the module. Returns false after an error; `d` has LLVM's
 * message. */
static bool link_hooks(struct lower *l, const struct tgt_codegen_options *o,
                       const struct diagnostics *d)
{
    LLVMMemoryBufferRef bytes =
        LLVMCreateMemoryBufferWithMemoryRangeCopy(o->hooks, o->hooks_size, "hooks");
    LLVMModuleRef hooks;
    bool bad = LLVMParseBitcodeInContext2(l->ctx, bytes, &hooks);
    LLVMDisposeMemoryBuffer(bytes);
    if (bad) {
        if (!d->failed)
            lower_fail(l, "the hook's bitcode cannot be read");
        return false;
    }
    LLVMSetTarget(hooks, triple);
    LLVMSetDataLayout(hooks, LLVMGetDataLayoutStr(l->module));
    return !LLVMLinkModules2(l->module, hooks);
}

/* Makes a hook's function internal, and has LLVM inline it in all callers. */
static void set_always_inline(struct lower *l, LLVMValueRef fn)
{
    static const char *const against[] = {"noinline", "optnone"};
    for (size_t i = 0; i < sizeof(against) / sizeof(against[0]); i++)
        LLVMRemoveEnumAttributeAtIndex(
            fn, LLVMAttributeFunctionIndex,
            LLVMGetEnumAttributeKindForName(against[i], strlen(against[i])));
    unsigned kind = LLVMGetEnumAttributeKindForName("alwaysinline", 12);
    LLVMAddAttributeAtIndex(fn, LLVMAttributeFunctionIndex,
                            LLVMCreateEnumAttribute(l->ctx, kind, 0));
    LLVMSetLinkage(fn, LLVMInternalLinkage);
}

/* Inlines every function that the hook's file defines. Returns false with a message if a call
 * remains, as of a function that the file only declares. */
static bool inline_hooks(struct lower *l, LLVMTargetMachineRef machine, char why[TGT_WHY])
{
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f; f = LLVMGetNextFunction(f)) {
        if (f != l->kernel && !LLVMIsDeclaration(f))
            set_always_inline(l, f);
    }
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef e = LLVMRunPasses(l->module, "always-inline,globaldce", machine, options);
    LLVMDisposePassBuilderOptions(options);
    if (e) {
        char *message = LLVMGetErrorMessage(e);
        snprintf(why, TGT_WHY, "LLVM: %s", message);
        LLVMDisposeErrorMessage(message);
        return false;
    }
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f; f = LLVMGetNextFunction(f)) {
        size_t length;
        if (f == l->kernel || (LLVMIsDeclaration(f) && LLVMGetIntrinsicID(f) != 0))
            continue;
        const char *name = LLVMGetValueName2(f, &length);
        lower_fail(l,
                   LLVMIsDeclaration(f) ? "the hook calls %s, which it does not define"
                                        : "the hook's function %s cannot be inlined",
                   name);
        return false;
    }
    return true;
}

/* The functions from here on emit the module. */

/* Copies `size` bytes to *out, which the caller frees. Returns false if memory is exhausted. */
static bool copy_out(const void *data, size_t size, struct tgt_blob *out, char why[TGT_WHY])
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy) {
        snprintf(why, TGT_WHY, "out of memory");
        return false;
    }
    memcpy(copy, data, size);
    *out = (struct tgt_blob){copy, size};
    return true;
}

/* Prints the module as LLVM IR to *out. */
static bool emit_text(LLVMModuleRef module, struct tgt_blob *out, char why[TGT_WHY])
{
    char *text = LLVMPrintModuleToString(module);
    bool ok = copy_out(text, strlen(text), out, why);
    LLVMDisposeMessage(text);
    return ok;
}

/* Emits the module as assembly or as an object, by `kind`, to *out. */
static bool emit_machine_code(LLVMModuleRef module, LLVMTargetMachineRef machine,
                              enum tgt_emit_kind kind, const struct diagnostics *d,
                              struct tgt_blob *out, char why[TGT_WHY])
{
    LLVMCodeGenFileType type = kind == TGT_EMIT_ASM ? LLVMAssemblyFile : LLVMObjectFile;
    LLVMMemoryBufferRef buffer;
    char *message = NULL;
    if (LLVMTargetMachineEmitToMemoryBuffer(machine, module, type, &message, &buffer))
        return llvm_says(why, message);
    bool ok =
        !d->failed && copy_out(LLVMGetBufferStart(buffer), LLVMGetBufferSize(buffer), out, why);
    LLVMDisposeMemoryBuffer(buffer);
    return ok;
}

/* Creates LLVM's machine for a target. Returns NULL with a message on an error. */
static LLVMTargetMachineRef create_machine(const struct tgt *t, char why[TGT_WHY])
{
    LLVMTargetRef target;
    char *message = NULL;
    if (LLVMGetTargetFromTriple(triple, &target, &message)) {
        llvm_says(why, message);
        return NULL;
    }
    return LLVMCreateTargetMachine(target, triple, t->machine.name, "", LLVMCodeGenLevelDefault,
                                   LLVMRelocPIC, LLVMCodeModelDefault);
}

/* This thread's LLVM machine for each target; NULL: not created yet. */
static _Thread_local LLVMTargetMachineRef machines[TARGETS];

/* The key whose destructor is dispose_machines(). */
static pthread_key_t machines_end;

/* Disposes of the machines of a thread that ends. `list`: its array `machines`. */
static void dispose_machines(void *list)
{
    for (unsigned i = 0; i < TARGETS; i++)
        if (((LLVMTargetMachineRef *)list)[i])
            LLVMDisposeTargetMachine(((LLVMTargetMachineRef *)list)[i]);
}

/* Returns this thread's LLVM machine for a target, which later kernels use too: it holds tables of
 * registers that LLVM computes at their first use. Returns NULL with a message on an error. */
static LLVMTargetMachineRef find_machine(const struct tgt *t, char why[TGT_WHY])
{
    unsigned i = 0;
    while (tgt_all[i] != t)
        i++;
    if (!machines[i]) {
        machines[i] = create_machine(t, why);
        pthread_setspecific(machines_end, machines);
    }
    return machines[i];
}

/* Prepares LLVM and the storage of machines. */
static void start(void)
{
    pthread_key_create(&machines_end, dispose_machines);
    start_llvm();
}

/* Builds the module: links the hooks, lowers the function, verifies it and inlines the hooks. */
static bool build_module(struct lower *l, const struct tgt_codegen_options *o,
                         LLVMTargetMachineRef machine, const struct diagnostics *d,
                         char why[TGT_WHY])
{
    set_code_object_version(l); /* first, because the version in a hook must agree with it */
    if (o->hooks && !link_hooks(l, o, d))
        return false;
    if (!lower_function(l, &o->ir))
        return false;
    char *message = NULL;
    if (LLVMVerifyModule(l->module, LLVMReturnStatusAction, &message))
        return llvm_says(why, message);
    LLVMDisposeMessage(message);
    return !o->hooks || inline_hooks(l, machine, why);
}

/* Returns one more than the last dimension in which the function reads its workgroup's index. */
static unsigned count_block_dims(const struct tir_func *f)
{
    unsigned dims = 0;
    for (uint32_t id = 1; id < f->n_ops; id++) {
        const struct tir_op *op = tir_op(f, (struct tir_ref){id});
        if (op->opcode == TIR_block_id && op->imm[0] >= dims)
            dims = (unsigned)op->imm[0] + 1;
    }
    return dims;
}

/* Removes registers and workgroup indices that a GFX9 kernel does not use from its descriptor in
 * `object`. With hooks all indices stay, since a hook may read them. Returns false with a sentence
 * in `why` if the descriptor is absent. */
static bool trim(const struct tir_func *f, bool has_hooks, struct tgt_blob *object,
                 char why[TGT_WHY])
{
    return tgt_trim_descriptor(object, f->name, f->trimmed, has_hooks ? 3 : count_block_dims(f),
                               why);
}

bool tgt_emit(const struct tir_func *f, const struct tgt *t, const struct tgt_codegen_options *o,
              struct tgt_blob *out, char why[TGT_WHY])
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start);

    LLVMTargetMachineRef machine = find_machine(t, why);
    if (!machine)
        return false;
    LLVMContextRef ctx = LLVMContextCreate();
    struct diagnostics diagnostics = {.why = why};
    LLVMContextSetDiagnosticHandler(ctx, on_diagnostic, &diagnostics);
    struct lower l = {
        .f = f, .t = t, .isa = lower_isa_of(t), .ctx = ctx, .pointers = o->pointers, .why = why};
    l.module = LLVMModuleCreateWithNameInContext(f->name, ctx);
    l.b = LLVMCreateBuilderInContext(ctx);
    l.i32 = LLVMInt32TypeInContext(ctx);
    LLVMSetTarget(l.module, triple);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
    LLVMSetModuleDataLayout(l.module, layout);
    LLVMDisposeTargetData(layout);

    if (o->producer)
        set_producer(&l, o->producer);
    bool ok = build_module(&l, o, machine, &diagnostics, why);
    if (ok && o->kind == TGT_EMIT_LLVM)
        ok = emit_text(l.module, out, why);
    else if (ok)
        ok = emit_machine_code(l.module, machine, o->kind, &diagnostics, out, why);
    if (ok && o->kind == TGT_EMIT_OBJECT && t->has_agprs && !trim(f, o->hooks != NULL, out, why)) {
        tgt_blob_free(out);
        ok = false;
    }

    LLVMDisposeBuilder(l.b);
    LLVMDisposeModule(l.module);
    LLVMContextDispose(ctx);
    return ok;
}
