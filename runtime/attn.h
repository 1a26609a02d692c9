/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libattn: dispatch of ahead-of-time compiled attention kernels on AMD GPUs.
 *
 * Four objects, each made from the one before it:
 *
 *   attn_pack     a file of kernels, as `attnc build` writes it
 *   attn_device   a GPU that HIP knows, with one or more packs
 *   attn_op       one operation for one layer shape: the kernel that was chosen, loaded
 *   launch        a call per layer and step; it allocates, locks and waits for nothing
 *
 * Every function that can fail returns 0 (ATTN_OK) or a negative enum attn_status and writes its
 * results only on success; attn_last_error() then says in a sentence what was wrong. The library
 * never prints, never exits and never reads the environment. HIP is loaded at run time.
 *
 * Threads: packs, devices and ops may be used by any number of threads at once; each object is
 * destroyed once, when no other call uses it.
 */
#ifndef ATTN_H
#define ATTN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define ATTN_PUBLIC __attribute__((visibility("default")))
#else
#define ATTN_PUBLIC
#endif

/** The interface that this header declares; attn_version() is that of the library. */
#define ATTN_VERSION_MAJOR 0
#define ATTN_VERSION_MINOR 1

struct attn_pack;
struct attn_device;
struct attn_op;

enum attn_status {
    ATTN_OK = 0,
    ATTN_BAD_ARGUMENT = -1,  /**< an argument breaks a rule of this header */
    ATTN_NO_MEMORY = -2,     /**< the host has no memory */
    ATTN_IO = -3,            /**< a file cannot be read */
    ATTN_BAD_PACK = -4,      /**< truncated, corrupted or not a pack */
    ATTN_PACK_VERSION_UNKNOWN = -5, /**< a pack of a version that this library does not read */
    ATTN_NO_KERNEL = -6,     /**< no pack has a kernel for this: the message names the nearest */
    ATTN_NO_HIP = -7,        /**< no HIP library, or one without a function that is needed */
    ATTN_NO_DEVICE = -8,     /**< HIP sees no such GPU */
    ATTN_HIP_FAILED = -9,    /**< a HIP call failed: the message names call and error */
    ATTN_NO_DEVICE_MEMORY = -10, /**< the GPU has no memory */
    ATTN_DEVICE_LOST = -11,  /**< the GPU faulted or is gone; the process has to start anew */
    ATTN_BAD_DATA = -12,     /**< ATTN_CHECK_DATA found an inconsistent length or index */
    ATTN_FORKED = -13        /**< the device was opened before fork(): HIP does not survive it */
};

/** "ATTN_NO_KERNEL" for -6, and so on; "unknown status" for any other number. Never NULL. */
ATTN_PUBLIC const char *attn_status_name(int status);

/**
 * What the last failing call of this thread said. Valid until the thread's next call of the
 * library; never NULL.
 */
ATTN_PUBLIC const char *attn_last_error(void);

/** The library's version, major * 1000 + minor. */
ATTN_PUBLIC int attn_version(void);

/** Whether this library knows something by name: an op ("prefill"), "dlpack", "check-data". */
ATTN_PUBLIC bool attn_has_feature(const char *name);

enum attn_log_level {
    ATTN_LOG_WARNING = 1, /**< it works, but somebody should look */
    ATTN_LOG_INFO = 2     /**< a device was bound, a kernel chosen or loaded */
};

/** Called from the thread that caused it, never from a launch. `message` is gone afterwards. */
typedef void (*attn_log_function)(void *user, enum attn_log_level level, const char *message);

/* ---- Packs ---- */

/**
 * Opens the pack at `path`. Header, shared strings and index are read and checked; a kernel when it
 * is asked for, so that nothing is read that is not needed. The file must not change while the pack
 * is open. Release with attn_pack_close().
 */
ATTN_PUBLIC int attn_pack_open(const char *path, struct attn_pack **pack);

/** The same for a pack in memory, 8-byte aligned, which stays the caller's and must outlive it. */
ATTN_PUBLIC int attn_pack_open_memory(const void *bytes, size_t size, struct attn_pack **pack);

/** Devices that were given the pack keep it alive. NULL is allowed. */
ATTN_PUBLIC void attn_pack_close(struct attn_pack *pack);

/** Reads the whole pack and checks every checksum and every record. */
ATTN_PUBLIC int attn_pack_check(const struct attn_pack *pack);

/** Number of kernels. */
ATTN_PUBLIC uint32_t attn_pack_kernel_count(const struct attn_pack *pack);

/** A kernel as the pack describes it. Strings live as long as the pack. */
struct attn_kernel_info {
    size_t size;            /**< in: sizeof(struct attn_kernel_info) */
    const char *name;
    const char *symbol;     /**< in the code object, without ".kd" */
    const char *op;
    const char *target;     /**< "gfx942" */
    const char *tuning;     /**< what the compiler chose: "q=128 kv=64 ..." */
    const char *provenance; /**< which compiler made it, from what */
    uint32_t field_count;   /**< of its dispatch key: attn_pack_kernel_field() */
    uint32_t workgroup[3];
    uint32_t lds_static;    /**< bytes */
    uint32_t lds_dynamic;   /**< bytes */
    uint32_t vgprs, agprs, sgprs;
    uint32_t spills;        /**< spilled registers */
    uint32_t scratch;       /**< bytes per work item */
    uint32_t occupancy;     /**< waves per SIMD */
    int32_t mfma_duty;      /**< of the hot loop, in 0.1 %; -1: not known */
    uint32_t code_bytes;    /**< machine code */
    size_t object_bytes;    /**< code object */
};

/** The n-th kernel, in the order of names. Checks its record. */
ATTN_PUBLIC int attn_pack_kernel(const struct attn_pack *pack, uint32_t n,
                                 struct attn_kernel_info *info);

/** The i-th field of the n-th kernel's dispatch key, spelt as in a description. */
ATTN_PUBLIC int attn_pack_kernel_field(const struct attn_pack *pack, uint32_t n, uint32_t i,
                                       const char **field, const char **value);

/**
 * Copies the n-th kernel's code object, checked, into `buffer`, which has room for `buffer_size`
 * bytes; attn_kernel_info.object_bytes says how many are needed, and so does *size. With a NULL
 * buffer it is checked only.
 */
ATTN_PUBLIC int attn_pack_kernel_code(const struct attn_pack *pack, uint32_t n, void *buffer,
                                      size_t buffer_size, size_t *size);

