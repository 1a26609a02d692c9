/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Packs, devices, and what all operations have in common.
 */
#ifndef ATTN_BASE_H
#define ATTN_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attn_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Marks a function that libattn exports. */
#if defined(__GNUC__)
#    define ATTN_PUBLIC __attribute__((visibility("default")))
#else
#    define ATTN_PUBLIC
#endif

/** Version of the interface that these headers declare; attn_version() returns the library's. */
#define ATTN_VERSION_MAJOR 0
#define ATTN_VERSION_MINOR 1

struct attn_pack;
struct attn_device;
struct attn_op;

enum attn_status {
    ATTN_OK = 0,
    ATTN_BAD_ARGUMENT = -1,         /**< an argument breaks a rule of these headers */
    ATTN_NO_MEMORY = -2,            /**< memory of the host is exhausted */
    ATTN_IO = -3,                   /**< a file cannot be read */
    ATTN_BAD_PACK = -4,             /**< a pack is truncated or corrupted, or a file is no pack */
    ATTN_PACK_VERSION_UNKNOWN = -5, /**< this library does not read the pack's format version */
    ATTN_NO_KERNEL = -6,  /**< no pack has a kernel for the op: the message names the nearest */
    ATTN_NO_HIP = -7,     /**< there is no HIP library, or it lacks a function that libattn needs */
    ATTN_NO_DEVICE = -8,  /**< HIP has no usable GPU with this number */
    ATTN_HIP_FAILED = -9, /**< a HIP call failed: the message names call and error */
    ATTN_NO_DEVICE_MEMORY = -10, /**< memory of the GPU is exhausted */
    ATTN_DEVICE_LOST = -11,      /**< the GPU faulted or is gone; the process must be restarted */
    ATTN_BAD_DATA = -12,         /**< ATTN_CHECK_DATA found an inconsistent length or index */
    ATTN_FORKED = -13 /**< the device was opened before fork(): HIP does not survive it */
};

/** Returns the name of a status: "ATTN_NO_KERNEL" for -6, and so on; "unknown status" for a number
 * that is no status. Never NULL. */
ATTN_PUBLIC const char *attn_status_name(int status);

/**
 * Returns the message of this thread's last failed call. Valid until the thread's next call of the
 * library; never NULL.
 */
ATTN_PUBLIC const char *attn_last_error(void);

/** Returns the library's version, major * 1000 + minor. */
ATTN_PUBLIC int attn_version(void);

/** True if this library has the feature `name`: an op ("prefill"), "dlpack" or "check-data". */
ATTN_PUBLIC bool attn_has_feature(const char *name);

enum attn_log_level {
    ATTN_LOG_WARNING = 1, /**< a problem occurred that does not make the call fail */
    ATTN_LOG_INFO = 2     /**< a device was bound, a kernel chosen or loaded */
};

/** A caller's function that receives log messages. It is called in the thread that caused the
 * message, never during a launch. `message` is valid only during the call. */
typedef void (*attn_log_function)(void *user, enum attn_log_level level, const char *message);

/* The functions from here on open and describe packs. */

/**
 * Opens the pack at `path`. Header, shared strings and index are read and checked at once, a kernel
 * only when it is needed. The file must not change while the pack is open. Release with
 * attn_pack_close(). Errors: ATTN_BAD_ARGUMENT: a pointer is NULL. ATTN_IO: the file cannot be
 * read. ATTN_BAD_PACK: the file is no pack, or damaged. ATTN_PACK_VERSION_UNKNOWN. ATTN_NO_MEMORY.
 */
ATTN_PUBLIC int attn_pack_open(const char *path, struct attn_pack **pack);

/** Opens a pack of `size` bytes in memory like attn_pack_open(). The bytes remain the caller's and
 * must outlive the pack. ATTN_BAD_ARGUMENT also if they are not 8-byte aligned. */
ATTN_PUBLIC int attn_pack_open_memory(const void *bytes, size_t size, struct attn_pack **pack);

