/* SPDX-License-Identifier: Apache-2.0
 *
 * The cache has one file per kernel, DIR/ab/cdef...: a header with a checksum, struct attnc_kernel
 * as raw bytes, and the code object. The struct's layout may change freely, because the compiler's
 * identity is part of the key.
 */
#include "compiler/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "compiler/place_file.h"
#include "targets/tgt.h"

#define MAGIC "attncobj"

enum { MAX_CODE = 64 << 20 };

/* The head of an entry's file. The kernel's code follows it. */
struct entry {
    char magic[8];
    uint64_t code_size;         /* bytes of code after this struct */
    uint64_t checksum;          /* XXH3 of `kernel`, seeded with the XXH3 of the code */
    struct attnc_kernel kernel; /* record of the kernel; its code.data is NULL */
};

/* Returns the checksum of a cache entry: the kernel's record and its code. */
static uint64_t checksum(const struct attnc_kernel *k, const void *code, size_t size)
{
    return XXH3_64bits_withSeed(k, sizeof(*k), XXH3_64bits(code, size));
}

/* Adds the contents of the file `path` to the hash `state`; a file that cannot be read adds
 * nothing. */
static void hash_file(XXH3_state_t *state, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0) {
        void *bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (bytes != MAP_FAILED) {
            XXH3_64bits_update(state, bytes, (size_t)st.st_size);
            munmap(bytes, (size_t)st.st_size);
        }
    }
    if (fd >= 0)
        close(fd);
}

/* Adds path, size and modification time of a file to the hash `state`, instead of the contents:
 * libraries are too large to read in each build. A missing file adds nothing. */
static void hash_stat(XXH3_state_t *state, const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return;
    int64_t facts[] = {st.st_size, st.st_mtim.tv_sec, st.st_mtim.tv_nsec};
    XXH3_64bits_update(state, path, strlen(path));
    XXH3_64bits_update(state, facts, sizeof(facts));
}

/* Adds the GNU build ID of a loaded library to the hash `state`; returns false if it has none. */
static bool hash_build_id(const struct dl_phdr_info *info, XXH3_state_t *state)
{
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_NOTE)
            continue;
        const char *notes = (const char *)(info->dlpi_addr + segment->p_vaddr);
        size_t pad = segment->p_align == 8 ? 8 : 4;
        for (size_t at = 0; at + sizeof(ElfW(Nhdr)) <= segment->p_memsz;) {
            ElfW(Nhdr) note;
            memcpy(&note, notes + at, sizeof(note));
            size_t name = at + sizeof(note);
            size_t value = name + (note.n_namesz + pad - 1) / pad * pad;
            at = value + (note.n_descsz + pad - 1) / pad * pad;
            if (at > segment->p_memsz)
                break;
            if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != sizeof("GNU") ||
                memcmp(notes + name, "GNU", sizeof("GNU")))
                continue;
            XXH3_64bits_update(state, notes + value, note.n_descsz);
            return true;
        }
    }
    return false;
}

/* Adds a loaded library to the hash `state`: its build ID, else path, size and modification time of
 * its file. Leaves out libattn, which launches kernels and compiles none, and names without a
 * slash: the main program and the vDSO. A callback of dl_iterate_phdr(); returns 0 to go on. */
static int hash_library(struct dl_phdr_info *info, size_t size, void *state)
{
    (void)size;
    const char *name = strrchr(info->dlpi_name, '/');
    if (!name || strncmp(name, "/libattn.so", strlen("/libattn.so")) == 0)
        return 0;
    if (!hash_build_id(info, state))
        hash_stat(state, info->dlpi_name);
    return 0;
}

uint64_t attnc_compiler_identity(void)
{
    XXH3_state_t *state = XXH3_createState();
    if (!state)
        return 0;
    XXH3_64bits_reset(state);
    hash_file(state, "/proc/self/exe");
    dl_iterate_phdr(hash_library, state);
    uint64_t identity = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return identity;
}