/* ---- Devices ---- */

enum {
    /**
     * Launches also read lengths and indices back from the device and check them: for debugging,
     * since that waits for the stream. Skipped on a stream that is being captured.
     */
    ATTN_CHECK_DATA = 1u << 0
};

struct attn_device_options {
    size_t size;             /**< sizeof(struct attn_device_options) */
    int ordinal;             /**< of the GPU, as HIP counts */
    uint32_t flags;          /**< ATTN_CHECK_DATA or 0 */
    const char *hip_library; /**< path; NULL: what is loaded already, else libamdhip64.so.7 to .5 */
    attn_log_function log;   /**< or NULL */
    void *log_user;
};

/**
 * Binds a GPU to packs. Where several packs have a kernel for the same key, the later one's is
 * taken. options may be NULL: GPU 0, no checks, no log. Release with attn_device_close().
 */
ATTN_PUBLIC int attn_device_open(struct attn_pack *const *packs, size_t pack_count,
                                 const struct attn_device_options *options,
                                 struct attn_device **device);

/** All ops of the device must be gone. NULL is allowed. */
ATTN_PUBLIC void attn_device_close(struct attn_device *device);

struct attn_device_info {
    size_t size;             /**< in: sizeof(struct attn_device_info) */
    const char *name;        /**< what HIP calls it */
    const char *target;      /**< "gfx942" */
    const char *hip_library; /**< the name under which HIP was found */
    int hip_version;         /**< hipRuntimeGetVersion() */
    int ordinal;
};

/** Strings live as long as the device. */
ATTN_PUBLIC int attn_device_describe(const struct attn_device *device,
                                     struct attn_device_info *info);

/* ---- Operations ---- */

enum attn_dtype {
    ATTN_BF16 = 1,
    ATTN_FP16 = 2,
    ATTN_FP8 = 3, /**< the GPU's own e4m3: fnuz (largest 240) on gfx942, OCP (448) on gfx950 */
    ATTN_INT8 = 4 /**< signed */
};

enum attn_mask {
    ATTN_MASK_NONE,   /**< every key of the sequence */
    ATTN_MASK_CAUSAL, /**< query i of n sees keys up to i + (keys - n): bottom right */
    ATTN_MASK_WINDOW, /**< window_left before and window_right behind that diagonal */
    ATTN_MASK_CUSTOM  /**< a byte per query and key says; for decode */
};

/** The largest device memory that an op can need for these arguments; 0 for many ops. */
ATTN_PUBLIC int attn_op_workspace_size(const struct attn_op *op, const void *args, size_t *size);

/**
 * Work that can be done once for several launches with the same lengths, on the host, for eager
 * use: fills args->workspace. Ops without a plan return 0 and do nothing.
 */
ATTN_PUBLIC int attn_op_plan(const struct attn_op *op, const void *args);

/** Which kernel an op launches, and why. */
struct attn_op_info {
    size_t size;                    /**< in: sizeof(struct attn_op_info) */
    struct attn_kernel_info kernel; /**< the (first) kernel */
    uint32_t kernel_count;          /**< more than one: chosen per call from the pack's table */
    uint32_t pack;                  /**< number of its pack, in the order of attn_device_open() */
    char why[200];                  /**< "exact", or which fields a more general kernel covers;
                                     * for a call also what the choice depended on */
};

/** Fills info->size bytes; strings of `kernel` live as long as its pack. */
ATTN_PUBLIC int attn_op_describe(const struct attn_op *op, struct attn_op_info *info);

/**
 * The same for one call: the kernel that a launch with these arguments would run, by the first row
 * of the pack's table whose ranges they are in. Fails as the launch would.
 */
ATTN_PUBLIC int attn_op_describe_launch(const struct attn_op *op, const void *args,
                                        struct attn_op_info *info);

/** No launch of the op may be running, and no graph with it may be replayed later. */
ATTN_PUBLIC void attn_op_destroy(struct attn_op *op);

/* ---- Paged caches: what every op that reads or writes one has in common ---- */

/** Order inside a page; D elements a head, P tokens a page, x elements in 16 bytes. */
enum attn_kv_layout {
    ATTN_KV_NHD,    /**< k and v [page, token, kv head, D]: every stride is free */
    ATTN_KV_SHUFFLE /**< k [page, kv head, D / x, P, x], v [page, kv head, P / x, D, x] */
};

/** Which elements share a scale; it multiplies what is stored. */
enum attn_kv_scale {
    ATTN_KV_SCALE_NONE,   /**< what is stored is the value */
    ATTN_KV_SCALE_TENSOR, /**< all: k_scale[0], v_scale[0] */
    ATTN_KV_SCALE_TOKEN,  /**< those of one token and head: [page, kv head, token] */
    ATTN_KV_SCALE_BLOCK   /**< those of one page and head: [page, kv head] */
};

/** How the pages of a sequence are listed. */
enum attn_page_table {
    ATTN_PAGES_BLOCKS, /**< a row of page numbers per sequence */
    ATTN_PAGES_INDICES /**< one list of page numbers, cut by kv_indptr */
};

/** How a cache holds keys and values: fixed for a layer. */
struct attn_cache_desc {
    enum attn_dtype dtype; /**< of its elements; 0: the op's dtype */
    enum attn_kv_layout layout;
    enum attn_kv_scale scale; /**< for ATTN_FP8 and ATTN_INT8, which needs one */
    int32_t page_size;        /**< tokens in a page: a power of two; SHUFFLE: x or more */
};

/**
 * A cache in one call. k and v are 16-byte aligned, and so is every stride of theirs; a page may be
 * 2 GiB, it is less than 4 GiB from one page to the next, and a cache may be what the GPU has.
 * Strides are in elements, those of the scales in floats, and 0 stands for a contiguous tensor.
 * Nothing here may vary between replays of a captured graph.
 */
struct attn_cache {
    void *k;                /**< of pages that attn_cache_desc describes */
    void *v;
    float *k_scale;         /**< NULL with ATTN_KV_SCALE_NONE */
    float *v_scale;         /**< the strides of k_scale */
    int64_t k_page_stride;
    int64_t k_token_stride; /**< NHD only */
    int64_t k_head_stride;
    int64_t v_page_stride;
    int64_t v_token_stride; /**< NHD only */
    int64_t v_head_stride;
    int64_t scale_page_stride;
    int64_t scale_head_stride; /**< per token: the tokens of a page and head are neighbours */
    int32_t page_count;     /**< pages in the cache, for ATTN_CHECK_DATA; 0: not said */
};