/** Closes a pack. Devices that were opened with the pack keep it alive. NULL is allowed. */
ATTN_PUBLIC void attn_pack_close(struct attn_pack *pack);

/** Reads the whole pack and checks every checksum and every record. Errors: ATTN_BAD_ARGUMENT: pack
 * is NULL. ATTN_BAD_PACK: a checksum or a record is wrong. ATTN_IO: the file changed.
 * ATTN_NO_MEMORY. */
ATTN_PUBLIC int attn_pack_check(const struct attn_pack *pack);

/** Returns the number of kernels in the pack; 0 if `pack` is NULL. */
ATTN_PUBLIC uint32_t attn_pack_kernel_count(const struct attn_pack *pack);

/** A kernel as its pack describes it. Strings live as long as the pack. */
struct attn_kernel_info {
    size_t size;            /**< in: sizeof(struct attn_kernel_info) */
    const char *name;       /**< name of the kernel, unique in the pack */
    const char *symbol;     /**< name of the kernel in the code object, without ".kd" */
    const char *op;         /**< op that the kernel computes, such as "prefill" */
    const char *target;     /**< GPU architecture, such as "gfx942" */
    const char *tuning;     /**< tile and schedule that the compiler chose: "q=128 kv=64 ..." */
    const char *provenance; /**< compiler version and input that produced the kernel */
    /** number of fields of the dispatch key, for attn_pack_kernel_field() */
    uint32_t field_count;
    uint32_t workgroup[3];        /**< work-items of a workgroup in x, y and z */
    uint32_t lds_static;          /**< bytes of LDS of a workgroup that the code object declares */
    uint32_t lds_dynamic;         /**< bytes of LDS that each launch adds to a workgroup */
    uint32_t vgprs, agprs, sgprs; /**< registers of a wave: vector, accumulation, scalar */
    uint32_t spills;              /**< number of spilled VGPRs and SGPRs */
    uint32_t scratch;             /**< bytes of scratch memory of a work-item */
    uint32_t occupancy;           /**< waves that a SIMD holds at once */
    /** permille of the main loop's clocks in which MFMAs run, modelled; -1: unknown */
    int32_t mfma_duty;
    uint32_t code_bytes; /**< bytes of the kernel's machine code */
    size_t object_bytes; /**< bytes of the ELF file with the code, which kernels may share */
};

/** Checks the record of the n-th kernel, counted from 0 in the order of names, and describes the
 * kernel in *info. Set info->size before. Errors: ATTN_BAD_ARGUMENT: a pointer is NULL, size is 0,
 * or there is no such kernel. ATTN_BAD_PACK: the record is wrong. */
ATTN_PUBLIC int attn_pack_kernel(const struct attn_pack *pack, uint32_t n,
                                 struct attn_kernel_info *info);

/** Sets *field and *value to the name and the value of the i-th field of the n-th kernel's dispatch
 * key, both counted from 0. They are spelt as in a description and live as long as the pack.
 * Returns the errors of attn_pack_kernel(), and ATTN_BAD_ARGUMENT also if the key has no such
 * field. */
ATTN_PUBLIC int attn_pack_kernel_field(const struct attn_pack *pack, uint32_t n, uint32_t i,
                                       const char **field, const char **value);

/**
 * Checks the code object of the n-th kernel and copies it to `buffer`, which has room for
 * `buffer_size` bytes. If `buffer` is NULL, only checks it. *size becomes the bytes of the code
 * object, like attn_kernel_info.object_bytes. Errors: ATTN_BAD_ARGUMENT: size is NULL, there is no
 * such kernel, or the buffer is too small. ATTN_BAD_PACK: record or code is wrong.
 */
ATTN_PUBLIC int attn_pack_kernel_code(const struct attn_pack *pack, uint32_t n, void *buffer,
                                      size_t buffer_size, size_t *size);

/* The functions from here on open and describe devices. */

enum {
    /**
     * Launches also read lengths and indices from the device and check them. For debugging: each
     * launch waits for the stream. Packed sequences must then begin at token 0: cu_seqlens_q[0] and
     * qo_indptr[0] are 0. Nothing is checked on a stream that is being captured.
     */
    ATTN_CHECK_DATA = 1u << 0
};

