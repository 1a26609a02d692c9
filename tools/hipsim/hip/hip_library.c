/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Libraries of HIP 7: code that belongs to no device. It is loaded for a device at the first use
 * there. A kernel's handle means the function of the current device.
 */
#include "hip.h"

#include <stdlib.h>
#include <string.h>

#include "bundle.h"

typedef struct ihipLibrary_t *hipLibrary_t;
typedef struct ihipKernel_t *hipKernel_t;

/* A kernel of a library, whatever the device. */
struct ihipKernel_t {
    struct hip_object object;
    struct ihipLibrary_t *library; /* library, referenced until it is unloaded */
    char *name;
    struct ihipKernel_t *next;
};

/* A library: an image, and the modules that devices have loaded from it. */
struct ihipLibrary_t {
    struct hip_object object;
    struct image image;
    pthread_mutex_t lock;
    struct ihipModule_t *modules[HIP_MAX_DEVICES]; /* modules by device; need `lock` */
    /* kernels that were requested so far; needs `lock` */
    struct ihipKernel_t *kernels;
};

hipError_t hipLibraryLoadData(hipLibrary_t *library, const void *code, hipJitOption *jit,
                              void **jit_values, unsigned jit_count, void *options, void **values,
                              unsigned count);
hipError_t hipLibraryLoadFromFile(hipLibrary_t *library, const char *path, hipJitOption *jit,
                                  void **jit_values, unsigned jit_count, void *options,
                                  void **values, unsigned count);
hipError_t hipLibraryUnload(hipLibrary_t library);
hipError_t hipLibraryGetKernel(hipKernel_t *kernel, hipLibrary_t library, const char *name);
hipError_t hipLibraryGetKernelCount(unsigned *count, hipLibrary_t library);
hipError_t hipLibraryEnumerateKernels(hipKernel_t *kernels, unsigned count, hipLibrary_t library);
hipError_t hipLibraryGetGlobal(void **address, size_t *size, hipLibrary_t library,
                               const char *name);
hipError_t hipLibraryGetManaged(void **address, size_t *size, hipLibrary_t library,
                                const char *name);
hipError_t hipKernelGetLibrary(hipLibrary_t *library, hipKernel_t kernel);
hipError_t hipKernelGetName(const char **name, hipKernel_t kernel);
hipError_t hipKernelGetFunction(hipFunction_t *function, hipKernel_t kernel);
hipError_t hipKernelGetParamInfo(hipKernel_t kernel, size_t index, size_t *offset, size_t *size);
hipError_t hipKernelGetAttribute(int *value, hipFunction_attribute attribute, hipKernel_t kernel,
                                 hipDevice_t device);
hipError_t hipKernelSetAttribute(hipFunction_attribute attribute, int value, hipKernel_t kernel,
                                 hipDevice_t device);

/* Frees a kernel handle. */
static void destroy_kernel(struct hip_object *object)
{
    struct ihipKernel_t *kernel = (struct ihipKernel_t *)object;

    hip_object_put(kernel->library);
    free(kernel->name);
    free(kernel);
}

/* Frees a library. */
static void destroy_library(struct hip_object *object)
{
    struct ihipLibrary_t *library = (struct ihipLibrary_t *)object;

    for (unsigned i = 0; i < HIP_MAX_DEVICES; i++)
        if (library->modules[i])
            hip_module_unload(library->modules[i]);
    image_release(&library->image);
    pthread_mutex_destroy(&library->lock);
    free(library);
}

/* Returns the error for an invalid handle, with a message. `what` is its kind. */
static hipError_t invalid(const char *what, const void *handle)
{
    return hip_fail(hipErrorInvalidHandle, "the %s handle %p is invalid", what, handle);
}

/* The functions from here on load and unload libraries. */

/* Sets *module to the library's module on a device, which the first use makes. The library owns
 * it. */
static hipError_t module_on(struct ihipLibrary_t *library, struct hip_device *device,
                            struct ihipModule_t **module)
{
    hipError_t error = hipSuccess;

    if (!device)
        return hipErrorNoDevice;
    pthread_mutex_lock(&library->lock);
    struct ihipModule_t **slot = &library->modules[device->ordinal];
    if (!*slot) {
        struct image view = library->image;
        view.owned = NULL;
        error = hip_module_create(&view, device, slot);
        if (error == hipSuccess)
            error = hip_module_manage(*slot);
        image_release(&view);
    }
    *module = *slot;
    pthread_mutex_unlock(&library->lock);
    return error;
}

