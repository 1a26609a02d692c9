/* SPDX-License-Identifier: Apache-2.0 */
/* Modules and functions, and queries about functions. */
#include "hip_order.h"

#include <stdlib.h>
#include <string.h>

#include "bundle.h"
#include "hip_entry.h"
#include "hip_patch.h"
#include "source_line.h"

/* A __managed__ variable of a module, in memory that the host can access. */
struct managed_variable {
    char *name;
    void *memory;
    size_t size;
};

/* Frees a module. */
static void destroy_module(struct hip_object *object)
{
    struct ihipModule_t *module = (struct ihipModule_t *)object;

    for (size_t i = 0; i < module->nmanaged; i++) {
        hipsim_mem_free(module->managed[i].memory);
        free(module->managed[i].name);
    }
    free(module->managed);
    code_object_destroy(module->code);
    source_lines_destroy(module->lines);
    pthread_mutex_destroy(&module->lock);
    free(module);
}

hipError_t hip_module_from_status(enum code_object_status status, const char *why)
{
    switch (status) {
    case CODE_OBJECT_OK: return hipSuccess;
    case CODE_OBJECT_OTHER_TARGET: return hip_fail(hipErrorNoBinaryForGpu, "%s", why);
    case CODE_OBJECT_OUT_OF_MEMORY: return hip_fail(hipErrorOutOfMemory, "%s", why);
    case CODE_OBJECT_INVALID: break;
    }
    return hip_fail(hipErrorInvalidImage, "%s", why);
}

hipError_t hip_module_read(const char *path, const void *memory, struct image *image)
{
    char why[600];
    const enum code_object_status status = path
                                               ? image_from_file(path, image, why, sizeof(why))
                                               : image_from_memory(memory, image, why, sizeof(why));

    if (status != CODE_OBJECT_OK && path && !image->data)
        return hip_fail(hipErrorFileNotFound, "%s", why);
    return hip_module_from_status(status, why);
}

hipError_t hip_module_create(struct image *image, struct hip_device *device,
                             struct ihipModule_t **out)
{
    char why[600] = "";
    struct code_object *code = NULL;
    enum code_object_status status = image_select(image, device->facts->target, why, sizeof(why));

    *out = NULL;
    if (status == CODE_OBJECT_OK)
        status = code_object_load(image->data, image->size, device->facts->target,
                                  (unsigned)device->ordinal, &code, why, sizeof(why));
    if (status != CODE_OBJECT_OK)
        return hip_module_from_status(status, why);
    if (!code->has_metadata) {
        code_object_destroy(code);
        return hip_fail(hipErrorNoBinaryForGpu,
                        "the code object has no metadata note, without which HIP on hardware does "
                        "not load it");
    }
    bool fits = hipsim_mem_in_use((unsigned)device->ordinal) <= device->memory_bytes;
    struct ihipModule_t *module = fits ? calloc(1, sizeof(*module)) : NULL;
    if (!module) {
        code_object_destroy(code);
        return hipErrorOutOfMemory;
    }
    hip_patch_apply(code);
    module->code = code;
    module->lines = source_lines_create(image->data, image->size);
    pthread_mutex_init(&module->lock, NULL);
    hip_object_add(&module->object, HIP_MODULE, destroy_module);
    *out = module;
    return hipSuccess;
}

/* The functions from here on find and manage a module's variables. */

/* Allocates a __managed__ variable x. Clang emits its initial value as x.managed (`initial`), and a
 * pointer x. */
static hipError_t manage(struct ihipModule_t *module, const struct global_variable *initial,
                         size_t name_length)
{
    char *name = strndup(initial->name, name_length);
    const struct global_variable *pointer = name ? code_object_variable(module->code, name) : NULL;
    const struct hipsim_mem_request request = {
        .size = initial->size, .kind = HIPSIM_MEM_MANAGED, .device = module->code->device};

    if (!pointer || pointer->size != sizeof(void *)) {
        free(name);
        return name ? hipSuccess : hipErrorOutOfMemory;
    }
    void *memory = hipsim_mem_alloc(&request);
    if (!memory) {
        free(name);
        return hipErrorOutOfMemory;
    }
    memcpy(memory, (const void *)(uintptr_t)initial->address, initial->size);
    memcpy((void *)(uintptr_t)pointer->address, &memory, sizeof(memory));
    module->managed[module->nmanaged++] =
        (struct managed_variable){.name = name, .memory = memory, .size = initial->size};
    return hipSuccess;
}

