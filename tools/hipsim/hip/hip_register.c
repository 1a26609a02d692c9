/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entry points for the code that Clang emits for a .hip file. Constructors register the fat binary,
 * its kernels and variables. Stubs push a launch configuration and pop it again. A fat binary is
 * loaded for a device at the first use there.
 */
#include "hip.h"

#include <stdlib.h>
#include <string.h>

#include "bundle.h"

#define FAT_BINARY_MAGIC 0x48495046u /* "HIPF" */

/* The record that Clang emits for a fat binary. */
struct fat_binary_wrapper {
    uint32_t magic;
    uint32_t version;
    const void *binary;
    void *unused;
};

struct symbol { /* a host address that names a kernel or a variable */
    const void *host;
    char *name;
    bool is_variable;
    void *managed; /* memory that the device's variable points to; __managed__ variables only */
    struct fat_binary *binary;
    struct symbol *next;
};

/* Code for several targets, and the modules that devices have loaded from it. */
struct fat_binary {
    const void *data;
    struct ihipModule_t *modules[HIP_MAX_DEVICES];
};

#define BUCKETS 1024u

static struct {
    pthread_mutex_t lock;
    struct symbol *buckets[BUCKETS];
} registered = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Returns the list of the hash table for the host address. */
static struct symbol **bucket_of(const void *host)
{
    uint64_t hash = (uintptr_t)host * UINT64_C(0x9e3779b97f4a7c15);

    return &registered.buckets[hash >> 54 & (BUCKETS - 1)];
}

/* Returns the symbol with the host address; NULL if there is none. */
static struct symbol *find(const void *host)
{
    struct symbol *symbol = *bucket_of(host);

    while (symbol && symbol->host != host)
        symbol = symbol->next;
    return symbol;
}

/* The functions from here on are entry points that the compiler calls; they need no device. */

void **__hipRegisterFatBinary(const void *data);
void __hipUnregisterFatBinary(void **handle);
void __hipRegisterFunction(void **handle, const void *host, char *device_function, const char *name,
                           unsigned thread_limit, void *tid, void *bid, dim3 *block, dim3 *grid,
                           int *warp);
void __hipRegisterVar(void **handle, void *host, char *host_name, char *name, int external,
                      size_t size, int constant, int global);
void __hipRegisterManagedVar(void **handle, void **host, const void *initial, const char *name,
                             size_t size, unsigned align);
hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t lds, hipStream_t stream);
hipError_t __hipPopCallConfiguration(dim3 *grid, dim3 *block, size_t *lds, hipStream_t *stream);

HIP_EXPORT void **__hipRegisterFatBinary(const void *data)
{
    const struct fat_binary_wrapper *wrapper = data;
    struct fat_binary *binary = calloc(1, sizeof(*binary));

    if (!binary)
        return NULL;
    if (wrapper && wrapper->magic == FAT_BINARY_MAGIC && wrapper->version == 1)
        binary->data = wrapper->binary;
    return (void **)binary;
}

HIP_EXPORT void __hipUnregisterFatBinary(void **handle)
{
    struct fat_binary *binary = (struct fat_binary *)handle;

    if (!binary)
        return;
    pthread_mutex_lock(&registered.lock);
    for (unsigned i = 0; i < BUCKETS; i++) {
        for (struct symbol **link = &registered.buckets[i]; *link;) {
            struct symbol *symbol = *link;
            if (symbol->binary != binary) {
                link = &symbol->next;
                continue;
            }
            *link = symbol->next;
            if (symbol->managed)
                hipsim_mem_free(symbol->managed);
            free(symbol->name);
            free(symbol);
        }
    }
    pthread_mutex_unlock(&registered.lock);
    for (unsigned i = 0; i < HIP_MAX_DEVICES; i++)
        if (binary->modules[i])
            hip_module_unload(binary->modules[i]);
    free(binary);
}

