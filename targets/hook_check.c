/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds variables in the bitcode of a hook that keep their value between calls. Calls of a hook run
 * in parallel, so such variables are refused.
 */
#include <llvm-c/BitReader.h>
#include <llvm-c/Core.h>
#include <llvm-c/DebugInfo.h>

#include <stdio.h>
#include <string.h>

#include "targets/codegen.h"

/* Returns the line of a global variable's declaration; 0 if the module has no debug information. */
static unsigned line_of(LLVMValueRef global)
{
    size_t count;
    unsigned line = 0;
    LLVMValueMetadataEntry *entries = LLVMGlobalCopyAllMetadata(global, &count);
    for (size_t i = 0; i < count && !line; i++) {
        LLVMMetadataRef m = LLVMValueMetadataEntriesGetMetadata(entries, (unsigned)i);
        if (LLVMGetMetadataKind(m) == LLVMDIGlobalVariableExpressionMetadataKind)
            line = LLVMDIVariableGetLine(LLVMDIGlobalVariableExpressionGetVariable(m));
    }
    LLVMDisposeValueMetadataEntries(entries);
    return line;
}

/* Sets *v to the first global variable of a hook's module that is no constant. Returns false if
 * there is none. */
static bool find_variable(LLVMModuleRef module, struct tgt_hook_variable *v)
{
    LLVMValueRef g = LLVMGetFirstGlobal(module);
    for (; g; g = LLVMGetNextGlobal(g)) {
        size_t length;
        const char *name = LLVMGetValueName2(g, &length);
        if (LLVMIsGlobalConstant(g) || strncmp(name, "llvm.", 5) == 0)
            continue;
        /* static variables of a function are called FUNCTION.VARIABLE */
        const char *dot = strrchr(name, '.');
        snprintf(v->name, sizeof(v->name), "%s", dot ? dot + 1 : name);
        v->line = line_of(g);
        return true;
    }
    return false;
}

bool tgt_find_hook_variable(const struct tgt_blob *bitcode, struct tgt_hook_variable *v)
{
    bool found = false;
    LLVMModuleRef module;
    LLVMContextRef ctx = LLVMContextCreate();
    LLVMMemoryBufferRef bytes = LLVMCreateMemoryBufferWithMemoryRangeCopy(
        (const char *)bitcode->data, bitcode->size, "hook");
    if (!LLVMParseBitcodeInContext2(ctx, bytes, &module)) {
        found = find_variable(module, v);
        LLVMDisposeModule(module);
    }
    LLVMDisposeMemoryBuffer(bytes);
    LLVMContextDispose(ctx);
    return found;
}
