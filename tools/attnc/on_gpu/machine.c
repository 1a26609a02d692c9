/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/attnc/on_gpu/machine.h"

#include <ctype.h>
#include <dlfcn.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "compiler/pack_writer.h"
#include "tools/attnc/cli/child_call.h"
#include "tools/attnc/cli/command.h"

/* Seconds after which a child that opens the GPU counts as hung. */
enum { SECONDS = 120 /* the first start of a driver takes long */ };

/* Numbers of hipDeviceAttributeClockRate and hipDeviceAttributeMemoryClockRate (both in kHz), the
 * same since HIP 5 (hip_runtime_api.h). */
enum { ATTRIBUTE_ENGINE_CLOCK = 5, ATTRIBUTE_MEMORY_CLOCK = 60 };

/* The arguments of machine_find_gpu(), for the child process. */
struct call {
    const char *simulator, *target;
};

/* Returns a pack without kernels, since libattn opens a device only together with a pack. NULL if
 * memory is exhausted. */
static struct attn_pack *make_empty_pack(void)
{
    struct attnc_pack_writer *w = attnc_pack_writer_create();
    struct attn_pack *pack = NULL;
    void *bytes;
    size_t size;
    if (w && attnc_pack_writer_finish(w, &bytes, &size))
        attn_pack_open_memory(bytes, size, &pack);
    return pack; /* nothing is closed: the child process ends */
}

/* Opens the GPU and fills the struct machine_gpu `answer`, in a child process. `context` is a
 * struct call. Returns an exit_code. */
static int call_find(void *context, void *answer)
{
    const struct call *c = context;
    struct machine_gpu *m = answer;
    struct gpu gpu = {0};
    char why[600];
    struct attn_pack *pack = make_empty_pack();
    if (!pack)
        return complain(EXIT_ENVIRONMENT, "out of memory");
    if (c->simulator) {
        const struct gpu_choice choice = {
            .target = c->target, .simulator = c->simulator, .checks = "off"};
        if (!gpu_open(&gpu, &choice, pack, why, sizeof(why)))
            return complain(EXIT_ENVIRONMENT, "%s", why);
    } else if (attn_device_open(&pack, 1, NULL, &gpu.device)) {
        return complain(EXIT_ENVIRONMENT, "%s", attn_last_error());
    }
    struct attn_device_info info = {.size = sizeof(info)};
    attn_device_describe(gpu.device, &info);
    gpu_identify(gpu.device, &m->id);
    m->compute_units = info.compute_units;
    int (*get_version)(int *), (*get_attribute)(int *, int, int), (*get_bus)(char *, int, int);
    void *library = dlopen(info.hip_library, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return EXIT_GOOD;
    if (gpu_find_function(library, "hipDriverGetVersion", &get_version))
        get_version(&m->hip_driver);
    if (gpu_find_function(library, "hipDeviceGetAttribute", &get_attribute)) {
        get_attribute(&m->engine_khz, ATTRIBUTE_ENGINE_CLOCK, info.ordinal);
        get_attribute(&m->memory_khz, ATTRIBUTE_MEMORY_CLOCK, info.ordinal);
    }
    if (gpu_find_function(library, "hipDeviceGetPCIBusId", &get_bus))
        get_bus(m->pci, sizeof(m->pci), info.ordinal);
    for (char *p = m->pci; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    return EXIT_GOOD;
}

bool machine_find_gpu(const char *simulator, const char *target, struct machine_gpu *gpu,
                      char why[200])
{
    struct call call = {simulator, target};
    *gpu = (struct machine_gpu){0};
    return child_call(call_find, &call, gpu, sizeof(*gpu), SECONDS, why);
}

/* Writes the text of the first file that matches the glob `pattern` as a JSON string `key`; null if
 * there is none or it cannot be read. */
static void write_file(struct json *j, const char *key, const char *pattern)
{
    char text[1024] = "";
    glob_t found;
    size_t size = 0;
    if (glob(pattern, 0, NULL, &found) == 0) {
        FILE *f = fopen(found.gl_pathv[0], "r");
        size = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
        if (f)
            fclose(f);
        globfree(&found);
    }
    while (size && isspace((unsigned char)text[size - 1]))
        text[--size] = '\0';
    json_string(j, key, size ? text : NULL);
}

/* Writes what the Linux driver amdgpu reports of the GPU in sysfs, as the JSON object "driver" (its
 * manual: "Misc AMDGPU driver information"). */
static void write_driver(struct json *j, const struct machine_gpu *gpu)
{
    static const struct {
        const char *key, *file;
    } rows[] = {
        {"device_id", "device"},
        {"revision", "revision"},
        {"vbios", "vbios_version"},
        {"engine_clocks", "pp_dpm_sclk"},
        {"memory_clocks", "pp_dpm_mclk"},
        {"compute_partition", "current_compute_partition"},
        {"memory_partition", "current_memory_partition"},
        {"power_cap_uw", "hwmon/hwmon*/power1_cap"},
        {"performance_level", "power_dpm_force_performance_level"},
    };
    char path[160];
    json_begin_object(j, "driver");
    /* Null: the driver comes with the kernel and has no version of its own. */
    write_file(j, "amdgpu", "/sys/module/amdgpu/version");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/%s",
                 gpu->pci[0] && !gpu->id.simulated ? gpu->pci : "none", rows[i].file);
        write_file(j, rows[i].key, path);
    }
    json_end(j);
}

/* Writes the JSON object "host": operating system, kernel, processors and ROCm version. */
static void write_host(struct json *j)
{
    struct utsname u = {0};
    char line[256], system[256] = "";
    FILE *f = fopen("/etc/os-release", "r");
    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, "PRETTY_NAME=\"%200[^\"]\"", system) == 1)
            break;
    if (f)
        fclose(f);
    uname(&u);
    json_begin_object(j, "host");
    json_string(j, "system", system[0] ? system : NULL);
    json_string(j, "kernel", u.release);
    json_integer(j, "processors", sysconf(_SC_NPROCESSORS_ONLN));
    write_file(j, "rocm", "/opt/rocm/.info/version");
    json_end(j);
}

void machine_write(struct json *j, const struct machine_gpu *gpu)
{
    json_begin_object(j, "gpu");
    json_string(j, "name", gpu->id.name);
    json_string(j, "target", gpu->id.target);
    json_integer(j, "compute_units", gpu->compute_units);
    json_real(j, "engine_mhz", gpu->engine_khz / 1e3);
    json_real(j, "memory_mhz", gpu->memory_khz / 1e3);
    json_string(j, "pci", gpu->pci[0] ? gpu->pci : NULL);
    json_string(j, "hip_library", gpu->id.library);
    json_integer(j, "hip_version", gpu->id.hip_version);
    json_integer(j, "hip_driver_version", gpu->hip_driver);
    json_end(j);
    write_driver(j, gpu);
    write_host(j);
}