/* Registers a kernel or a variable of the binary `handle`. */
static void enter_symbol(void **handle, const void *host, const char *name, bool is_variable,
                         void *managed)
{
    struct symbol *symbol = calloc(1, sizeof(*symbol));
    char *copy = name ? strdup(name) : NULL;

    if (!handle || !symbol || !copy) {
        free(symbol);
        free(copy);
        return;
    }
    *symbol = (struct symbol){.host = host,
                              .name = copy,
                              .is_variable = is_variable,
                              .managed = managed,
                              .binary = (struct fat_binary *)handle};
    pthread_mutex_lock(&registered.lock);
    struct symbol **bucket = bucket_of(host);
    symbol->next = *bucket;
    *bucket = symbol;
    pthread_mutex_unlock(&registered.lock);
}

HIP_EXPORT void __hipRegisterFunction(void **handle, const void *host, char *device_function,
                                      const char *name, unsigned thread_limit, void *tid, void *bid,
                                      dim3 *block, dim3 *grid, int *warp)
{
    (void)device_function;
    (void)thread_limit;
    (void)tid;
    (void)bid;
    (void)block;
    (void)grid;
    (void)warp;
    enter_symbol(handle, host, name, false, NULL);
}

HIP_EXPORT void __hipRegisterVar(void **handle, void *host, char *host_name, char *name,
                                 int external, size_t size, int constant, int global)
{
    (void)host_name;
    (void)external;
    (void)size;
    (void)constant;
    (void)global;
    enter_symbol(handle, host, name, true, NULL);
}

/* Registers a __managed__ variable. The host's variable is also a pointer, and both point to the
 * same memory. */
HIP_EXPORT void __hipRegisterManagedVar(void **handle, void **host, const void *initial,
                                        const char *name, size_t size, unsigned align)
{
    struct hipsim_mem_request request = {
        .size = size, .alignment = align < 256 ? 256 : align, .kind = HIPSIM_MEM_MANAGED};

    *host = hipsim_mem_alloc(&request);
    if (!*host)
        return;
    memcpy(*host, initial, size);
    enter_symbol(handle, *host, name, true, *host);
}

HIP_EXPORT hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t lds,
                                                 hipStream_t stream)
{
    struct hip_thread *thread = hip_thread();

    if (thread->ncalls == sizeof(thread->calls) / sizeof(*thread->calls))
        return hip_leave(
            hip_fail(hipErrorInvalidConfiguration, "too many launch configurations are nested"));
    thread->calls[thread->ncalls].grid = grid;
    thread->calls[thread->ncalls].block = block;
    thread->calls[thread->ncalls].lds = lds;
    thread->calls[thread->ncalls++].stream = stream;
    return hipSuccess;
}

HIP_EXPORT hipError_t __hipPopCallConfiguration(dim3 *grid, dim3 *block, size_t *lds,
                                                hipStream_t *stream)
{
    struct hip_thread *thread = hip_thread();

    if (thread->ncalls == 0)
        return hip_leave(hipErrorMissingConfiguration);
    thread->ncalls--;
    *grid = thread->calls[thread->ncalls].grid;
    *block = thread->calls[thread->ncalls].block;
    *lds = thread->calls[thread->ncalls].lds;
    *stream = thread->calls[thread->ncalls].stream;
    return hipSuccess;
}

/* The functions from here on find the registered functions and variables. */

/* Stores the addresses of managed variables in a module that has just been loaded. */
static void point_at_managed(const struct fat_binary *binary, const struct ihipModule_t *module)
{
    for (unsigned i = 0; i < BUCKETS; i++) {
        for (const struct symbol *s = registered.buckets[i]; s; s = s->next) {
            const struct global_variable *variable =
                s->binary == binary && s->managed ? code_object_variable(module->code, s->name)
                                                  : NULL;
            if (variable && variable->size == sizeof(s->managed))
                memcpy((void *)(uintptr_t)variable->address, &s->managed, sizeof(s->managed));
        }
    }
}

/* Loads the binary's module on the device. The caller has locked the binary. */
static hipError_t load_for(struct fat_binary *binary, struct hip_device *device)
{
    struct image image;
    char why[600];

    if (binary->modules[device->ordinal])
        return hipSuccess;
    if (!binary->data)
        return hip_fail(hipErrorInvalidImage, "the program's fat binary is not one of HIP's");
    enum code_object_status status = image_from_memory(binary->data, &image, why, sizeof(why));
    hipError_t error = status == CODE_OBJECT_OK
                           ? hip_module_create(&image, device, &binary->modules[device->ordinal])
                           : hip_module_from_status(status, why);
    image_release(&image);
    if (error == hipSuccess)
        point_at_managed(binary, binary->modules[device->ordinal]);
    return error;
}