/**
 * Whose tokens the pages hold, on the device, all int32. Token i of sequence s is token i % P of
 * page block_table[s * block_table_stride + i / P], or kv_indices[kv_indptr[s] + i / P]; entries
 * behind the last token's are never read.
 */
struct attn_pages {
    const int32_t *kv_lens;     /**< [batch]: tokens of each sequence with the new ones; may be 0 */
    const int32_t *block_table; /**< [batch, entries], with ATTN_PAGES_BLOCKS */
    const int32_t *kv_indptr;   /**< [batch + 1], with ATTN_PAGES_INDICES */
    const int32_t *kv_indices;  /**< [entries], with ATTN_PAGES_INDICES */
    int64_t block_table_stride; /**< 0: entries */
    int32_t entries;            /**< of a row or the list; 0: not said, and not checked */
};

/* ---- Prefill: attention over packed sequences ---- */

/** What is fixed for a layer. */
struct attn_prefill_desc {
    size_t size;          /**< sizeof(struct attn_prefill_desc) */
    enum attn_dtype dtype; /**< of q, k, v and out */
    int32_t head_dim;
    int32_t head_dim_v;   /**< 0: head_dim */
    int32_t heads;        /**< query heads, a multiple of kv_heads */
    int32_t kv_heads;
    enum attn_mask mask;
    bool sinks;           /**< args->sinks joins the softmax denominator */
    bool soft_cap;        /**< scores pass through cap * tanh(score / cap) */
    bool lse;             /**< args->lse is written */
    const char *logits;   /**< name of a user's logits function, or NULL */
    bool paged;           /**< keys and values are read from args->cache, through args->pages */
    struct attn_cache_desc cache;    /**< with paged */
    enum attn_page_table page_table; /**< with paged */
};

/**
 * One call. Sequence s has queries cu_seqlens_q[s] .. cu_seqlens_q[s + 1] - 1 and keys likewise;
 * either may have length 0. A query that sees no key gets output 0 and LSE -infinity.
 *
 * Strides are in elements; 0 stands for a contiguous [token, head, element] tensor (LSE: [head,
 * token]). The last dimension is contiguous; q, k, v, out and their strides in bytes are multiples
 * of 16. Everything that varies between replays of a captured graph is read from device memory.
 *
 * With desc.paged the keys of sequence s, for a prefix hit or a chunk of a long prompt, are the
 * pages.kv_lens[s] tokens of its pages, those of its queries the last ones; k, v, their strides,
 * cu_seqlens_k and total_k are not looked at. Per-token and per-page scales are applied before the
 * values are rounded to dtype.
 */
struct attn_prefill_args {
    size_t size;          /**< sizeof(struct attn_prefill_args) */
    const void *q;        /**< [total_q, heads, head_dim] */
    const void *k;        /**< [total_k, kv_heads, head_dim] */
    const void *v;        /**< [total_k, kv_heads, head_dim_v] */
    void *out;            /**< [total_q, heads, head_dim_v] */
    float *lse;           /**< natural log, scale included; NULL without desc.lse */
    const float *sinks;   /**< [heads]; NULL without desc.sinks */
    const int32_t *cu_seqlens_q; /**< [batch + 1] on the device */
    const int32_t *cu_seqlens_k; /**< [batch + 1] on the device */
    const void *hook_arg; /**< for the user's logits function */
    int64_t q_token_stride, q_head_stride;
    int64_t k_token_stride, k_head_stride;
    int64_t v_token_stride, v_head_stride;
    int64_t out_token_stride, out_head_stride;
    int64_t lse_token_stride, lse_head_stride;
    int32_t batch;
    int32_t total_q;      /**< tokens that q, out and lse have room for */
    int32_t total_k;      /**< tokens that k and v have; 0: not said */
    int32_t max_seqlen_q; /**< no sequence has more queries */
    int32_t max_seqlen_k; /**< no sequence has more keys */
    float scale;          /**< multiplies q . k; 0: 1 / sqrt(head_dim) */
    float soft_cap;       /**< > 0 with desc.soft_cap */
    int32_t window_left;  /**< with ATTN_MASK_WINDOW; -1: no limit */
    int32_t window_right; /**< with ATTN_MASK_WINDOW; -1: no limit */
    void *workspace;      /**< attn_op_workspace_size() bytes on the device */
    size_t workspace_size;
    void *stream;         /**< hipStream_t of the op's device; NULL: its default stream,
                           * when the device is the thread's current one */
    struct attn_cache cache; /**< with desc.paged */
    struct attn_pages pages; /**< with desc.paged */
};

/**
 * Chooses and loads the kernel for a layer. The kernel whose key equals the descriptor comes first;
 * failing that, the cheapest that covers it: one for any GQA ratio, or any page size, then one with
 * a run-time window for a causal mask, then for none. The same packs and descriptor give the same
 * kernel. ATTN_NO_KERNEL names what is missing and the nearest kernel. Release with
 * attn_op_destroy().
 */
ATTN_PUBLIC int attn_prefill_lookup(struct attn_device *device,
                                    const struct attn_prefill_desc *desc, struct attn_op **op);

/**
 * Launches on args->stream and returns without waiting. Allocates nothing, takes no lock, makes no
 * system call of its own; any number of threads may launch the same op; may be captured into a
 * graph. An empty batch is success without a launch.
 */
ATTN_PUBLIC int attn_prefill_launch(const struct attn_op *op, const struct attn_prefill_args *args);

/* ---- Decode: a few new queries per sequence over a paged cache ---- */

/** What is fixed for a layer. */
struct attn_decode_desc {
    size_t size;           /**< sizeof(struct attn_decode_desc) */
    enum attn_dtype dtype; /**< of q and out: ATTN_BF16 or ATTN_FP16 */
    int32_t head_dim;
    int32_t head_dim_v;    /**< 0: head_dim */
    int32_t heads;         /**< query heads, a multiple of kv_heads */
    int32_t kv_heads;
    int32_t q_len;         /**< no sequence ever has more queries; 0: 1 */
    enum attn_mask mask;   /**< for one query, ATTN_MASK_NONE and ATTN_MASK_CAUSAL are the same */
    bool sinks;            /**< args->sinks joins the softmax denominator */
    bool soft_cap;         /**< scores pass through cap * tanh(score / cap) */
    bool lse;              /**< args->lse is written */
    struct attn_cache_desc cache;
    enum attn_page_table page_table;
};

