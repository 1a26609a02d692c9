/* SPDX-License-Identifier: Apache-2.0 */
#include "debug.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "debug_show.h"
#include "decode.h"
#include "gdb.h"

/* Limits of the debugger, and numbers of what it prints. */
enum {
    BREAKS_MAX = 32,
    ADDRESSES_MAX = 64,
    WATCHES_MAX = 16,
    LINE_BYTES = 256,
    TRAIL_SHOWN = 10,
    POLL_PERIOD = 4096 /* instructions between two checks whether the client has sent something */
};

/* A place to stop at, as the user has written it, and its addresses in the current launch. */
struct place {
    char kernel[128]; /* part of the kernel's name; empty: any kernel */
    unsigned line;    /* source line; 0: the place is at `offset` */
    int64_t offset;   /* bytes from the kernel's entry */
    bool fixed;       /* true: a client has set an address, which is the same in every launch */
    uint64_t addresses[ADDRESSES_MAX];
    unsigned naddresses;
};

/* A range of bytes whose stores stop a wave: in LDS (byte offset) or in global memory (address). */
struct watched {
    bool lds;
    uint64_t address, bytes;
};

struct debugger {
    FILE *in, *out;
    struct gdb *gdb;      /* server of a client that replaces `in` and `out`; NULL: none */
    uint64_t observed;    /* number of executed instructions, for POLL_PERIOD */
    pthread_mutex_t lock; /* locked during a launch */
    struct observer observer;
    const struct launch *launch;
    /* source lines of the launch; all members are NULL between launches */
    struct debug_lines lines;
    struct place places[BREAKS_MAX];
    unsigned nplaces;
    struct watched watches[WATCHES_MAX];
    unsigned nwatches;
    /* Numbers of the workgroup and of the wave that may stop; negative: any. */
    int64_t only_workgroup, only_wave;
    uint64_t steps; /* instructions until the stepped wave stops; 0: no wave is stepped */
    /* The wave that is stepped: number of its workgroup, and its number in it. */
    uint64_t stepped_workgroup;
    uint32_t stepped_wave;
};

static const char help[] =
    "c            continue\n"
    "s [N]        execute N instructions (1) of this wave\n"
    "b PLACE      stop at KERNEL, KERNEL:LINE, KERNEL+BYTES, :LINE or +BYTES of this kernel\n"
    "d            delete all places and watched bytes\n"
    "w ADDR [N]   stop after a store to one of N bytes (4) at a global address, or at lds:OFFSET\n"
    "g WG [WAVE]  stop in this workgroup and wave only; g alone: in all\n"
    "p REG...     print registers: v5, v5[3] (lane 3), a0, s[4:7], vcc, exec, scc, m0, pc; p f "
    "REG...: as "
    "floats\n"
    "x ADDR [N]   print N dwords (8) of global memory; l OFFSET [N]: of LDS\n"
    "t [N]        print the last N instructions (10) of this wave\n"
    "i            print where this wave is\n"
    "q            end the program\n";

/* The functions from here on read places and find them in kernels. */

/* Parses "KERNEL", "KERNEL:LINE" or "KERNEL+BYTES" to *p. False if the text is none of these. */
static bool read_place(const char *text, struct place *p)
{
    const char *mark = strpbrk(text, ":+");
    char *end = NULL;
    *p = (struct place){.line = 0};
    snprintf(p->kernel, sizeof(p->kernel), "%.*s",
             (int)(mark ? (size_t)(mark - text) : strlen(text)), text);
    if (!mark)
        return *text != 0;
    const uint64_t number = strtoull(mark + 1, &end, 0);
    if (*mark == ':')
        p->line = (unsigned)number;
    else
        p->offset = (int64_t)number;
    return end != mark + 1 && !*end && (*mark == '+' || p->line > 0);
}

/* Sets the place's addresses in the current launch. */
static void resolve(const struct debugger *d, struct place *p)
{
    if (p->fixed)
        return;
    p->naddresses = 0;
    if (!d->launch || (*p->kernel && !strstr(d->launch->kernel, p->kernel)))
        return;
    if (!p->line)
        p->addresses[p->naddresses++] =
            d->launch->entry_pc + (uint64_t)p->offset + (p->offset ? 0 : d->launch->entry_skip);
    else if (d->lines.find)
        p->naddresses = d->lines.find(d->lines.ctx, p->line, p->addresses, ADDRESSES_MAX);
    if (!p->naddresses)
        fprintf(d->out, "line %u has no code in kernel %s\n", p->line, d->launch->kernel);
}