/* Sets *module to the module of a host address, and *name to a copy of its name. */
static hipError_t resolve(const void *host, bool is_variable, struct hip_device *device,
                          struct ihipModule_t **module, char **name)
{
    pthread_mutex_lock(&registered.lock);
    struct symbol *symbol = find(host);
    hipError_t error = hipSuccess;
    if (!symbol || symbol->is_variable != is_variable)
        error = is_variable ? hipErrorInvalidSymbol : hipErrorInvalidDeviceFunction;
    else
        error = load_for(symbol->binary, device);
    if (error == hipSuccess) {
        *module = symbol->binary->modules[device->ordinal];
        *name = strdup(symbol->name);
        error = *name ? hipSuccess : hipErrorOutOfMemory;
    }
    pthread_mutex_unlock(&registered.lock);
    return error;
}

hipError_t hip_registered_function(const void *host, struct hip_device *device,
                                   struct ihipModuleSymbol_t **function)
{
    struct ihipModule_t *module;
    char *name;
    hipError_t error = resolve(host, false, device, &module, &name);

    *function = NULL;
    if (error != hipSuccess)
        return error;
    *function = hip_module_function(module, name);
    if (!*function)
        error = hip_fail(hipErrorInvalidDeviceFunction,
                         "the program's code object has no kernel named %.200s", name);
    free(name);
    return error;
}

hipError_t hip_registered_variable(const void *host, struct hip_device *device, void **address,
                                   size_t *size)
{
    struct ihipModule_t *module;
    char *name;
    hipError_t error = resolve(host, true, device, &module, &name);

    if (error != hipSuccess)
        return error;
    const struct global_variable *variable = code_object_variable(module->code, name);
    if (variable) {
        *address = (void *)(uintptr_t)variable->address;
        *size = variable->size;
    } else {
        error = hip_fail(hipErrorInvalidSymbol,
                         "the program's code object has no variable named %.200s", name);
    }
    free(name);
    return error;
}

/* Sets *address and *size (each may be NULL) to a variable of the current device. */
static hipError_t symbol_address(void **address, size_t *size, const void *symbol)
{
    struct hip_device *device = hip_current_device();
    void *found;
    size_t bytes;

    if (!device)
        return hipErrorNoDevice;
    if (!address && !size)
        return hipErrorInvalidValue;
    hipError_t error = hip_registered_variable(symbol, device, &found, &bytes);
    if (error != hipSuccess)
        return error;
    if (address)
        *address = found;
    if (size)
        *size = bytes;
    return hipSuccess;
}

HIP_EXPORT hipError_t hipGetSymbolAddress(void **address, const void *symbol)
{
    return HIP_CALL(hipGetSymbolAddress, symbol_address(address, NULL, symbol));
}

HIP_EXPORT hipError_t hipGetSymbolSize(size_t *size, const void *symbol)
{
    return HIP_CALL(hipGetSymbolSize, symbol_address(NULL, size, symbol));
}

/* Sets *function to the current device's function of a kernel. */
static hipError_t function_by_symbol(hipFunction_t *function, const void *symbol)
{
    struct hip_device *device = hip_current_device();

    if (!function)
        return hipErrorInvalidValue;
    if (!device)
        return hipErrorNoDevice;
    hipError_t error = hip_registered_function(symbol, device, function);
    if (error == hipSuccess)
        hip_object_put(*function); /* the module's entry in the registry references it */
    return error;
}

HIP_EXPORT hipError_t hipGetFuncBySymbol(hipFunction_t *function, const void *symbol)
{
    return HIP_CALL(hipGetFuncBySymbol, function_by_symbol(function, symbol));
}

HIP_EXPORT const char *hipKernelNameRefByPtr(const void *host, hipStream_t stream)
{
    const char *name = NULL;

    (void)stream;
    pthread_mutex_lock(&registered.lock);
    struct symbol *symbol = find(host);
    if (symbol && !symbol->is_variable)
        name = symbol->name;
    pthread_mutex_unlock(&registered.lock);
    return name;
}