/**
 * One call. Sequence s has the queries qo_indptr[s] .. qo_indptr[s + 1] - 1, or, where qo_indptr is
 * NULL, s * q_len .. s * q_len + q_len - 1; its newest kv_lens[s] keys are in the cache, those of
 * the queries among them. A query that sees no key gets output 0 and LSE -infinity, so kv_lens[s]
 * may be 0; the queries of a sequence never outnumber desc.q_len.
 *
 * Without a work list a workgroup takes a sequence and a kv head, and writes its result. With one,
 * workgroup w takes the items work_info[work_indptr[w]] .. work_info[work_indptr[w + 1] - 1], as
 * attn_decode_plan() lists them; an item that is part of a sequence writes its own normalised
 * output and the natural log of its denominator, without sinks, to partial_out and partial_lse, and
 * a combine launch makes the result of these.
 *
 * Strides are in elements; 0 stands for a contiguous [token, head, element] tensor (LSE: [head,
 * token]). The last dimension is contiguous; q, out and their strides in bytes are multiples of 16.
 * Everything that varies between replays of a captured graph is read from device memory: the grid
 * depends on batch, work_lists and the descriptor alone.
 */
struct attn_decode_args {
    size_t size;          /**< sizeof(struct attn_decode_args) */
    const void *q;        /**< [total_q, heads, head_dim] */
    void *out;            /**< [total_q, heads, head_dim_v] */
    float *lse;           /**< natural log, scale included; NULL without desc.lse */
    const float *sinks;   /**< [heads]; NULL without desc.sinks */
    struct attn_cache cache;
    struct attn_pages pages;
    const int32_t *qo_indptr;   /**< [batch + 1] on the device, or NULL */
    const uint8_t *custom_mask; /**< with ATTN_MASK_CUSTOM: 1 where a query sees a key; of query t
                                 * of sequence s from mask_indptr[s] + t * kv_lens[s] on */
    const int64_t *mask_indptr; /**< [batch + 1] on the device, with ATTN_MASK_CUSTOM */
    const int32_t *work_indptr; /**< [work_lists + 1] on the device, or NULL: no work list */
    const int32_t *work_info;   /**< [items, 8] on the device, 16-byte aligned */
    float *partial_out;   /**< [partial_rows, heads, head_dim_v], 16-byte aligned */
    float *partial_lse;   /**< [partial_rows, heads] */
    int64_t q_token_stride, q_head_stride;
    int64_t out_token_stride, out_head_stride;
    int64_t lse_token_stride, lse_head_stride;
    int32_t batch;
    int32_t total_q;      /**< tokens that q, out and lse have room for */
    int32_t q_len;        /**< a bound for a sequence's queries; 0: desc.q_len */
    int32_t work_lists;   /**< of work_indptr: workgroups to launch */
    int32_t partial_rows; /**< of partial_out, for ATTN_CHECK_DATA; 0: not said */
    float scale;          /**< multiplies q . k; 0: 1 / sqrt(head_dim) */
    float soft_cap;       /**< > 0 with desc.soft_cap */
    int32_t window_left;  /**< with ATTN_MASK_WINDOW; -1: no limit */
    int32_t window_right; /**< with ATTN_MASK_WINDOW; -1: no limit */
    void *stream;         /**< hipStream_t of the op's device; NULL: its default stream,
                           * when the device is the thread's current one */
};

/**
 * Chooses and loads the kernel for a layer. The kernel whose key equals the descriptor comes first;
 * failing that, the one with the smallest sum of costs: 1 for any page size, 1 for any GQA ratio, 2
 * for a run-time window in place of causal, 4 in place of none, and for a kernel of more queries 5
 * and 1 for each step to the next count of 2, 3, 4, 5, 6, 7, 8, 16, 32, 64. ATTN_NO_KERNEL names
 * what is missing and the nearest kernel. Release with attn_op_destroy().
 */
ATTN_PUBLIC int attn_decode_lookup(struct attn_device *device, const struct attn_decode_desc *desc,
                                   struct attn_op **op);

/** As attn_prefill_launch(): no allocation, no lock, no waiting; may be captured into a graph. */
ATTN_PUBLIC int attn_decode_launch(const struct attn_op *op, const struct attn_decode_args *args);

/* ---- Planning: how a decode batch becomes work lists ---- */

/** What stays the same from step to step. */
struct attn_decode_plan_shape {
    size_t size;       /**< sizeof(struct attn_decode_plan_shape) */
    int32_t batch;     /**< sequences, padding among them */
    int32_t q_len;     /**< no sequence has more queries */
    int32_t page_size; /**< a power of two */
    int32_t heads;     /**< a multiple of kv_heads, at most 65535 */
    int32_t kv_heads;
    int32_t lists;     /**< workgroups of the launch: a multiple of the GPU's compute units */
};

/** What a plan for any lengths has room for. */
struct attn_decode_plan_sizes {
    int32_t work_items;   /**< (batch + parts - 1) * kv_heads, parts = max(1, lists / kv_heads) */
    int32_t partials;     /**< min(batch + parts - 1, 2 * (parts - 1)) */
    int32_t partial_rows; /**< partials * q_len: of partial_out and partial_lse */
};

/** A step's lengths, in host memory. */
struct attn_decode_plan_lengths {
    const int32_t *kv_lens;   /**< [batch]; below 0 counts as 0 */
    const int32_t *qo_indptr; /**< [batch + 1], or NULL: every sequence has q_len queries */
    const int32_t *kv_indptr; /**< [batch + 1] for ATTN_PAGES_INDICES, NULL for a block table */
};

/**
 * A plan: the tensors that decode and combine read, as AITER's consumers do. Item i is
 * work_info[8 * i ..] = { sequence, first partial row or -1: the result is final, first query
 * token, their end, first page, their end, keys of the sequence behind, first query head | end of
 * query heads << 16 }. Pages count from the first of the sequence, with kv_indptr from that of
 * kv_indices. Sequence b, where it was cut, is made of the partial rows from
 * reduce_partial_map[reduce_indptr[b]] .. reduce_partial_map[reduce_indptr[b + 1] - 1] on.
 */
struct attn_decode_plan {
    int32_t *work_indptr;        /**< [lists + 1] */
    int32_t *work_info;          /**< [work_items, 8] */
    int32_t *reduce_indptr;      /**< [batch + 1] */
    int32_t *reduce_final_map;   /**< [batch, 2]: first query token of a sequence, and their end */
    int32_t *reduce_partial_map; /**< [partials] */
};