struct attnc_cache_key attnc_cache_key(uint64_t identity, const struct att_variant *v,
                                       const struct tgt_blob *hooks)
{
    struct {
        uint64_t identity, hooks;
        char text[ATT_TEXT_MAX], tile[ATT_TILE_TEXT_MAX];
    } all = {.identity = identity};
    struct att_tile tile;
    all.hooks = hooks->size ? XXH3_64bits(hooks->data, hooks->size) : 0;
    att_variant_text(v, all.text);
    if (v->fitted && att_find_tile(v, &tgt_find(v->target)->machine, &tile, NULL))
        att_tile_text(v->op, &tile, all.tile);
    XXH128_hash_t hash = XXH3_128bits(&all, sizeof(all));
    struct attnc_cache_key key;
    snprintf(key.text, sizeof(key.text), "%016llx%016llx", (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
    return key;
}

/* Writes to `path` the path of the entry `key` in the cache `dir`; returns false if it is too
 * long. */
static bool entry_path(char path[PATH_MAX], const char *dir, const struct attnc_cache_key *key)
{
    return snprintf(path, PATH_MAX, "%s/%.2s/%s", dir, key->text, key->text + 2) < PATH_MAX;
}

/* Reads exactly `size` bytes from `fd`; returns false at the end of the file or on an error. */
static bool read_exactly(int fd, void *bytes, size_t size)
{
    for (size_t at = 0; at < size;) {
        ssize_t n = read(fd, (char *)bytes + at, size - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += (size_t)n;
    }
    return true;
}

/* Writes exactly `size` bytes to `fd`; returns false on an error. */
static bool write_exactly(int fd, const void *bytes, size_t size)
{
    for (size_t at = 0; at < size;) {
        ssize_t n = write(fd, (const char *)bytes + at, size - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        at += (size_t)n;
    }
    return true;
}

/* True if a cache entry is undamaged: its checksum, name and argument count are valid. */
static bool is_whole(const struct entry *e, const void *code)
{
    return checksum(&e->kernel, code, e->code_size) == e->checksum &&
           memchr(e->kernel.name, '\0', sizeof(e->kernel.name)) &&
           e->kernel.arg_count <= ATTNC_MAX_ARGS;
}

bool attnc_cache_load(const char *dir, const struct attnc_cache_key *key, struct attnc_kernel *out)
{
    char path[PATH_MAX];
    if (!entry_path(path, dir, key))
        return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    struct entry e;
    void *code = NULL;
    if (read_exactly(fd, &e, sizeof(e)) && memcmp(e.magic, MAGIC, sizeof(e.magic)) == 0 &&
        e.code_size > 0 && e.code_size <= MAX_CODE)
        code = malloc(e.code_size);
    bool good = code && read_exactly(fd, code, e.code_size) && is_whole(&e, code);
    if (good)
        futimens(fd, NULL); /* records the time of last use, for attnc_cache_trim() */
    close(fd);
    if (!good) {
        free(code);
        return false;
    }
    *out = e.kernel;
    out->code = (struct tgt_blob){code, e.code_size};
    return true;
}

bool attnc_cache_store(const char *dir, const struct attnc_cache_key *key,
                       const struct attnc_kernel *k)
{
    char path[PATH_MAX], temporary[PATH_MAX];
    if (!entry_path(path, dir, key) ||
        snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path) >= (int)sizeof(temporary)) {
        errno = ENAMETOOLONG;
        return false;
    }
    if (!attnc_make_parents(path))
        return false;

    struct entry e = {.code_size = k->code.size};
    memcpy(e.magic, MAGIC, sizeof(e.magic));
    memcpy(&e.kernel, k, sizeof(e.kernel));
    e.kernel.code = (struct tgt_blob){0};
    e.checksum = checksum(&e.kernel, k->code.data, k->code.size);
    int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0)
        return false;
    const bool good =
        write_exactly(fd, &e, sizeof(e)) && write_exactly(fd, k->code.data, k->code.size);
    return attnc_place_file(fd, good, temporary, path);
}