/** Options of attn_device_open(). */
struct attn_device_options {
    size_t size;    /**< in: sizeof(struct attn_device_options) */
    int ordinal;    /**< number of the GPU in HIP, from 0 */
    uint32_t flags; /**< ATTN_CHECK_DATA or 0 */
    /** path of the HIP runtime; NULL: the one that the process has loaded, else libamdhip64.so.7 to
     * .5 */
    const char *hip_library;
    attn_log_function log; /**< receives messages; NULL: no log */
    void *log_user;        /**< the caller's pointer that `log` receives; may be NULL */
};

/**
 * Binds a GPU to packs. If several packs have a kernel for the same dispatch key, the last such
 * pack is used. `options` may be NULL: GPU 0, no checks, no log. Release with attn_device_close().
 * The packs may be closed before the device. Errors: ATTN_BAD_ARGUMENT: a pointer is NULL,
 * pack_count is not 1 to 1,024, or flags are unknown. ATTN_NO_HIP, ATTN_NO_DEVICE, ATTN_HIP_FAILED:
 * HIP or the GPU is missing or fails. ATTN_NO_MEMORY.
 */
ATTN_PUBLIC int attn_device_open(struct attn_pack *const *packs, size_t pack_count,
                                 const struct attn_device_options *options,
                                 struct attn_device **device);

/** Closes a device, whose ops must all be destroyed. NULL is allowed. */
ATTN_PUBLIC void attn_device_close(struct attn_device *device);

/** A GPU that attn_device_open() has opened. */
struct attn_device_info {
    size_t size;             /**< in: sizeof(struct attn_device_info) */
    const char *name;        /**< HIP's name of the GPU */
    const char *target;      /**< GPU architecture, such as "gfx942" */
    const char *hip_library; /**< path or file name under which the HIP runtime was found */
    /** version of the HIP runtime, as hipRuntimeGetVersion() returns it */
    int hip_version;
    int ordinal; /**< number of the GPU in HIP, from 0 */
    /** number of CUs; a plan's number of lists should be a multiple of it */
    int32_t compute_units;
};

/** Describes a device in *info. Set info->size before. Strings live as long as the device.
 * ATTN_BAD_ARGUMENT: a pointer is NULL, or size is 0. */
ATTN_PUBLIC int attn_device_describe(const struct attn_device *device,
                                     struct attn_device_info *info);

/* The functions from here on describe and destroy ops. */

/** The kernel that an op launches, and the reason for the choice. */
struct attn_op_info {
    size_t size; /**< in: sizeof(struct attn_op_info) */
    /** the op's kernel; if there are several, the first one or the one that a call chooses */
    struct attn_kernel_info kernel;
    /** number of kernels of the op; if several, each call chooses one by its arguments */
    uint32_t kernel_count;
    uint32_t pack; /**< index of the kernel's pack in the packs of attn_device_open() */
    /** "exact", or the fields in which the kernel is more general; for a call also the conditions
     * by which it was chosen */
    char why[200];
};

/** Describes an op and its (first) kernel in *info. Set info->size before. Strings live as long as
 * the kernel's pack. ATTN_BAD_ARGUMENT: a pointer is NULL, or size is 0. */
ATTN_PUBLIC int attn_op_describe(const struct attn_op *op, struct attn_op_info *info);

/**
 * Describes in *info the kernel that a launch with `args`, the op's argument struct, would run: the
 * first one whose conditions in the pack the arguments meet. Set info->size before. Returns the
 * errors that the launch would return.
 */
ATTN_PUBLIC int attn_op_describe_launch(const struct attn_op *op, const void *args,
                                        struct attn_op_info *info);

/** Releases an op. No launch of the op may be running, and no graph with such a launch may be
 * replayed later. NULL is allowed. */
ATTN_PUBLIC void attn_op_destroy(struct attn_op *op);

#ifdef __cplusplus
}
#endif

#endif