hipError_t hip_module_manage(struct ihipModule_t *module)
{
    static const char suffix[] = ".managed";
    const struct code_object *code = module->code;
    hipError_t error = hipSuccess;

    module->managed = calloc(code->nvariables + 1, sizeof(*module->managed));
    if (!module->managed)
        return hipErrorOutOfMemory;
    for (size_t i = 0; error == hipSuccess && i < code->nvariables; i++) {
        const struct global_variable *v = &code->variables[i];
        const size_t length = strlen(v->name);
        if (v->size && length >= sizeof(suffix) &&
            strcmp(v->name + length - (sizeof(suffix) - 1), suffix) == 0)
            error = manage(module, v, length - (sizeof(suffix) - 1));
    }
    return error;
}

bool hip_module_variable(const struct ihipModule_t *module, const char *name, bool managed,
                         void **address, size_t *size)
{
    const struct global_variable *v = managed ? NULL : code_object_variable(module->code, name);
    void *at = v ? (void *)(uintptr_t)v->address : NULL;
    size_t bytes = v ? v->size : 0;

    for (size_t i = 0; i < module->nmanaged; i++) {
        if (strcmp(module->managed[i].name, name) != 0)
            continue;
        at = module->managed[i].memory;
        bytes = module->managed[i].size;
    }
    if (at && address)
        *address = at;
    if (at && size)
        *size = bytes;
    return at != NULL;
}

/* The functions from here on find a module's functions, and unload it. */

/* Frees a function. */
static void destroy_function(struct hip_object *object)
{
    struct ihipModuleSymbol_t *function = (struct ihipModuleSymbol_t *)object;

    hip_object_put(function->module);
    free(function);
}

/* True if the metadata has the kernel. HIP's runtime finds kernels only there (clr,
 * createKernelMetadataMap). */
static bool is_in_metadata(const struct kernel *kernel)
{
    return kernel->metadata.name && strcmp(kernel->metadata.name, kernel->name) == 0;
}

struct ihipModuleSymbol_t *hip_module_function(struct ihipModule_t *module, const char *name)
{
    const struct kernel *kernel = code_object_kernel(module->code, name);
    struct ihipModuleSymbol_t *function;

    if (!kernel || !is_in_metadata(kernel))
        return NULL;
    pthread_mutex_lock(&module->lock);
    for (function = module->functions; function; function = function->next)
        if (function->kernel == kernel)
            break;
    if (!function && (function = calloc(1, sizeof(*function)))) {
        function->module = module;
        function->kernel = kernel;
        hip_object_ref(module);
        hip_object_add(&function->object, HIP_FUNCTION, destroy_function);
        function->next = module->functions;
        module->functions = function;
    }
    if (function)
        hip_object_ref(function);
    pthread_mutex_unlock(&module->lock);
    return function;
}

/* Unloads a module. A function refers to its module, so the functions' handles are removed first.
 * Work that still uses a function, such as a graph, keeps the code in memory. */
void hip_module_unload(struct ihipModule_t *module)
{
    hip_order_drain();
    pthread_mutex_lock(&module->lock);
    struct ihipModuleSymbol_t *function = module->functions;
    module->functions = NULL;
    pthread_mutex_unlock(&module->lock);
    while (function) {
        struct ihipModuleSymbol_t *next = function->next;
        hip_object_remove(function, HIP_FUNCTION);
        function = next;
    }
    hip_object_remove(module, HIP_MODULE);
}

/* Unloads the module of a handle. */
static hipError_t unload(hipModule_t handle)
{
    struct ihipModule_t *module = hip_object_get(handle, HIP_MODULE);

    if (!module)
        return hip_fail(hipErrorInvalidHandle, "the module handle %p is invalid", (void *)handle);
    hip_module_unload(module);
    hip_object_put(module);
    return hipSuccess;
}