/* Adds a breakpoint at the place in `text`. False if the text is invalid or there are too many. */
static bool add_place(struct debugger *d, const char *text)
{
    if (d->nplaces == BREAKS_MAX || !read_place(text, &d->places[d->nplaces]))
        return false;
    resolve(d, &d->places[d->nplaces++]);
    return true;
}

/* True if there is a breakpoint at the address `pc`. */
static bool is_place(const struct debugger *d, uint64_t pc)
{
    for (unsigned i = 0; i < d->nplaces; i++)
        for (unsigned j = 0; j < d->places[i].naddresses; j++)
            if (d->places[i].addresses[j] == pc)
                return true;
    return false;
}

/* Returns the watched bytes that the access stores to; NULL if there are none. */
static const struct watched *touched(const struct debugger *d, const struct mem_access *access)
{
    for (unsigned i = 0; access->is_store && i < d->nwatches; i++) {
        const struct watched *w = &d->watches[i];
        if (access->space != (w->lds ? ACCESS_LDS : ACCESS_GLOBAL))
            continue;
        for (uint64_t lanes = access->lanes; lanes; lanes &= lanes - 1) {
            const uint64_t at = access->addr[__builtin_ctzll(lanes)];
            if (at < w->address + w->bytes && w->address < at + access->bytes)
                return w;
        }
    }
    return NULL;
}

/* The functions from here on execute commands. */

/* Adds a watched range, "[lds:]ADDRESS [BYTES]". False if the text is invalid or there are too
 * many. */
static bool add_watch(struct debugger *d, const char *text)
{
    struct watched w = {.lds = strncmp(text, "lds:", 4) == 0, .bytes = 4};
    char *end;
    const char *number = text + (w.lds ? 4 : 0);
    w.address = strtoull(number, &end, 0);
    if (end == number || d->nwatches == WATCHES_MAX)
        return false;
    if (*end == ' ')
        w.bytes = strtoull(end + 1, &end, 0);
    if (*end || w.bytes == 0 || w.address + w.bytes < w.address)
        return false;
    d->watches[d->nwatches++] = w;
    return true;
}

/* Parses "A" or "A B"; a number that is missing keeps its value. False if there is other text. */
static bool read_numbers(const char *text, uint64_t *a, uint64_t *b)
{
    char *end = (char *)(uintptr_t)text;
    if (*text)
        *a = strtoull(text, &end, 0);
    if (*end == ' ')
        *b = strtoull(end + 1, &end, 0);
    return !*end;
}

/* Restricts breakpoints to the workgroup and wave in `text`. False if the text is invalid. */
static bool take_focus(struct debugger *d, const char *text)
{
    uint64_t workgroup = UINT64_MAX, wave = UINT64_MAX;
    if (!read_numbers(text, &workgroup, &wave))
        return false;
    d->only_workgroup = (int64_t)workgroup;
    d->only_wave = (int64_t)wave;
    return true;
}

/* Sets the number of instructions after which the wave stops again. */
static void step(struct debugger *d, const struct wave *w, uint64_t instructions)
{
    d->steps = instructions;
    d->stepped_workgroup = w->wg->index;
    d->stepped_wave = w->id;
}

/* Starts as many steps as `text` has, by default one. False if the text is invalid. */
static bool read_step(struct debugger *d, const struct wave *w, const char *text)
{
    uint64_t unused, n = 1;
    if (!read_numbers(text, &n, &unused) || !n)
        return false;
    step(d, w, n);
    return true;
}

/* Prints dwords of memory or LDS by "ADDRESS [COUNT]". False if the text is invalid. */
static bool print_dwords(struct debugger *d, const struct wave *w, bool lds, const char *text)
{
    uint64_t at = 0, n = 8;
    if (!*text || !read_numbers(text, &at, &n) || n > 4096)
        return false;
    if (lds)
        debug_show_lds(d->out, w->wg, at, (unsigned)n);
    else
        debug_show_memory(d->out, at, (unsigned)n);
    return true;
}