/** Bounds for the tensors of a plan, so that they can be allocated once. */
ATTN_PUBLIC int attn_decode_plan_sizes(const struct attn_decode_plan_shape *shape,
                                       struct attn_decode_plan_sizes *sizes);

/**
 * Cuts the keys of a batch into pieces of about the same cost, one launch's worth, and deals them
 * to the lists; docs/planning.md defines every integer, and the plan kernel writes the same ones on
 * the device. Host memory, and none of it allocated; what is behind the last item is not written.
 */
ATTN_PUBLIC int attn_decode_plan(const struct attn_decode_plan_shape *shape,
                                 const struct attn_decode_plan_lengths *lengths,
                                 const struct attn_decode_plan *plan);

/** Nothing about a plan is fixed for a layer: one kernel makes them all. */
struct attn_plan_desc {
    size_t size; /**< sizeof(struct attn_plan_desc) */
};

/** One call: the lengths and the plan are in device memory. */
struct attn_plan_args {
    size_t size;                          /**< sizeof(struct attn_plan_args) */
    struct attn_decode_plan_shape shape;
    struct attn_decode_plan_lengths lengths;
    struct attn_decode_plan plan;         /**< of attn_decode_plan_sizes(); work_info 16-byte
                                           * aligned */
    void *stream;                         /**< hipStream_t of the op's device; NULL: the default
                                           * stream */
};

/** Loads the plan kernel. Release with attn_op_destroy(). */
ATTN_PUBLIC int attn_plan_lookup(struct attn_device *device, const struct attn_plan_desc *desc,
                                 struct attn_op **op);

/**
 * Writes on the device, in one launch of one workgroup, what attn_decode_plan() writes on the host:
 * the lengths may change between replays of a captured graph, the shape not. The units of all
 * sequences together, max(page_size, 64) tokens each and two more for each sequence, are below
 * 2^31, and lists / kv_heads is at most 65471. An empty batch is success without a launch.
 */
ATTN_PUBLIC int attn_plan_launch(const struct attn_op *op, const struct attn_plan_args *args);

/* ---- Combine: partial attention outputs become one ---- */

/** Where the parts of an output are. */
enum attn_partials {
    ATTN_PARTIALS_CSR,   /**< rows of partial_out that a list per tile of tokens names: decode */
    ATTN_PARTIALS_DENSE, /**< partial_out [token, split, head, head_dim] */
    ATTN_PARTIALS_PAIR   /**< two tensors like out: chunked context, a shared prefix */
};

/** What is fixed for a layer. */
struct attn_combine_desc {
    size_t size;               /**< sizeof(struct attn_combine_desc) */
    enum attn_dtype dtype;     /**< ATTN_BF16 or ATTN_FP16: of out, prefix and suffix */
    enum attn_dtype out_dtype; /**< of out: 0 for dtype, or ATTN_FP8 */
    int32_t head_dim;          /**< of out */
    int32_t heads;             /**< query heads */
    enum attn_partials partials;
};

/**
 * One call. With o_k the output over some of the keys, normalised, and lse_k the natural log of its
 * softmax denominator,
 *
 *     out = sum_k exp(lse_k - L) o_k,   L = log(sum_k exp(lse_k) [+ exp(sinks[head])])
 *
 * and lse = L. A part with an lse of plus or minus infinity saw no key: its values are not used,
 * whatever they are. Where that is so of every part, out is 0 and lse minus infinity, or the sink.
 * fp8 is out / out_scale[0], saturated.
 *
 * CSR: tile t has the query tokens reduce_final_map[t][0] .. reduce_final_map[t][1] - 1 and a part
 * for each i of reduce_indptr[t] .. reduce_indptr[t + 1] - 1: for the j-th of its tokens, row
 * reduce_partial_map[i] + j. What belongs to a tile without parts is not touched.
 * DENSE: every token is written; splits from split_counts[token] on are not read.
 * PAIR: every token is written; out may be prefix or suffix itself, unless it is ATTN_FP8.
 *
 * Strides are in elements; 0 stands for a contiguous [token, head, element] tensor (LSE: [head,
 * token]). Strides of out, prefix and suffix are multiples of 8 elements. The grid depends on the
 * counts below and the descriptor alone: what varies between replays of a captured graph is read
 * from device memory.
 */
struct attn_combine_args {
    size_t size;              /**< sizeof(struct attn_combine_args) */
    void *out;                /**< [total_q, heads, head_dim], 16-byte aligned; ATTN_FP8: 8 */
    float *lse;               /**< [heads, total_q], or NULL: not written */
    const float *sinks;       /**< [heads], or NULL */
    const float *out_scale;   /**< [1] on the device, with ATTN_FP8 */
    const float *partial_out; /**< CSR: [row, heads, head_dim], 16-byte aligned; DENSE: [total_q,
                               * splits, heads, head_dim]; contiguous */
    const float *partial_lse; /**< the same without head_dim */
    const int32_t *reduce_indptr;      /**< CSR: [reduce_tiles + 1] on the device */
    const int32_t *reduce_final_map;   /**< CSR: [reduce_tiles, 2] on the device */
    const int32_t *reduce_partial_map; /**< CSR: on the device */
    const int32_t *split_counts;       /**< DENSE: [total_q] on the device, or NULL: all splits */
    const void *prefix;       /**< PAIR: [total_q, heads, head_dim] of desc.dtype */
    const void *suffix;       /**< PAIR: likewise */
    const float *prefix_lse;  /**< PAIR: [heads, total_q] */
    const float *suffix_lse;  /**< PAIR: likewise */
    int64_t out_token_stride, out_head_stride;
    int64_t lse_token_stride, lse_head_stride;
    int64_t prefix_token_stride, prefix_head_stride;
    int64_t suffix_token_stride, suffix_head_stride;
    int64_t prefix_lse_token_stride, prefix_lse_head_stride;
    int64_t suffix_lse_token_stride, suffix_lse_head_stride;
    int32_t total_q;          /**< tokens that out has; DENSE, PAIR: all are written */
    int32_t reduce_tiles;     /**< CSR: tiles, empty ones included */
    int32_t q_len;            /**< CSR: no tile has more tokens; 0: 1 */
    int32_t splits;           /**< DENSE: of every token in partial_out */
    int32_t partial_rows;     /**< CSR: of partial_out, for ATTN_CHECK_DATA; 0: not said */
    void *stream;             /**< hipStream_t of the op's device; NULL: the default stream */
};