HIP_EXPORT hipError_t hipModuleUnload(hipModule_t module)
{
    return HIP_CALL(hipModuleUnload, unload(module));
}

/* Loads a module from a file, or from memory if `path` is NULL. */
static hipError_t load(hipModule_t *module, const char *path, const void *memory)
{
    struct hip_device *device = hip_current_device();
    struct image image;

    if (!module || (!path && !memory))
        return hipErrorInvalidValue;
    if (!device)
        return hipErrorNoDevice;
    hipError_t error = hip_module_read(path, memory, &image);
    if (error == hipSuccess)
        error = hip_module_create(&image, device, module);
    if (error == hipSuccess)
        error = hip_module_manage(*module);
    image_release(&image);
    return error;
}

HIP_EXPORT hipError_t hipModuleLoad(hipModule_t *module, const char *path)
{
    return HIP_CALL(hipModuleLoad, load(module, path, NULL));
}

HIP_EXPORT hipError_t hipModuleLoadData(hipModule_t *module, const void *image)
{
    return HIP_CALL(hipModuleLoadData, load(module, NULL, image));
}

hipError_t hipModuleLoadFatBinary(hipModule_t *module, const void *image);

HIP_EXPORT hipError_t hipModuleLoadFatBinary(hipModule_t *module, const void *image)
{
    return HIP_CALL(hipModuleLoadFatBinary, load(module, NULL, image));
}

/* Loads a module. The options have no effect: they are for a just-in-time compiler, which machine
 * code does not need. */
HIP_EXPORT hipError_t hipModuleLoadDataEx(hipModule_t *module, const void *image,
                                          unsigned int count, hipJitOption *options, void **values)
{
    (void)count;
    (void)options;
    (void)values;
    return HIP_CALL(hipModuleLoadDataEx, load(module, NULL, image));
}

/* Sets *function to the module's kernel with the name. */
static hipError_t get_function(hipFunction_t *function, hipModule_t handle, const char *name)
{
    if (!function || !name)
        return hipErrorInvalidValue;
    struct ihipModule_t *module = hip_object_get(handle, HIP_MODULE);
    if (!module)
        return hip_fail(hipErrorInvalidHandle, "the module handle %p is invalid", (void *)handle);
    struct ihipModuleSymbol_t *found = hip_module_function(module, name);
    const struct kernel *kernel = code_object_kernel(module->code, name);
    const bool unnamed = kernel && !is_in_metadata(kernel);
    hip_object_put(module);
    if (!found)
        return hip_fail(hipErrorNotFound,
                        unnamed ? "kernel %.200s has no metadata: HIP on hardware does not find it"
                                : "the module has no kernel named %.200s",
                        name);
    *function = found;
    hip_object_put(found); /* the module's entry in the registry references it */
    return hipSuccess;
}

HIP_EXPORT hipError_t hipModuleGetFunction(hipFunction_t *function, hipModule_t module,
                                           const char *name)
{
    return HIP_CALL(hipModuleGetFunction, get_function(function, module, name));
}

/* Sets *count to the number of the module's kernels. */
static hipError_t count_functions(unsigned *count, hipModule_t handle)
{
    struct ihipModule_t *module = hip_object_get(handle, HIP_MODULE);

    if (!count || !module) {
        hip_object_put(module);
        return count ? hipErrorInvalidHandle : hipErrorInvalidValue;
    }
    *count = (unsigned)module->code->nkernels;
    hip_object_put(module);
    return hipSuccess;
}

hipError_t hipModuleGetFunctionCount(unsigned int *count, hipModule_t module);

HIP_EXPORT hipError_t hipModuleGetFunctionCount(unsigned int *count, hipModule_t module)
{
    return HIP_CALL(hipModuleGetFunctionCount, count_functions(count, module));
}

/* Sets the address and size of the module's variable with the name. */
static hipError_t get_global(hipDeviceptr_t *address, size_t *size, hipModule_t handle,
                             const char *name)
{
    if (!name || (!address && !size))
        return hipErrorInvalidValue;
    struct ihipModule_t *module = hip_object_get(handle, HIP_MODULE);
    if (!module)
        return hip_fail(hipErrorInvalidHandle, "the module handle %p is invalid", (void *)handle);
    const bool found = hip_module_variable(module, name, false, address, size);
    hip_object_put(module);
    return found ? hipSuccess
                 : hip_fail(hipErrorNotFound, "the module has no variable named %.200s", name);
}

