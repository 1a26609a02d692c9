/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a GPU, and loads and unloads code objects on it. */
#include "runtime/device.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/abi.h"
#include "runtime/error.h"

/* Number of forks since the first device was opened, in this process and its ancestors. HIP does
 * not survive fork(): a child must not use its parent's objects. */
static atomic_uint forks;

/* Counts a fork. A handler of pthread_atfork(), which runs in the child process. */
static void note_fork(void) { atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed); }

/* Registers note_fork() as fork handler at the first call. If two threads call at once, both may
 * register it; a fork then counts twice, which does no harm. Returns ATTN_OK or ATTN_NO_MEMORY. */
static int watch_forks(void)
{
    static atomic_bool watching;
    if (atomic_load_explicit(&watching, memory_order_relaxed))
        return ATTN_OK;
    if (pthread_atfork(NULL, NULL, note_fork))
        return attn_fail_fixed(ATTN_NO_MEMORY, "attn_device_open: no memory to watch forks with");
    atomic_store_explicit(&watching, true, memory_order_relaxed);
    return ATTN_OK;
}

unsigned attn_forks(void) { return atomic_load_explicit(&forks, memory_order_relaxed); }

void attn_device_log(const struct attn_device *device, enum attn_log_level level,
                     const char *format, ...)
{
    if (!device->log)
        return;
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    device->log(device->log_user, level, message);
}

/* Loads the HIP library of this path and stores the facts of the GPU with number device->ordinal in
 * `device`. Returns ATTN_OK or an error. */
static int bind(struct attn_device *device, const char *hip_library)
{
    int r = attn_hip_load(&device->hip, hip_library);
    if (r)
        return r;
    const struct attn_hip *hip = &device->hip;
    int count = 0;
    int error = hip->hipInit(0);
    if (error)
        return attn_hip_fail_to_start(hip, "hipInit", error);
    error = hip->hipRuntimeGetVersion(&device->hip_version);
    if (error)
        return attn_hip_fail(hip, "hipRuntimeGetVersion", error);
    error = hip->hipGetDeviceCount(&count);
    if (error)
        return attn_hip_fail_to_start(hip, "hipGetDeviceCount", error);
    if (device->ordinal < 0 || device->ordinal >= count)
        return attn_fail(ATTN_NO_DEVICE, "GPU %d was asked for, %s sees %d", device->ordinal,
                         hip->path, count);
    struct attn_hip_properties properties;
    r = attn_hip_get_properties(hip, device->ordinal, &properties);
    if (r)
        return r;
    memcpy(device->name, properties.name, sizeof(device->name));
    size_t length = strcspn(properties.arch, ":");
    if (strncmp(properties.arch, "gfx", 3) || length >= sizeof(device->target))
        return attn_fail(ATTN_NO_DEVICE, "GPU %d calls its architecture \"%s\"", device->ordinal,
                         properties.arch);
    memcpy(device->target, properties.arch, length);
    error = hip->hipDeviceGetAttribute(&device->compute_units, HIP_ATTRIBUTE_COMPUTE_UNITS,
                                       device->ordinal);
    if (!error)
        error = hip->hipDeviceGetAttribute(&device->lanes, HIP_ATTRIBUTE_LANES, device->ordinal);
    if (error)
        return attn_hip_fail(hip, "hipDeviceGetAttribute", error);
    return ATTN_OK;
}

/* Checks the flags and the packs of a device to create. Returns ATTN_OK, or ATTN_BAD_ARGUMENT after
 * a message. */
static int check_options(const struct attn_device_options *o, struct attn_pack *const *packs,
                         size_t pack_count)
{
    if (o->flags & ~(uint32_t)ATTN_CHECK_DATA)
        return attn_fail(ATTN_BAD_ARGUMENT, "attn_device_options.flags has unknown bits: 0x%x",
                         o->flags);
    if (!packs || pack_count == 0 || pack_count > 1024)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "a device is bound to 1 to 1024 packs");
    for (size_t i = 0; i < pack_count; i++) {
        if (!packs[i])
            return attn_fail(ATTN_BAD_ARGUMENT, "pack %zu is NULL", i);
    }
    return ATTN_OK;
}