/* Creates a library. If it has code for no visible device, that is an error at once, as for
 * modules. */
static hipError_t create(hipLibrary_t *handle, struct image *image)
{
    struct ihipModule_t *module;
    struct ihipLibrary_t *library = calloc(1, sizeof(*library));

    if (!library)
        return hipErrorOutOfMemory;
    library->image = *image;
    image->owned = NULL;
    pthread_mutex_init(&library->lock, NULL);
    const hipError_t error = module_on(library, hip_current_device(), &module);
    if (error != hipSuccess) {
        destroy_library(&library->object);
        return error;
    }
    hip_object_add(&library->object, HIP_LIBRARY, destroy_library);
    *handle = library;
    return hipSuccess;
}

/* Loads a library from a file, or from memory if `path` is NULL. */
static hipError_t load(hipLibrary_t *handle, const char *path, const void *memory)
{
    struct image image;

    if (!handle || (!path && !memory))
        return hipErrorInvalidValue;
    hipError_t error = hip_module_read(path, memory, &image);
    if (error == hipSuccess)
        error = create(handle, &image);
    image_release(&image);
    return error;
}

/* Loads a library. The options have no effect: they are for a just-in-time compiler, or about
 * whether the code is kept, which it always is. */
HIP_EXPORT hipError_t hipLibraryLoadData(hipLibrary_t *library, const void *code, hipJitOption *jit,
                                         void **jit_values, unsigned jit_count, void *options,
                                         void **values, unsigned count)
{
    (void)jit, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count;
    return HIP_CALL(hipLibraryLoadData, load(library, NULL, code));
}

HIP_EXPORT hipError_t hipLibraryLoadFromFile(hipLibrary_t *library, const char *path,
                                             hipJitOption *jit, void **jit_values,
                                             unsigned jit_count, void *options, void **values,
                                             unsigned count)
{
    (void)jit, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count;
    return HIP_CALL(hipLibraryLoadFromFile, load(library, path, NULL));
}

/* Unloads the library of a handle. */
static hipError_t unload(hipLibrary_t handle)
{
    struct ihipLibrary_t *library = hip_object_get(handle, HIP_LIBRARY);

    if (!library || !hip_object_remove(library, HIP_LIBRARY)) {
        hip_object_put(library);
        return invalid("library", handle);
    }
    pthread_mutex_lock(&library->lock);
    struct ihipKernel_t *kernel = library->kernels;
    library->kernels = NULL;
    pthread_mutex_unlock(&library->lock);
    while (kernel) {
        struct ihipKernel_t *next = kernel->next;
        hip_object_remove(kernel, HIP_KERNEL);
        kernel = next;
    }
    hip_object_put(library);
    return hipSuccess;
}

HIP_EXPORT hipError_t hipLibraryUnload(hipLibrary_t library)
{
    return HIP_CALL(hipLibraryUnload, unload(library));
}

/* The functions from here on find a library's kernels. */

/* Returns the handle of the kernel `name`, always the same one. The caller has locked the
 * library. */
static struct ihipKernel_t *kernel_named(struct ihipLibrary_t *library, const char *name)
{
    struct ihipKernel_t *kernel = library->kernels;

    while (kernel && strcmp(kernel->name, name) != 0)
        kernel = kernel->next;
    if (kernel)
        return kernel;
    kernel = calloc(1, sizeof(*kernel));
    if (!kernel || !(kernel->name = strdup(name))) {
        free(kernel);
        return NULL;
    }
    kernel->library = library;
    hip_object_ref(library);
    kernel->next = library->kernels;
    library->kernels = kernel;
    hip_object_add(&kernel->object, HIP_KERNEL, destroy_kernel);
    return kernel;
}

/* Stores the handles of the library's first kernels, `count` at most. */
static hipError_t enumerate_kernels(struct ihipLibrary_t *library, hipKernel_t *kernels,
                                    unsigned count)
{
    struct ihipModule_t *module;
    hipError_t error = module_on(library, hip_current_device(), &module);

    if (error != hipSuccess)
        return error;
    pthread_mutex_lock(&library->lock);
    for (unsigned i = 0; i < count && i < module->code->nkernels && error == hipSuccess; i++) {
        kernels[i] = kernel_named(library, module->code->kernels[i].name);
        error = kernels[i] ? hipSuccess : hipErrorOutOfMemory;
    }
    pthread_mutex_unlock(&library->lock);
    return error;
}

