/* SPDX-License-Identifier: Apache-2.0
 *
 * Emits lines of the tile IR as debug information. DWARF maps each instruction to a line of the
 * printed IR, which a section of the code object contains; the section is not loaded. LLVM's passes
 * ignore the lines, so instructions do not depend on them.
 */
#include <llvm-c/DebugInfo.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "targets/lower.h"

/* Sets the module flag `key` to `value`. */
static void add_flag(struct lower *l, const char *key, unsigned value)
{
    LLVMAddModuleFlag(l->module, LLVMModuleFlagBehaviorWarning, key, strlen(key),
                      LLVMValueAsMetadata(lower_i32(l, value)));
}

/* Returns assembler text that defines the section TGT_IR_SECTION with the text `ir`. The caller
 * frees it. Returns NULL if memory is exhausted. */
static char *section_of(const struct tgt_blob *ir)
{
    static const char head[] = ".section " TGT_IR_SECTION ",\"\",@progbits\n.ascii \"";
    char *const text = malloc(sizeof(head) + 2 * ir->size + 16);
    if (!text)
        return NULL;
    char *at = stpcpy(text, head);
    for (size_t i = 0; i < ir->size; i++) {
        const char c = (char)ir->data[i];
        if (c == '\n' || c == '"' || c == '\\')
            *at++ = '\\';
        *at++ = c == '\n' ? 'n' : c;
    }
    strcpy(at, "\"\n.text\n");
    return text;
}

void lower_lines_begin(struct lower *l, const struct tgt_blob *ir)
{
    char *const section = section_of(ir);
    if (!section) {
        lower_fail(l, "out of memory");
        return;
    }
    LLVMAppendModuleInlineAsm(l->module, section, strlen(section));
    free(section);

    char file_name[256];
    const char *const name = l->f->name;
    const int n = snprintf(file_name, sizeof(file_name), "%s.ir", name);
    add_flag(l, "Debug Info Version", LLVMDebugMetadataVersion());
    add_flag(l, "Dwarf Version", 5);
    l->di = LLVMCreateDIBuilder(l->module);
    LLVMMetadataRef file = LLVMDIBuilderCreateFile(l->di, file_name, (size_t)n, "", 0);
    LLVMDIBuilderCreateCompileUnit(l->di, LLVMDWARFSourceLanguageC11, file, "attnc", 5, true, "", 0,
                                   0, "", 0, LLVMDWARFEmissionLineTablesOnly, 0, false, false, "",
                                   0, "", 0);
    LLVMMetadataRef type = LLVMDIBuilderCreateSubroutineType(l->di, file, NULL, 0, LLVMDIFlagZero);
    l->scope = LLVMDIBuilderCreateFunction(l->di, file, name, strlen(name), name, strlen(name),
                                           file, 1, type, false, true, 1, LLVMDIFlagZero, true);
    LLVMSetSubprogram(l->kernel, l->scope);
    lower_line(l, 0);
}

void lower_line(struct lower *l, unsigned line)
{
    if (l->di)
        LLVMSetCurrentDebugLocation2(
            l->b, LLVMDIBuilderCreateDebugLocation(l->ctx, line, 0, l->scope, NULL));
}

void lower_lines_end(struct lower *l)
{
    if (!l->di)
        return;
    LLVMDIBuilderFinalize(l->di);
    LLVMDisposeDIBuilder(l->di);
}