ATTN_PUBLIC int attn_device_open(struct attn_pack *const *packs, size_t pack_count,
                                 const struct attn_device_options *options,
                                 struct attn_device **out)
{
    struct attn_device_options known = {.size = sizeof(known)};
    const struct attn_device_options *o = &known;
    if (!out)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "attn_device_open: device is NULL");
    int r =
        options ? attn_adopt_named("attn_device_options", &known, sizeof(known), options) : ATTN_OK;
    if (!r)
        r = check_options(o, packs, pack_count);
    if (r)
        return r;
    struct attn_device *device = calloc(1, sizeof(*device) + pack_count * sizeof(packs[0]));
    if (!device)
        return attn_fail_fixed(ATTN_NO_MEMORY, "attn_device_open: out of memory");
    device->ordinal = o->ordinal;
    device->flags = o->flags;
    device->log = o->log;
    device->log_user = o->log_user;
    r = watch_forks();
    if (!r)
        r = bind(device, o->hip_library);
    if (!r && pthread_mutex_init(&device->lock, NULL))
        r = attn_fail_fixed(ATTN_NO_MEMORY, "attn_device_open: no memory for a lock");
    if (r) {
        attn_hip_unload(&device->hip);
        free(device);
        return r;
    }
    device->forks = attn_forks();
    atomic_init(&device->refs, 1);
    device->pack_count = pack_count;
    for (size_t i = 0; i < pack_count; i++) {
        device->packs[i] = packs[i];
        attn_pack_ref(packs[i]);
    }
    attn_device_log(device, ATTN_LOG_INFO, "GPU %d is %s (%s), HIP %d from %s", device->ordinal,
                    device->name, device->target, device->hip_version, device->hip.path);
    *out = device;
    return ATTN_OK;
}

void attn_device_ref(struct attn_device *device)
{
    atomic_fetch_add_explicit(&device->refs, 1, memory_order_relaxed);
}

ATTN_PUBLIC void attn_device_close(struct attn_device *device)
{
    if (!device || atomic_fetch_sub_explicit(&device->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < device->pack_count; i++)
        attn_pack_close(device->packs[i]);
    /* Modules remain only in a forked child, whose ops could not unload them. */
    for (struct attn_module *m = device->modules, *next; m; m = next) {
        next = m->next;
        free(m);
    }
    pthread_mutex_destroy(&device->lock);
    attn_hip_unload(&device->hip);
    free(device);
}

ATTN_PUBLIC int attn_device_describe(const struct attn_device *device,
                                     struct attn_device_info *info)
{
    if (!device || !info || !attn_can_give(info))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT,
                               "attn_device_describe: NULL, or info->size is not 16 to 4096");
    const struct attn_device_info i = {
        .size = sizeof(i),
        .name = device->name,
        .target = device->target,
        .hip_library = device->hip.path,
        .hip_version = device->hip_version,
        .ordinal = device->ordinal,
        .compute_units = device->compute_units,
    };
    attn_give(info, &i, sizeof(i));
    return ATTN_OK;
}

/* Makes the device HIP's current GPU, since HIP loads code objects on the current GPU. Sets
 * *previous to the ordinal of the caller's, which leave() restores. Returns ATTN_OK, or the error
 * of a HIP call that failed. */
static int enter(const struct attn_device *device, int *previous)
{
    int error = device->hip.hipGetDevice(previous);
    if (error)
        return attn_hip_fail(&device->hip, "hipGetDevice", error);
    if (*previous == device->ordinal)
        return ATTN_OK;
    error = device->hip.hipSetDevice(device->ordinal);
    return error ? attn_hip_fail(&device->hip, "hipSetDevice", error) : ATTN_OK;
}

/* Makes the GPU with ordinal `previous` HIP's current one again. Returns ATTN_OK, or the error of a
 * HIP call that failed. */
static int leave(const struct attn_device *device, int previous)
{
    if (previous == device->ordinal)
        return ATTN_OK;
    int error = device->hip.hipSetDevice(previous);
    return error ? attn_hip_fail(&device->hip, "hipSetDevice", error) : ATTN_OK;
}

/* Returns the loaded module of the code object at `code_offset` of the pack, or NULL. */
static struct attn_module *find_module(const struct attn_device *device,
                                       const struct attn_pack *pack, uint64_t code_offset)
{
    struct attn_module *m = device->modules;
    while (m && (m->pack != pack || m->code_offset != code_offset))
        m = m->next;
    return m;
}

