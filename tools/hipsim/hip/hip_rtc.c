/* SPDX-License-Identifier: Apache-2.0 */
/* hiprtc: programs, their name expressions and their results. */
#include "hip_rtc.h"

#include <stdlib.h>
#include <string.h>

#include "hip.h"

#include <hip/hiprtc.h> /* after hip.h, which defines the platform */

/* A program of hiprtc, before or after its compilation. */
struct _hiprtcProgram {
    struct hip_object object;
    pthread_mutex_t lock;
    struct rtc_source source;
    struct rtc_result result;
    bool tried; /* true: the program was compiled, which happens once */
};

/* Frees a program. */
static void destroy_program(struct hip_object *object)
{
    struct _hiprtcProgram *program = (struct _hiprtcProgram *)object;
    struct rtc_source *source = &program->source;

    for (size_t i = 0; i < source->nheaders; i++) {
        free(source->headers[i].name);
        free(source->headers[i].text);
    }
    for (size_t i = 0; i < source->nnames; i++) {
        free(source->names[i].expression);
        free(source->names[i].lowered);
    }
    free(source->headers);
    free(source->names);
    free(source->program.name);
    free(source->program.text);
    free(program->result.log);
    free(program->result.code);
    pthread_mutex_destroy(&program->lock);
    free(program);
}

/* Returns a reference to the program and locks it. NULL if there is no such program. */
static struct _hiprtcProgram *get(hiprtcProgram handle)
{
    struct _hiprtcProgram *program = hip_object_get(handle, HIP_RTC_PROGRAM);

    if (program)
        pthread_mutex_lock(&program->lock);
    return program;
}

/* Unlocks the program and drops the reference that get() has returned. */
static void put(struct _hiprtcProgram *program)
{
    pthread_mutex_unlock(&program->lock);
    hip_object_put(program);
}

/* Returns the result of `expression`, a hiprtc error. If the call cannot begin, because HIPSIM is
 * wrong, returns an internal error. */