/** Chooses and loads the kernel whose key equals the descriptor. Release with attn_op_destroy(). */
ATTN_PUBLIC int attn_combine_lookup(struct attn_device *device,
                                    const struct attn_combine_desc *desc, struct attn_op **op);

/** As attn_prefill_launch(): no allocation, no lock, no waiting; may be captured into a graph. */
ATTN_PUBLIC int attn_combine_launch(const struct attn_op *op, const struct attn_combine_args *args);
/* ---- What follows the QKV projection: bias, QK norm, rotary embedding, cache write ---- */

/** Which elements of a head rotate together, by the same angle. */
enum attn_rope {
    ATTN_ROPE_NONE, /**< none */
    ATTN_ROPE_NEOX, /**< elements i and i + rotary_dim / 2 */
    ATTN_ROPE_GPTJ  /**< elements 2 i and 2 i + 1 */
};

/** Which of rotary_dim / 2 pairs rotate by which of three positions: time, height, width. */
enum attn_mrope {
    ATTN_MROPE_NONE,       /**< one position */
    ATTN_MROPE_SECTIONS,   /**< the first sections[0] by time, the next sections[1] by height, the
                            * rest by width: Qwen2-VL, Qwen2.5-VL */
    ATTN_MROPE_INTERLEAVED /**< i % 3 == 1 and i < 3 sections[1] by height, i % 3 == 2 and
                            * i < 3 sections[2] by width, the rest by time: Qwen3-VL, Qwen3.5 */
};

enum attn_norm {
    ATTN_NORM_NONE,
    ATTN_NORM_RMS,       /**< per head: x / sqrt(mean(x^2) + eps) * w */
    ATTN_NORM_GEMMA_RMS, /**< per head: x / sqrt(mean(x^2) + eps) * (1 + w) */
    ATTN_NORM_FULL       /**< x / sqrt(squares / count + eps) * w, over the heads of all ranks */
};

/** What is fixed for a layer. */
struct attn_rope_qk_norm_cache_desc {
    size_t size;           /**< sizeof(struct attn_rope_qk_norm_cache_desc) */
    enum attn_dtype dtype; /**< of tensors that say nothing else: ATTN_BF16 or ATTN_FP16 */
    enum attn_dtype q_out_dtype; /**< of q_out: 0 for dtype, or ATTN_FP8: q / q_out_scale[0],
                                  * saturated */
    int32_t head_dim;      /**< of q, k and v */
    int32_t heads;         /**< query heads on this rank */
    int32_t kv_heads;
    enum attn_rope rope;
    int32_t rotary_dim;    /**< the first elements of a head, which rotate; 0: head_dim */
    enum attn_mrope mrope;
    bool cos_sin_short;    /**< cos_sin is of dtype, not float */
    enum attn_norm norm;   /**< of q and k */
    bool bias;             /**< a bias is added to q, k and v first */
    bool gate;             /**< each head of q is followed by its output gate, which goes to gate */
    bool keep_kv;          /**< k and v are also written to k_out and v_out */
    struct attn_cache_desc cache;
};

/**
 * One call, for `tokens` tokens of any sequences. Token t reads row positions[t] of the table
 * cos_sin, [position, rotary_dim]: the cosines of the rotary_dim / 2 pairs, then their sines. A
 * pair (a, b) becomes (a cos - b sin, b cos + a sin). Scaled variants (YaRN, Llama 3) are other
 * tables.
 *
 * k and v of token t go to slot slot_mapping[t] of the cache: page slot / page_size, offset slot %
 * page_size. A token with a negative slot is not cached; its q, and its k and v where they are
 * kept, are worked out all the same. Caches of ATTN_FP8 and ATTN_INT8 get k and v divided by their
 * scale, to nearest even and saturated: a scale per token and head is worked out, as the largest
 * absolute value over the largest number of the type, and stored; one per tensor, or per page and
 * head, is there already.
 *
 * Strides are in elements; 0 stands for a contiguous [token, head, element] tensor. q, k and v
 * may be parts of one tensor. The last dimension is contiguous; tensors and their strides in
 * bytes are multiples of 16, and a token's heads lie within 2 GiB. An output may be its own input
 * with the same strides, and overlaps nothing else.
 */
struct attn_rope_qk_norm_cache_args {
    size_t size;           /**< sizeof(struct attn_rope_qk_norm_cache_args) */
    const void *q;         /**< [tokens, heads, head_dim], desc.gate: [tokens, heads, 2 head_dim] */
    const void *k;         /**< [tokens, kv_heads, head_dim] */
    const void *v;         /**< [tokens, kv_heads, head_dim]; NULL: q and k only */
    void *q_out;           /**< [tokens, heads, head_dim]; NULL: q, in place */
    void *k_out;         /**< [tokens, kv_heads, head_dim], with desc.keep_kv; NULL: k */
    void *v_out;       /**< [tokens, kv_heads, head_dim], with desc.keep_kv; NULL: v */
    void *gate;            /**< [tokens, heads, head_dim], with desc.gate */
    struct attn_cache cache;
    const int64_t *slot_mapping; /**< [tokens] on the device; NULL: nothing is cached */
    const int64_t *positions;    /**< [tokens] on the device, with desc.mrope [3, tokens] */
    const void *cos_sin;         /**< [max_position, rotary_dim] on the device, with desc.rope */
    const float *q_out_scale;    /**< [1] on the device, with q_out of ATTN_FP8 */
    const void *q_weight;  /**< [head_dim]; ATTN_NORM_FULL: [heads, head_dim] */
    const void *k_weight;  /**< [head_dim]; ATTN_NORM_FULL: [kv_heads, head_dim] */
    const void *q_bias;    /**< [heads, head_dim], with desc.bias */
    const void *k_bias;    /**< [kv_heads, head_dim], with desc.bias */
    const void *v_bias;    /**< [kv_heads, head_dim], with desc.bias */
    const float *q_squares; /**< [tokens], ATTN_NORM_FULL: sum of squares of q over all ranks */
    const float *k_squares; /**< [tokens], ATTN_NORM_FULL: the same of k */
    int64_t q_token_stride, q_head_stride; /**< 0 with desc.gate: of [tokens, heads, 2 head_dim] */
    int64_t k_token_stride, k_head_stride;
    int64_t v_token_stride, v_head_stride;
    int64_t q_out_token_stride, q_out_head_stride;
    int64_t k_out_token_stride, k_out_head_stride;
    int64_t v_out_token_stride, v_out_head_stride;
    int64_t gate_token_stride, gate_head_stride;
    int64_t positions_stride; /**< from a row of [3, tokens] to the next; 0: tokens */
    int32_t sections[3];   /**< with desc.mrope: pairs of each position, rotary_dim / 2 in all */
    int32_t tokens;
    int32_t max_position;  /**< rows of cos_sin, for ATTN_CHECK_DATA; 0: not said */
    int32_t q_count;       /**< ATTN_NORM_FULL: elements that q_squares sums */
    int32_t k_count;       /**< ATTN_NORM_FULL: elements that k_squares sums */
    float eps;             /**< of the norm */
    void *stream;          /**< hipStream_t of the op's device; NULL: the default stream */
};