/* Stores the handle of the library's kernel `name`. */
static hipError_t find_kernel(struct ihipLibrary_t *library, const char *name, hipKernel_t *kernel)
{
    struct ihipModule_t *module;
    const hipError_t error = module_on(library, hip_current_device(), &module);

    if (error != hipSuccess)
        return error;
    struct ihipModuleSymbol_t *function = hip_module_function(module, name);
    if (!function)
        return hip_fail(hipErrorNotFound, "the library has no kernel named %.200s", name);
    hip_object_put(function);
    pthread_mutex_lock(&library->lock);
    *kernel = kernel_named(library, name);
    pthread_mutex_unlock(&library->lock);
    return *kernel ? hipSuccess : hipErrorOutOfMemory;
}

/* Stores the handle of the kernel `name` in kernels[0]. Without a name, stores the handles of the
 * library's first kernels, `count` at most. */
static hipError_t get_kernels(hipLibrary_t handle, const char *name, hipKernel_t *kernels,
                              unsigned count)
{
    if (!kernels)
        return hipErrorInvalidValue;
    struct ihipLibrary_t *library = hip_object_get(handle, HIP_LIBRARY);
    if (!library)
        return invalid("library", handle);
    const hipError_t error =
        name ? find_kernel(library, name, kernels) : enumerate_kernels(library, kernels, count);
    hip_object_put(library);
    return error;
}

HIP_EXPORT hipError_t hipLibraryGetKernel(hipKernel_t *kernel, hipLibrary_t library,
                                          const char *name)
{
    return HIP_CALL(hipLibraryGetKernel,
                    name ? get_kernels(library, name, kernel, 1) : hipErrorInvalidValue);
}

HIP_EXPORT hipError_t hipLibraryEnumerateKernels(hipKernel_t *kernels, unsigned count,
                                                 hipLibrary_t library)
{
    return HIP_CALL(hipLibraryEnumerateKernels,
                    count ? get_kernels(library, NULL, kernels, count) : hipErrorInvalidValue);
}

/* Sets *count to the number of the library's kernels. */
static hipError_t count_kernels(unsigned *count, hipLibrary_t handle)
{
    struct ihipModule_t *module;

    if (!count)
        return hipErrorInvalidValue;
    struct ihipLibrary_t *library = hip_object_get(handle, HIP_LIBRARY);
    if (!library)
        return invalid("library", handle);
    const hipError_t error = module_on(library, hip_current_device(), &module);
    if (error == hipSuccess)
        *count = (unsigned)module->code->nkernels;
    hip_object_put(library);
    return error;
}

HIP_EXPORT hipError_t hipLibraryGetKernelCount(unsigned *count, hipLibrary_t library)
{
    return HIP_CALL(hipLibraryGetKernelCount, count_kernels(count, library));
}

/* Sets the address and size of a variable of the library on the current device. */
static hipError_t variable(void **address, size_t *size, hipLibrary_t handle, const char *name,
                           bool managed)
{
    struct ihipModule_t *module;

    if (!name || (!address && !size))
        return hipErrorInvalidValue;
    struct ihipLibrary_t *library = hip_object_get(handle, HIP_LIBRARY);
    if (!library)
        return invalid("library", handle);
    hipError_t error = module_on(library, hip_current_device(), &module);
    if (error == hipSuccess && !hip_module_variable(module, name, managed, address, size))
        error = hip_fail(hipErrorNotFound, "the library has no %s named %.200s",
                         managed ? "managed variable" : "variable", name);
    hip_object_put(library);
    return error;
}

HIP_EXPORT hipError_t hipLibraryGetGlobal(void **address, size_t *size, hipLibrary_t library,
                                          const char *name)
{
    return HIP_CALL(hipLibraryGetGlobal, variable(address, size, library, name, false));
}

HIP_EXPORT hipError_t hipLibraryGetManaged(void **address, size_t *size, hipLibrary_t library,
                                           const char *name)
{
    return HIP_CALL(hipLibraryGetManaged, variable(address, size, library, name, true));
}

hipError_t hip_kernel_function(const void *handle, struct hip_device *device,
                               struct ihipModuleSymbol_t **function)
{
    struct ihipKernel_t *kernel = hip_object_get(handle, HIP_KERNEL);
    struct ihipModule_t *module;

    *function = NULL;
    if (!kernel)
        return hipErrorInvalidHandle;
    hipError_t error = module_on(kernel->library, device, &module);
    if (error == hipSuccess && !(*function = hip_module_function(module, kernel->name)))
        error = hipErrorNotFound;
    hip_object_put(kernel);
    return error;
}