/* Executes one command. Sets *resumes if the wave continues. False if the command is unknown. */
static bool execute(struct debugger *d, const struct wave *w, char command, const char *text,
                    bool *resumes)
{
    uint64_t n = TRAIL_SHOWN, unused;
    switch (command) {
    case 'c': *resumes = true; return true;
    case 's': return *resumes = read_step(d, w, text);
    case 'b': return add_place(d, text);
    case 'd': d->nplaces = d->nwatches = 0; return true;
    case 'w': return add_watch(d, text);
    case 'g': return take_focus(d, text);
    case 'p': debug_show_registers(d->out, w, text); return *text != 0;
    case 'x': return print_dwords(d, w, false, text);
    case 'l': return print_dwords(d, w, true, text);
    case 't':
        if (!read_numbers(text, &n, &unused))
            return false;
        debug_show_trail(d->out, w, (unsigned)n);
        return true;
    case 'i': debug_show_place(d->out, w, &d->lines); return true;
    case 'q': fflush(d->out); exit(0);
    default: fputs(help, d->out); return command == 'h';
    }
}

/* Reads and executes commands until one resumes the wave. At the end of the input, removes all
 * places and watched bytes. */
static void converse(struct debugger *d, const struct wave *w)
{
    char line[LINE_BYTES];
    bool resumes = false;
    while (!resumes) {
        if (isatty(fileno(d->in)))
            fputs("(hipsim) ", d->out);
        fflush(d->out);
        if (!fgets(line, sizeof(line), d->in)) {
            d->nplaces = d->nwatches = 0;
            return;
        }
        line[strcspn(line, "\n")] = 0;
        const char *text = line + (*line ? strcspn(line, " ") : 0);
        text += *text == ' ';
        if (*line && !execute(d, w, *line, text, &resumes))
            fprintf(d->out, "not understood: %s (h lists the commands)\n", line);
    }
}

/* The functions from here on serve a client of GDB's protocol. */

/* Adds or removes a place: gdb_ops.place(). */
static bool change_place(void *ctx, uint64_t address, bool add)
{
    struct debugger *d = ctx;
    for (unsigned i = 0; i < d->nplaces; i++) {
        if (!d->places[i].fixed || d->places[i].addresses[0] != address)
            continue;
        if (!add)
            d->places[i] = d->places[--d->nplaces];
        return true;
    }
    if (!add || d->nplaces == BREAKS_MAX)
        return false;
    d->places[d->nplaces++] =
        (struct place){.fixed = true, .addresses = {address}, .naddresses = 1};
    return true;
}

/* Adds or removes watched bytes: gdb_ops.watch(). */
static bool change_watch(void *ctx, uint64_t address, uint64_t bytes, bool lds, bool add)
{
    struct debugger *d = ctx;
    for (unsigned i = 0; i < d->nwatches; i++) {
        const struct watched *w = &d->watches[i];
        if (w->lds != lds || w->address != address || w->bytes != bytes)
            continue;
        if (!add)
            d->watches[i] = d->watches[--d->nwatches];
        return true;
    }
    if (!add || d->nwatches == WATCHES_MAX)
        return false;
    d->watches[d->nwatches++] = (struct watched){.lds = lds, .address = address, .bytes = bytes};
    return true;
}

/* Executes a command of the prompt for the client: gdb_ops.command(). Refuses `c`, `s` and `q`, for
 * which the client has commands of its own. */
static void execute_for_client(void *ctx, const struct wave *w, const char *text, FILE *out)
{
    struct debugger *d = ctx;
    FILE *const usual = d->out;
    const char *rest = text + strcspn(text, " ");
    bool resumes;
    d->out = out;
    if (*text && strchr("csq", *text))
        fputs("the client's own commands resume and end the program\n", out);
    else if (!execute(d, w, *text, rest + (*rest == ' '), &resumes))
        fprintf(out, "not understood: %s (h lists the commands)\n", text);
    d->out = usual;
}