/**
 * Chooses and loads the kernel for a layer: the one whose key equals the descriptor; page size and
 * heads may be any. ATTN_NO_KERNEL names what is missing and the nearest kernel. Release with
 * attn_op_destroy().
 */
ATTN_PUBLIC int attn_rope_qk_norm_cache_lookup(struct attn_device *device,
                                               const struct attn_rope_qk_norm_cache_desc *desc,
                                               struct attn_op **op);

/** As attn_prefill_launch(): no allocation, no lock, no waiting; may be captured into a graph. */
ATTN_PUBLIC int attn_rope_qk_norm_cache_launch(const struct attn_op *op,
                                               const struct attn_rope_qk_norm_cache_args *args);

/* ---- Cache write: new keys and values into a paged cache ---- */

/** What is fixed for a layer. */
struct attn_cache_write_desc {
    size_t size;           /**< sizeof(struct attn_cache_write_desc) */
    enum attn_dtype dtype; /**< of k_in and v_in: ATTN_BF16 or ATTN_FP16 */
    int32_t head_dim;
    int32_t head_dim_v;    /**< 0: head_dim */
    int32_t kv_heads;
    struct attn_cache_desc cache;
};

/**
 * One call: row i of k_in and v_in goes to slot_mapping[i] = page * page_size + token, and nowhere
 * where that is negative. No two rows have the same slot. Nothing else of the cache is written.
 *
 * A cache of 16-bit numbers gets copies. ATTN_FP8 and ATTN_INT8 get x / scale, rounded to nearest
 * even; what is beyond the largest number becomes it, and a NaN stays one (of int8: 0). With
 * ATTN_KV_SCALE_TENSOR the scales are read. With ATTN_KV_SCALE_TOKEN they are written: the largest
 * |x| of the token and head divided by the largest number, and x is divided by at least 1e-12, as
 * reshape_and_cache_with_pertoken_quant of ROCm/aiter does.
 *
 * Strides are in elements; 0 stands for a contiguous [token, head, element] tensor. The last
 * dimension is contiguous; k_in, v_in and their strides in bytes are multiples of 16, and a token's
 * stride is at most 4 MiB. The grid depends on `tokens` and the descriptor alone.
 */
struct attn_cache_write_args {
    size_t size;          /**< sizeof(struct attn_cache_write_args) */
    const void *k_in;     /**< [tokens, kv_heads, head_dim] */
    const void *v_in;     /**< [tokens, kv_heads, head_dim_v] */
    struct attn_cache cache;
    const int64_t *slot_mapping; /**< [tokens] on the device, 8-byte aligned */
    int64_t k_in_token_stride, k_in_head_stride;
    int64_t v_in_token_stride, v_in_head_stride;
    int32_t tokens;
    void *stream;         /**< hipStream_t of the op's device; NULL: the default stream */
};

/** As attn_prefill_lookup(); a kernel for any page size covers at cost 1. */
ATTN_PUBLIC int attn_cache_write_lookup(struct attn_device *device,
                                        const struct attn_cache_write_desc *desc,
                                        struct attn_op **op);

/** As attn_prefill_launch(): no allocation, no lock, no waiting; may be captured into a graph. */
ATTN_PUBLIC int attn_cache_write_launch(const struct attn_op *op,
                                        const struct attn_cache_write_args *args);

/* ---- Cache gather: keys and values of sequences out of a paged cache ---- */

/** What is fixed for a layer. */
struct attn_cache_gather_desc {
    size_t size;           /**< sizeof(struct attn_cache_gather_desc) */
    enum attn_dtype dtype; /**< of k_out and v_out: ATTN_BF16 or ATTN_FP16 */
    int32_t head_dim;
    int32_t head_dim_v;    /**< 0: head_dim */
    int32_t kv_heads;
    struct attn_cache_desc cache;
    enum attn_page_table page_table;
};

/**
 * One call: token seq_starts[s] + i of sequence s becomes row cu_seqlens_k[s] + i of k_out and
 * v_out, for every i below cu_seqlens_k[s + 1] - cu_seqlens_k[s]: what is stored, times its scale,
 * rounded once. Nothing else is written. The last page of a sequence is read to its end.
 *
 * Strides are in elements; 0 stands for a contiguous [token, head, element] tensor. The last
 * dimension is contiguous; k_out, v_out and their strides in bytes are multiples of 16, and a
 * token's stride is at most 4 MiB. Everything that varies between replays of a captured graph is
 * read from device memory: the grid depends on batch, max_seqlen_k and the descriptor alone.
 */
struct attn_cache_gather_args {
    size_t size;          /**< sizeof(struct attn_cache_gather_args) */
    void *k_out;          /**< [total_k, kv_heads, head_dim] */
    void *v_out;          /**< [total_k, kv_heads, head_dim_v] */
    struct attn_cache cache;
    struct attn_pages pages; /**< kv_lens is for ATTN_CHECK_DATA alone, and may be NULL */
    const int32_t *cu_seqlens_k; /**< [batch + 1] on the device: rows of each sequence */
    const int32_t *seq_starts;   /**< [batch] on the device: its first token; NULL: 0 for all */
    int64_t k_out_token_stride, k_out_head_stride;
    int64_t v_out_token_stride, v_out_head_stride;
    int32_t batch;
    int32_t total_k;      /**< rows that k_out and v_out have room for */
    int32_t max_seqlen_k; /**< no sequence has more rows */
    void *stream;         /**< hipStream_t of the op's device; NULL: the default stream */
};