HIP_EXPORT hipError_t hipModuleGetGlobal(hipDeviceptr_t *address, size_t *size, hipModule_t module,
                                         const char *name)
{
    return HIP_CALL(hipModuleGetGlobal, get_global(address, size, module, name));
}

/* The functions from here on give attributes of functions. */

hipError_t hip_any_function(const void *handle, struct ihipModuleSymbol_t **function)
{
    return hip_function_on(handle, hip_current_device(), function);
}

hipError_t hip_function_on(const void *handle, struct hip_device *device,
                           struct ihipModuleSymbol_t **function)
{
    *function = hip_object_get(handle, HIP_FUNCTION);
    if (*function || (device && hip_kernel_function(handle, device, function) == hipSuccess))
        return hipSuccess;
    return device ? hip_registered_function(handle, device, function) : hipErrorNoDevice;
}

/* Returns the largest number of work-items in a workgroup of the kernel. */
static int max_threads(const struct kernel *kernel)
{
    uint32_t stated = kernel->metadata.max_workgroup;

    return stated && stated < 1024 ? (int)stated : 1024;
}

/* Returns the largest size of dynamic LDS of the function, in bytes. */
static int max_dynamic_lds(const struct ihipModuleSymbol_t *function)
{
    struct hip_device *device = hip_device((int)function->module->code->device);
    uint32_t fixed = function->kernel->descriptor.group_segment_bytes;

    return fixed < device->facts->lds_bytes ? (int)(device->facts->lds_bytes - fixed) : 0;
}

hipError_t hip_function_attribute(int *value, hipFunction_attribute attribute,
                                  const struct ihipModuleSymbol_t *function)
{
    const struct kernel *kernel = function->kernel;

    switch (attribute) {
    case HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = max_threads(kernel); return hipSuccess;
    case HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *value = (int)kernel->descriptor.group_segment_bytes;
        return hipSuccess;
    case HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        *value = (int)kernel->descriptor.private_segment_bytes;
        return hipSuccess;
    case HIP_FUNC_ATTRIBUTE_NUM_REGS:
        *value = (int)(kernel->vgprs + kernel->agprs);
        return hipSuccess;
    case HIP_FUNC_ATTRIBUTE_BINARY_VERSION:
    case HIP_FUNC_ATTRIBUTE_PTX_VERSION:
        *value = isa_of(kernel->object->target)->capability;
        return hipSuccess;
    case HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = max_dynamic_lds(function);
        return hipSuccess;
    case HIP_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
    case HIP_FUNC_ATTRIBUTE_CACHE_MODE_CA:
    case HIP_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: *value = 0; return hipSuccess;
    default: return hipErrorInvalidValue;
    }
}

/* Sets *value to one attribute of a function. */
static hipError_t function_attribute(int *value, hipFunction_attribute attribute,
                                     hipFunction_t handle)
{
    if (!value)
        return hipErrorInvalidValue;
    struct ihipModuleSymbol_t *function = hip_object_get(handle, HIP_FUNCTION);
    if (!function)
        return hipErrorInvalidDeviceFunction;
    hipError_t error = hip_function_attribute(value, attribute, function);
    hip_object_put(function);
    return error;
}

HIP_EXPORT hipError_t hipFuncGetAttribute(int *value, hipFunction_attribute attribute,
                                          hipFunction_t function)
{
    return HIP_CALL(hipFuncGetAttribute, function_attribute(value, attribute, function));
}