/* Maps a code object of the pack and loads it to the GPU; HIP copies it. Sets *handle to HIP's
 * module. Returns ATTN_OK or an error. */
static int load_code(const struct attn_device *device, const struct attn_pack *pack,
                     const struct attn_pack_record *record, void **handle)
{
    const void *code;
    struct attn_pack_mapping mapping = {0};
    int r = attn_pack_map_code(pack, record, &code, &mapping);
    if (r)
        return r;
    int error = device->hip.hipModuleLoadData(handle, code); /* HIP keeps a copy of the code */
    attn_pack_unmap(&mapping);
    return error ? attn_hip_fail(&device->hip, "hipModuleLoadData", error) : ATTN_OK;
}

/* Loads a code object and adds it to the device's list of modules, with one reference. Sets *module
 * to it. Returns ATTN_OK or an error. */
static int load_module(struct attn_device *device, const struct attn_pack *pack,
                       const struct attn_pack_record *record, struct attn_module **module)
{
    struct attn_module *m = malloc(sizeof(*m));
    if (!m)
        return attn_fail_fixed(ATTN_NO_MEMORY, "loading a code object: out of memory");
    *m = (struct attn_module){.pack = pack, .code_offset = record->k->code_offset, .refs = 1};
    int r = load_code(device, pack, record, &m->handle);
    if (r) {
        free(m);
        return r;
    }
    m->next = device->modules;
    device->modules = m;
    attn_device_log(device, ATTN_LOG_INFO, "loaded %s", record->name);
    *module = m;
    return ATTN_OK;
}

/* Removes a reference to a module, and unloads it if that was the last reference. The caller has
 * locked the device and made it HIP's current GPU. */
static void release_module(struct attn_device *device, struct attn_module *module)
{
    if (--module->refs)
        return;
    struct attn_module **link = &device->modules;
    while (*link != module)
        link = &(*link)->next;
    *link = module->next;
    int error = device->hip.hipModuleUnload(module->handle);
    if (error)
        attn_device_log(device, ATTN_LOG_WARNING, "hipModuleUnload: %s",
                        device->hip.hipGetErrorName(error));
    free(module);
}

/* Sets *function to HIP's function of the kernel `record` and *module to its module, which is
 * loaded at the first use. Adds a reference to the module. Returns ATTN_OK or an error. The caller
 * has locked the device. */
static int load_locked(struct attn_device *device, const struct attn_pack *pack,
                       const struct attn_pack_record *record, struct attn_module **module,
                       void **function)
{
    struct attn_module *m = find_module(device, pack, record->k->code_offset);
    if (m) {
        m->refs++;
    } else {
        int r = load_module(device, pack, record, &m);
        if (r)
            return r;
    }
    int error = device->hip.hipModuleGetFunction(function, m->handle, record->symbol);
    if (error) {
        release_module(device, m);
        return attn_hip_fail(&device->hip, "hipModuleGetFunction", error);
    }
    *module = m;
    return ATTN_OK;
}

int attn_device_load(struct attn_device *device, const struct attn_pack *pack,
                     const struct attn_pack_record *record, struct attn_module **module,
                     void **function)
{
    int previous;
    int r = enter(device, &previous);
    if (r)
        return r;
    pthread_mutex_lock(&device->lock);
    struct attn_module *m = NULL;
    r = load_locked(device, pack, record, &m, function);
    int left = leave(device, previous);
    if (m && left) {
        release_module(device, m);
        r = left;
    }
    pthread_mutex_unlock(&device->lock);
    if (!r)
        *module = m;
    return r;
}

void attn_device_unload(struct attn_device *device, struct attn_module *module)
{
    /* A forked child must not call HIP, and a thread that no longer exists may hold the lock. */
    if (device->forks != attn_forks())
        return;
    int previous = device->ordinal;
    int r = enter(device, &previous);
    pthread_mutex_lock(&device->lock);
    release_module(device, module);
    pthread_mutex_unlock(&device->lock);
    if (!r && leave(device, previous))
        attn_device_log(device, ATTN_LOG_WARNING, "%s", attn_last_error());
}