/** As attn_prefill_lookup(); a kernel for any page size covers at cost 1. */
ATTN_PUBLIC int attn_cache_gather_lookup(struct attn_device *device,
                                         const struct attn_cache_gather_desc *desc,
                                         struct attn_op **op);

/** As attn_prefill_launch(): no allocation, no lock, no waiting; may be captured into a graph. */
ATTN_PUBLIC int attn_cache_gather_launch(const struct attn_op *op,
                                         const struct attn_cache_gather_args *args);

/* ---- Metadata: arrays that attention reads, made of lengths and page numbers each step ---- */

/**
 * What is made. P is the page size; entry(s, i) is block_table[row * block_table_stride + i], a
 * page number, or, with table_of_slots, the entry i * P of that row divided by P; row is
 * request_rows[s], or s without them.
 */
enum attn_metadata {
    ATTN_METADATA_INDPTR,        /**< kv_indptr[s] = sum of ceil(kv_lens[i] / P) over i < s; with
                                  * P = 1 that of the lengths */
    ATTN_METADATA_KV_INDICES,    /**< kv_indices[kv_indptr[s] + i] = entry(s, kv_start[s] + i), up
                                  * to kv_indptr[s + 1] */
    ATTN_METADATA_PAGE_TABLE,    /**< page_table[s][i] = entry(s, i) for i < ceil(kv_lens[s] / P) */
    ATTN_METADATA_LAST_PAGE_LEN, /**< last_page_lens[s] = (kv_lens[s] - 1) mod P + 1; 0 of 0 */
    ATTN_METADATA_DRAFT_SLOTS    /**< kv_lens[s] += advance, then slot_mapping[s] =
                                  * block_table[s][n / P] * P + n mod P and positions[s] = n with
                                  * n = kv_lens[s] - 1: one step of a draft model */
};

struct attn_metadata_desc {
    size_t size;             /**< sizeof(struct attn_metadata_desc) */
    enum attn_metadata kind;
};

/**
 * One call. All arrays are on the device: lengths, pages and indptrs are int32; slots, positions
 * and rows int64, as engines have them. What the kind does not need may be NULL. Padding is safe:
 * nothing is copied for a sequence without pages, a length below 0 counts as 0, and a draft step
 * leaves a length of 0 or less alone, with slot -1 and position 0. What lies behind the last entry
 * is not touched. The grid depends on the counts here alone, so that the lengths may change between
 * replays of a captured graph.
 */
struct attn_metadata_args {
    size_t size;                 /**< sizeof(struct attn_metadata_args) */
    int32_t *kv_lens;            /**< [batch]; DRAFT_SLOTS: also written */
    const int32_t *block_table;  /**< [rows, block_table_stride]: page numbers or slots */
    const int64_t *request_rows; /**< KV_INDICES, PAGE_TABLE: [batch], or NULL */
    const int32_t *kv_start;     /**< KV_INDICES: [batch], or NULL: 0 */
    int32_t *kv_indptr;          /**< [batch + 1]: INDPTR writes, KV_INDICES reads it */
    int32_t *kv_indices;         /**< KV_INDICES: [kv_indptr[batch]] */
    int32_t *page_table;         /**< PAGE_TABLE: [batch, page_table_stride] */
    int32_t *last_page_lens;     /**< LAST_PAGE_LEN: [batch] */
    int64_t *slot_mapping;       /**< DRAFT_SLOTS: [batch] */
    int64_t *positions;          /**< DRAFT_SLOTS: [batch], or NULL */
    int64_t block_table_stride;  /**< entries of a row */
    int64_t page_table_stride;   /**< 0: entries */
    int32_t batch;
    int32_t page_size;           /**< a power of two */
    int32_t entries;             /**< KV_INDICES, PAGE_TABLE: no sequence has more; what would be
                                  * beyond is not copied */
    int32_t advance;             /**< DRAFT_SLOTS: 0 or more */
    bool table_of_slots;         /**< block_table names the slot of every token, as req_to_token
                                  * does: not for DRAFT_SLOTS */
    void *stream;                /**< hipStream_t of the op's device; NULL: the default stream */
};

/** Loads the kernel of a kind. Release with attn_op_destroy(). */
ATTN_PUBLIC int attn_metadata_lookup(struct attn_device *device,
                                     const struct attn_metadata_desc *desc, struct attn_op **op);

/** As attn_prefill_launch(): no allocation, no lock, no waiting; may be captured into a graph. */
ATTN_PUBLIC int attn_metadata_launch(const struct attn_op *op,
                                     const struct attn_metadata_args *args);
/* ---- Cache copy: pages of a paged cache into others ---- */

/** What is fixed for a layer. The cache's dtype is to be given. */
struct attn_cache_copy_desc {
    size_t size;           /**< sizeof(struct attn_cache_copy_desc) */
    int32_t head_dim;
    int32_t head_dim_v;    /**< 0: head_dim */
    int32_t kv_heads;
    struct attn_cache_desc cache;
};

/**
 * One call: page page_pairs[i][0] of `from` becomes page page_pairs[i][1] of `to`, K, V and, with a
 * scale per token or per block, the scales. A pair with a negative number is skipped. No page is
 * written twice, and none that is read is written. Bytes between the elements of a page are left
 * alone, in a page whose strides leave any.
 *
 * The two caches may differ in their pointers and page strides alone; with from.k NULL they are the
 * same. Both are memory that the GPU can address: its own, or of the host (hipHostMalloc). The grid
 * depends on `pairs` and the descriptor alone, and hipMemcpy is not used, so that pages may be
 * moved by a captured graph.
 */
struct attn_cache_copy_args {
    size_t size;          /**< sizeof(struct attn_cache_copy_args) */
    struct attn_cache from;
    struct attn_cache to;
    const int64_t *page_pairs; /**< [pairs, 2] on the device, 16-byte aligned */
    int32_t pairs;
    void *stream;         /**< hipStream_t of the op's device; NULL: the default stream */
};

/** As attn_prefill_lookup(); one kernel copies pages of every kind. */
ATTN_PUBLIC int attn_cache_copy_lookup(struct attn_device *device,
                                       const struct attn_cache_copy_desc *desc,
                                       struct attn_op **op);

/** As attn_prefill_launch(): no allocation, no lock, no waiting; may be captured into a graph. */
ATTN_PUBLIC int attn_cache_copy_launch(const struct attn_op *op,
                                       const struct attn_cache_copy_args *args);

#ifdef __cplusplus
}
#endif

#endif