/* Answers the client's requests until one resumes the wave, and sets the step that it requests. */
static void converse_remotely(struct debugger *d, const struct wave *w,
                              const struct watched *watched, bool interrupted)
{
    const struct gdb_ops ops = {d, change_place, change_watch, execute_for_client};
    const struct gdb_stop why = {
        .interrupted = interrupted,
        .stored = watched != NULL,
        .address = watched ? watched->address + (watched->lds ? SHARED_APERTURE : 0) : 0};
    d->steps = 0;
    const struct gdb_wish wish = gdb_converse(d->gdb, w, &why, &ops);
    switch (wish.action) {
    case GDB_CONTINUE: break;
    case GDB_STEP: step(d, wish.wave, 1); break;
    case GDB_DETACH: d->nplaces = d->nwatches = 0; break;
    case GDB_KILL: exit(EXIT_FAILURE);
    }
}

/* The functions from here on observe the waves. */

/* True if breakpoints apply to the wave. */
static bool is_focus(const struct debugger *d, const struct wave *w)
{
    return (d->only_workgroup < 0 || (uint64_t)d->only_workgroup == w->wg->index) &&
           (d->only_wave < 0 || (uint64_t)d->only_wave == w->id);
}

/* Stops a wave after its store to `watched`, or if that is NULL before its next instruction. */
static void stop(struct debugger *d, const struct wave *w, const struct watched *watched)
{
    if (d->gdb) {
        converse_remotely(d, w, watched, false);
        return;
    }
    if (watched)
        fprintf(d->out, "%s 0x%llx was stored to; now at ", watched->lds ? "lds" : "address",
                (unsigned long long)watched->address);
    else
        fputs("stopped before ", d->out);
    debug_show_place(d->out, w, &d->lines);
    converse(d, w);
}

/* Stops after an instruction at a breakpoint, a watched store or the last step. */
static void after(void *ctx, const struct wave *w, const struct inst *in,
                  const struct mem_access *access)
{
    struct debugger *d = ctx;
    const bool stepped =
        d->steps && d->stepped_workgroup == w->wg->index && d->stepped_wave == w->id;
    (void)in;
    if (w->state == WAVE_ENDED) {
        if (stepped && !d->gdb)
            fputs("the wave has ended\n", d->out);
        d->steps = stepped ? 0 : d->steps;
        return;
    }
    const struct watched *watched = is_focus(d, w) ? touched(d, access) : NULL;
    const bool ends_step = stepped && --d->steps == 0;
    if (watched || ends_step || (is_focus(d, w) && is_place(d, w->pc)))
        stop(d, w, watched);
    else if (d->gdb && ++d->observed % POLL_PERIOD == 0 && gdb_interrupted(d->gdb))
        converse_remotely(d, w, NULL, true);
}

/* Stops the waves of a workgroup that begin at a breakpoint. */
static void begin(void *ctx, struct workgroup *wg)
{
    struct debugger *d = ctx;
    for (uint32_t i = 0; i < wg->nwaves; i++)
        if (is_focus(d, wg->waves[i]) && is_place(d, wg->waves[i]->pc))
            stop(d, wg->waves[i], NULL);
}

struct debugger *debug_create(const char *place, FILE *in, FILE *out)
{
    struct debugger *d = calloc(1, sizeof(*d));
    if (!d)
        return NULL;
    d->in = in;
    d->out = out;
    d->only_workgroup = d->only_wave = -1;
    d->observer = (struct observer){.ctx = d, .workgroup_begin = begin, .inst = after};
    pthread_mutex_init(&d->lock, NULL);
    if (add_place(d, place))
        return d;
    debug_destroy(d);
    return NULL;
}

void debug_destroy(struct debugger *d)
{
    if (!d)
        return;
    free(d->gdb);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

bool debug_listen(struct debugger *d, const char *address, char *why, size_t why_size)
{
    d->gdb = gdb_listen(address, d->out, why, why_size);
    return d->gdb != NULL;
}

void debug_hang_up(struct debugger *d, int status)
{
    if (d->gdb)
        gdb_close(d->gdb, status);
}

bool debug_begin(struct debugger *d, struct launch *launch, const struct debug_lines *lines)
{
    if (pthread_mutex_trylock(&d->lock) != 0)
        return false;
    d->launch = launch;
    d->lines = *lines;
    d->steps = 0;
    for (unsigned i = 0; i < d->nplaces; i++)
        resolve(d, &d->places[i]);
    launch->observer = &d->observer;
    launch->threads = 1;
    return true;
}

void debug_end(struct debugger *d)
{
    d->launch = NULL;
    d->lines = (struct debug_lines){0};
    pthread_mutex_unlock(&d->lock);
}