#define RTC_CALL(name, expression) \
    (hip_enter(#name) == hipSuccess ? (expression) : HIPRTC_ERROR_INTERNAL_ERROR)

/* The functions from here on create and destroy programs. */

/* Copies a name and a text. False without memory. */
static bool copy_file(struct rtc_file *to, const char *name, const char *text)
{
    to->name = strdup(name ? name : "program");
    to->text = strdup(text);
    return to->name && to->text;
}

/* Copies a program and its headers. False without memory. */
static bool copy_source(struct rtc_source *to, const char *text, const char *name, size_t nheaders,
                        const char **headers, const char **names)
{
    bool copied = copy_file(&to->program, name, text);

    to->headers = calloc(nheaders + 1, sizeof(*to->headers));
    for (; copied && to->headers && to->nheaders < nheaders; to->nheaders++)
        copied = copy_file(&to->headers[to->nheaders], names[to->nheaders], headers[to->nheaders]);
    return copied && to->headers;
}

/* Creates a program from its source and headers. */
static hiprtcResult create(hiprtcProgram *handle, const char *text, const char *name, int nheaders,
                           const char **headers, const char **names)
{
    if (!handle || !text)
        return HIPRTC_ERROR_INVALID_PROGRAM;
    if (nheaders < 0 || (nheaders > 0 && (!headers || !names)))
        return HIPRTC_ERROR_INVALID_INPUT;
    for (int i = 0; i < nheaders; i++)
        if (!headers[i] || !names[i])
            return HIPRTC_ERROR_INVALID_INPUT;
    struct _hiprtcProgram *program = calloc(1, sizeof(*program));
    if (!program)
        return HIPRTC_ERROR_OUT_OF_MEMORY;
    pthread_mutex_init(&program->lock, NULL);
    if (!copy_source(&program->source, text, name, (size_t)nheaders, headers, names)) {
        destroy_program(&program->object);
        return HIPRTC_ERROR_OUT_OF_MEMORY;
    }
    hip_object_add(&program->object, HIP_RTC_PROGRAM, destroy_program);
    *handle = program;
    return HIPRTC_SUCCESS;
}

HIP_EXPORT hiprtcResult hiprtcCreateProgram(hiprtcProgram *program, const char *text,
                                            const char *name, int nheaders, const char **headers,
                                            const char **names)
{
    return RTC_CALL(hiprtcCreateProgram, create(program, text, name, nheaders, headers, names));
}

/* Destroys the program of a handle. */
static hiprtcResult destroy(hiprtcProgram *handle)
{
    if (!handle || !hip_object_remove(*handle, HIP_RTC_PROGRAM))
        return HIPRTC_ERROR_INVALID_INPUT;
    *handle = NULL;
    return HIPRTC_SUCCESS;
}

HIP_EXPORT hiprtcResult hiprtcDestroyProgram(hiprtcProgram *program)
{
    return RTC_CALL(hiprtcDestroyProgram, destroy(program));
}

/* Adds a name expression to a locked program that was not compiled yet. */
static hiprtcResult add_name_to(struct _hiprtcProgram *program, const char *expression)
{
    struct rtc_source *source = &program->source;

    if (program->tried)
        return HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION;
    struct rtc_name *names = realloc(source->names, (source->nnames + 1) * sizeof(*names));
    if (!names)
        return HIPRTC_ERROR_OUT_OF_MEMORY;
    source->names = names;
    names[source->nnames] = (struct rtc_name){.expression = strdup(expression)};
    if (!names[source->nnames].expression)
        return HIPRTC_ERROR_OUT_OF_MEMORY;
    source->nnames++;
    return HIPRTC_SUCCESS;
}

/* Adds a name expression to the program of a handle. */
static hiprtcResult add_name(hiprtcProgram handle, const char *expression)
{
    struct _hiprtcProgram *program = expression ? get(handle) : NULL;

    if (!program)
        return HIPRTC_ERROR_INVALID_INPUT;
    const hiprtcResult result = add_name_to(program, expression);
    put(program);
    return result;
}

HIP_EXPORT hiprtcResult hiprtcAddNameExpression(hiprtcProgram program, const char *expression)
{
    return RTC_CALL(hiprtcAddNameExpression, add_name(program, expression));
}

/* The functions from here on compile programs. */

/* Returns the architecture in an option; NULL if the option has none. */
static const char *arch_of(const char *option)
{
    static const char *const keys[] = {"--offload-arch=", "--gpu-architecture="};

    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
        if (strncmp(option, keys[i], strlen(keys[i])) == 0)
            return option + strlen(keys[i]);
    return NULL;
}

/* Compiles a locked program and finds the symbols of its name expressions. */
static hiprtcResult compile_locked(struct _hiprtcProgram *program, const char *arch,
                                   const char **options, size_t noptions)
{
    if (program->tried)
        return HIPRTC_ERROR_COMPILATION;
    program->tried = true;
    if (!rtc_compile(&program->source, arch, options, noptions, &program->result))
        return HIPRTC_ERROR_COMPILATION;
    const struct gfx_part *part = gfx_part_find(arch, strcspn(arch, ":"));
    const enum gfx_target target = part ? part->target : GFX942;
    if (program->source.nnames &&
        !rtc_lower_names(&program->source, target, program->result.code, program->result.code_size))
        return HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID;
    return HIPRTC_SUCCESS;
}

/* Compiles the program of a handle for the architecture in its options, or else the current
 * device's. */
static hiprtcResult compile(hiprtcProgram handle, int count, const char **options)
{
    const struct hip_device *device = hip_current_device();
    const char *arch = device ? device->facts->arch : "gfx942";
    size_t kept = 0;

    if (count < 0 || (count > 0 && !options))
        return HIPRTC_ERROR_INVALID_INPUT;
    const char **others = calloc((size_t)count + 1, sizeof(*others));
    struct _hiprtcProgram *program = others ? get(handle) : NULL;
    if (!program) {
        free(others);
        return others ? HIPRTC_ERROR_INVALID_PROGRAM : HIPRTC_ERROR_OUT_OF_MEMORY;
    }
    for (int i = 0; i < count; i++) {
        const char *named = options[i] ? arch_of(options[i]) : NULL;
        if (named)
            arch = named;
        else if (options[i] && options[i][0])
            others[kept++] = options[i];
    }
    const hiprtcResult result = compile_locked(program, arch, others, kept);
    put(program);
    free(others);
    return result;
}

HIP_EXPORT hiprtcResult hiprtcCompileProgram(hiprtcProgram program, int count, const char **options)
{
    return RTC_CALL(hiprtcCompileProgram, compile(program, count, options));
}

/* The functions from here on give the results of a compilation. */

/* Sets *lowered to the symbol of a name expression. */
static hiprtcResult lowered_name(hiprtcProgram handle, const char *expression, const char **lowered)
{
    struct _hiprtcProgram *program = expression && lowered ? get(handle) : NULL;
    hiprtcResult result = HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID;

    if (!program)
        return HIPRTC_ERROR_INVALID_INPUT;
    if (!program->result.code)
        result = HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION;
    for (size_t i = 0; program->result.code && i < program->source.nnames; i++) {
        const struct rtc_name *name = &program->source.names[i];
        if (name->lowered && strcmp(name->expression, expression) == 0) {
            *lowered = name->lowered;
            result = HIPRTC_SUCCESS;
        }
    }
    put(program);
    return result;
}

HIP_EXPORT hiprtcResult hiprtcGetLoweredName(hiprtcProgram program, const char *expression,
                                             const char **lowered)
{
    return RTC_CALL(hiprtcGetLoweredName, lowered_name(program, expression, lowered));
}

/* Sets *size to the bytes of the log (`log`) or of the code, and copies them to `to`. Either
 * pointer may be NULL. */
static hiprtcResult give(hiprtcProgram handle, bool log, size_t *size, char *to)
{
    struct _hiprtcProgram *program = size || to ? get(handle) : NULL;

    if (!program)
        return HIPRTC_ERROR_INVALID_INPUT;
    const struct rtc_result *r = &program->result;
    const char *from = log ? (r->log ? r->log : "") : r->code;
    const size_t bytes = log ? strlen(from) + 1 : r->code_size;
    if (from && size)
        *size = bytes;
    if (from && to)
        memcpy(to, from, bytes);
    put(program);
    return from ? HIPRTC_SUCCESS : HIPRTC_ERROR_INVALID_PROGRAM;
}

HIP_EXPORT hiprtcResult hiprtcGetProgramLog(hiprtcProgram program, char *log)
{
    return RTC_CALL(hiprtcGetProgramLog, give(program, true, NULL, log));
}

HIP_EXPORT hiprtcResult hiprtcGetProgramLogSize(hiprtcProgram program, size_t *size)
{
    return RTC_CALL(hiprtcGetProgramLogSize, give(program, true, size, NULL));
}

HIP_EXPORT hiprtcResult hiprtcGetCode(hiprtcProgram program, char *code)
{
    return RTC_CALL(hiprtcGetCode, give(program, false, NULL, code));
}

HIP_EXPORT hiprtcResult hiprtcGetCodeSize(hiprtcProgram program, size_t *size)
{
    return RTC_CALL(hiprtcGetCodeSize, give(program, false, size, NULL));
}

HIP_EXPORT hiprtcResult hiprtcVersion(int *major, int *minor)
{
    if (!major || !minor)
        return HIPRTC_ERROR_INVALID_INPUT;
    *major = 9; /* version of HIP's hiprtc */
    *minor = 0;
    return HIPRTC_SUCCESS;
}

HIP_EXPORT const char *hiprtcGetErrorString(hiprtcResult result)
{
    static const char *const names[] = {
        "HIPRTC_SUCCESS",
        "HIPRTC_ERROR_OUT_OF_MEMORY",
        "HIPRTC_ERROR_PROGRAM_CREATION_FAILURE",
        "HIPRTC_ERROR_INVALID_INPUT",
        "HIPRTC_ERROR_INVALID_PROGRAM",
        "HIPRTC_ERROR_INVALID_OPTION",
        "HIPRTC_ERROR_COMPILATION",
        "HIPRTC_ERROR_BUILTIN_OPERATION_FAILURE",
        "HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION",
        "HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION",
        "HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID",
        "HIPRTC_ERROR_INTERNAL_ERROR",
    };

    return (size_t)result < sizeof(names) / sizeof(*names) ? names[result] : "unknown error";
}