/* Sets *out to the kernel's function on the current device. */
static hipError_t get_function(hipFunction_t *out, hipKernel_t handle)
{
    struct ihipModuleSymbol_t *function;

    if (!out)
        return hipErrorInvalidValue;
    const hipError_t error = hip_kernel_function(handle, hip_current_device(), &function);
    if (error != hipSuccess)
        return error;
    *out = function;
    hip_object_put(function); /* the module owns the function */
    return hipSuccess;
}

HIP_EXPORT hipError_t hipKernelGetFunction(hipFunction_t *function, hipKernel_t kernel)
{
    return HIP_CALL(hipKernelGetFunction, get_function(function, kernel));
}

/* Sets *library and *name (each may be NULL) to the kernel's library and name. */
static hipError_t describe(hipKernel_t handle, hipLibrary_t *library, const char **name)
{
    if (!library && !name)
        return hipErrorInvalidValue;
    struct ihipKernel_t *kernel = hip_object_get(handle, HIP_KERNEL);
    if (!kernel)
        return invalid("kernel", handle);
    if (library)
        *library = kernel->library;
    if (name)
        *name = kernel->name;
    hip_object_put(kernel);
    return hipSuccess;
}

HIP_EXPORT hipError_t hipKernelGetLibrary(hipLibrary_t *library, hipKernel_t kernel)
{
    return HIP_CALL(hipKernelGetLibrary, describe(kernel, library, NULL));
}

HIP_EXPORT hipError_t hipKernelGetName(const char **name, hipKernel_t kernel)
{
    return HIP_CALL(hipKernelGetName, describe(kernel, NULL, name));
}

/* Sets *offset and *size to parameter number `index`. Hidden arguments do not count. */
static hipError_t parameter(hipKernel_t handle, size_t index, size_t *offset, size_t *size)
{
    struct ihipModuleSymbol_t *function;

    if (!offset)
        return hipErrorInvalidValue;
    hipError_t error = hip_kernel_function(handle, hip_current_device(), &function);
    if (error != hipSuccess)
        return error;
    const struct kernel_metadata *m = &function->kernel->metadata;
    if (index < m->nargs && !argument_is_hidden(m->args[index].kind)) {
        *offset = m->args[index].offset;
        if (size)
            *size = m->args[index].size;
    } else {
        error = hipErrorInvalidValue;
    }
    hip_object_put(function);
    return error;
}

HIP_EXPORT hipError_t hipKernelGetParamInfo(hipKernel_t kernel, size_t index, size_t *offset,
                                            size_t *size)
{
    return HIP_CALL(hipKernelGetParamInfo, parameter(kernel, index, offset, size));
}

/* Sets *value to an attribute of the kernel on the device `ordinal`. */
static hipError_t get_attribute(int *value, hipFunction_attribute attribute, hipKernel_t kernel,
                                int ordinal)
{
    struct ihipModuleSymbol_t *function;
    struct hip_device *device = hip_device(ordinal);

    if (!value)
        return hipErrorInvalidValue;
    if (!device)
        return hipErrorInvalidDevice;
    hipError_t error = hip_kernel_function(kernel, device, &function);
    if (error == hipSuccess)
        error = hip_function_attribute(value, attribute, function);
    hip_object_put(function);
    return error;
}

HIP_EXPORT hipError_t hipKernelGetAttribute(int *value, hipFunction_attribute attribute,
                                            hipKernel_t kernel, hipDevice_t device)
{
    return HIP_CALL(hipKernelGetAttribute, get_attribute(value, attribute, kernel, device));
}

/* Sets an attribute. It has no effect: all of LDS may be dynamic without a request, so a limit on
 * it is only checked. */
static hipError_t set_attribute(hipFunction_attribute attribute, int value, hipKernel_t kernel,
                                int device)
{
    int most;

    if (attribute != HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
        return attribute == HIP_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
                   ? hipSuccess
                   : hipErrorInvalidValue;
    const hipError_t error = get_attribute(&most, attribute, kernel, device);
    return error == hipSuccess && (value < 0 || value > most) ? hipErrorInvalidValue : error;
}

HIP_EXPORT hipError_t hipKernelSetAttribute(hipFunction_attribute attribute, int value,
                                            hipKernel_t kernel, hipDevice_t device)
{
    return HIP_CALL(hipKernelSetAttribute, set_attribute(attribute, value, kernel, device));
}