/* Sets *attributes to the attributes of a function. */
static hipError_t function_attributes(struct hipFuncAttributes *attributes, const void *handle)
{
    struct ihipModuleSymbol_t *function;

    if (!attributes)
        return hipErrorInvalidValue;
    hipError_t error = hip_any_function(handle, &function);
    if (error != hipSuccess)
        return error;
    const struct kernel *kernel = function->kernel;
    *attributes = (struct hipFuncAttributes){
        .binaryVersion = isa_of(kernel->object->target)->capability,
        .localSizeBytes = kernel->descriptor.private_segment_bytes,
        .maxDynamicSharedSizeBytes = max_dynamic_lds(function),
        .maxThreadsPerBlock = max_threads(kernel),
        .numRegs = (int)(kernel->vgprs + kernel->agprs),
        .ptxVersion = isa_of(kernel->object->target)->capability,
        .sharedSizeBytes = kernel->descriptor.group_segment_bytes,
    };
    hip_object_put(function);
    return hipSuccess;
}

HIP_EXPORT hipError_t hipFuncGetAttributes(struct hipFuncAttributes *attributes,
                                           const void *function)
{
    return HIP_CALL(hipFuncGetAttributes, function_attributes(attributes, function));
}

/* Sets an attribute. It has no effect: all of LDS may be dynamic without a request, so the value is
 * only checked. */
static hipError_t set_attribute(const void *handle, hipFuncAttribute attribute, int value)
{
    struct ihipModuleSymbol_t *function;
    hipError_t error = hip_any_function(handle, &function);

    if (error != hipSuccess)
        return error;
    if (attribute == hipFuncAttributeMaxDynamicSharedMemorySize &&
        (value < 0 || value > max_dynamic_lds(function)))
        error = hip_fail(hipErrorInvalidValue, "%d bytes of dynamic LDS exceed the %d left", value,
                         max_dynamic_lds(function));
    else if ((unsigned)attribute >= hipFuncAttributeMax)
        error = hipErrorInvalidValue;
    hip_object_put(function);
    return error;
}

HIP_EXPORT hipError_t hipFuncSetAttribute(const void *function, hipFuncAttribute attribute,
                                          int value)
{
    return HIP_CALL(hipFuncSetAttribute, set_attribute(function, attribute, value));
}

/* Checks the function of a setting that has no effect here. */
static hipError_t ignore_setting(const void *handle)
{
    struct ihipModuleSymbol_t *function;
    hipError_t error = hip_any_function(handle, &function);

    if (error == hipSuccess)
        hip_object_put(function);
    return error;
}

HIP_EXPORT hipError_t hipFuncSetCacheConfig(const void *function, hipFuncCache_t config)
{
    (void)config;
    return HIP_CALL(hipFuncSetCacheConfig, ignore_setting(function));
}

HIP_EXPORT hipError_t hipFuncSetSharedMemConfig(const void *function, hipSharedMemConfig config)
{
    (void)config;
    return HIP_CALL(hipFuncSetSharedMemConfig, ignore_setting(function));
}

HIP_EXPORT const char *hipKernelNameRef(const hipFunction_t handle)
{
    const char *name = NULL;

    if (hip_enter("hipKernelNameRef") != hipSuccess)
        return NULL;
    struct ihipModuleSymbol_t *function = hip_object_get(handle, HIP_FUNCTION);
    if (function)
        name = function->kernel->name;
    hip_object_put(function);
    return name;
}

/* The functions from here on find the API's entry points by name. */

enum entry_found { ENTRY_FOUND, ENTRY_UNKNOWN }; /* hipDriverProcAddressQueryResult */

hipError_t hipGetProcAddress(const char *name, void **function, int version, uint64_t flags,
                             enum entry_found *found);

/* Sets *function to the entry point `name` for a HIP version; sets *found, unless it is NULL, to
 * whether it exists. */
static hipError_t get_entry(const char *name, void **function, int version, enum entry_found *found)
{
    if (!name || !function)
        return hipErrorInvalidValue;
    *function = hip_entry_point(name, version);
    if (found)
        *found = *function ? ENTRY_FOUND : ENTRY_UNKNOWN;
    return *function ? hipSuccess : hipErrorNotFound;
}

/* Finds an entry point. The flags select forms for the null stream or the thread's own stream, as
 * their names do. */
HIP_EXPORT hipError_t hipGetProcAddress(const char *name, void **function, int version,
                                        uint64_t flags, enum entry_found *found)
{
    (void)flags;
    return HIP_CALL(hipGetProcAddress, get_entry(name, function, version, found));
}
