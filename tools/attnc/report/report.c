/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc report: writes an HTML page about one or two packs. Other commands of attnc print the data
 * as JSON, and the page's own script draws it.
 */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/process.h"
#include "compiler/read_file.h"
#include "runtime/attn.h"
#include "tools/attnc/cli/children.h"
#include "tools/attnc/cli/command.h"
#include "tools/attnc/trace/hot_loop.h"
#include "tools/attnc/cli/json.h"
#include "tools/attnc/cli/output.h"
#include "tools/attnc/cli/pack_file.h"
#include "tools/attnc/report/page.h"

/* Most packs of a page, most modelled launches of a kernel, most shapes of an op, most bytes of
 * JSON. */
enum { MAX_PACKS = 2, MAX_LAUNCHES = 2, MAX_SHAPES = 8, MAX_JSON = 256 << 20 };

/* The lines of report_page.html, NULL at the end. */
extern const char *const report_page[];

static struct {
    const char *output, *jobs, *verified, *hooks;
    bool no_verify, no_trace;
} args;

static const struct option_row options[] = {
    {"output", 'o', "FILE", "the page (default: report.html)", &args.output, NULL},
    {"jobs", 'j', "N", "kernels to model at once (default: 1)", &args.jobs, NULL},
    {"verified", 0, "FILE", "what `attnc verify PACK --json` printed, in place of a new run",
     &args.verified, NULL},
    {"hooks", 0, "DIR", "where the C files of kernels with a logits function are", &args.hooks,
     NULL},
    {"no-verify", 0, NULL, "do not verify", NULL, &args.no_verify},
    {"no-trace", 0, NULL, "do not model launches: no roofline, no hot loops", NULL, &args.no_trace},
    {0},
};

/* Shapes of the launches that are modelled, by op. libattn chooses between the kernels of one key
 * by the number of queries. So a kernel is modelled with the first two shapes for which it is
 * chosen. If there are none, the first two of all are used. %d is replaced by the number of query
 * heads. For other ops `attnc trace` chooses the shape. */
static const struct op_shapes {
    const char *op, *shapes[MAX_SHAPES];
} shapes[] = {
    {"prefill",
     {"q=512,kv_heads=8,heads=%d", "q=1024,kv_heads=8,heads=%d", "q=2048,kv_heads=8,heads=%d",
      "q=4096,kv_heads=8,heads=%d", "q=256,kv_heads=8,heads=%d", "q=64,kv_heads=8,heads=%d",
      "q=16,kv_heads=8,heads=%d", "batch=32,q=512,kv_heads=8,heads=%d"}},
    {"decode",
     {"batch=4,k=1024,kv_heads=8,heads=%d", "batch=16,k=1024,kv_heads=8,heads=%d",
      "batch=1,k=4096,kv_heads=8,heads=%d", "batch=64,k=1024,kv_heads=8,heads=%d",
      "batch=64,k=256,kv_heads=8,heads=%d"}},
    {"combine",
     {"tokens=64,parts=4,heads=%d", "tokens=2048,parts=2,heads=%d", "tokens=2,parts=64,heads=%d",
      "tokens=12,parts=16,heads=%d", "tokens=6,parts=16,heads=%d", "tokens=3,parts=16,heads=%d"}},
};

/* A pack whose launches are being modelled. */
struct modelled {
    const char *path;
    struct attn_pack *pack;
    struct json *json;
    /* Temporary file with a line for each kernel, its name, a tab and its hot loop as JSON. Written
     * after the traces. */
    FILE *listings;
};

/* Returns the path of this program. */
static const char *self(void)
{
    static char path[PATH_MAX];
    attnc_program_path(path);
    return path;
}

/* Runs attnc with `argv`, NULL at the end, and writes the JSON that it prints as member `key`.
 * Returns an exit_code. */
static int embed_command(struct json *j, const char *key, const char *const argv[])
{
    struct tgt_blob out, err;
    int status;
    if (!attnc_run_process(argv, &out, &err, &status))
        return complain(EXIT_ENVIRONMENT, "%s: %s", argv[0], strerror(errno));
    /* A verification that found errors has still printed its rows. */
    const bool good = out.size > 1 && (out.data[0] == '{' || out.data[0] == '[');
    if (good) {
        out.data[out.size - 1] = '\0'; /* the line break */
        json_raw(j, key, (const char *)out.data);
    } else {
        fwrite(err.data, 1, err.size, stderr);
    }
    tgt_blob_free(&out);
    tgt_blob_free(&err);
    return good ? EXIT_GOOD : status == EXIT_USER ? EXIT_USER : EXIT_ENVIRONMENT;
}

/* Writes the member "verification": the file given by --verified, null with --no-verify, or a new
 * run of `attnc verify` on the pack at `path`. Returns an exit_code after a message. */
static int embed_verification(struct json *j, const char *path)
{
    if (args.verified) {
        char *text;
        size_t size;
        if (!attnc_read_file(args.verified, MAX_JSON, &text, &size))
            return complain(EXIT_ENVIRONMENT, "%s: %s", args.verified, strerror(errno));
        while (size && isspace((unsigned char)text[size - 1]))
            size--;
        const bool object = size > 1 && text[0] == '{' && text[size - 1] == '}';
        char *whole = object ? strndup(text, size) : NULL;
        free(text);
        if (!whole)
            return complain(EXIT_USER, "%s: not what `attnc verify --json` prints", args.verified);
        json_raw(j, "verification", whole);
        free(whole);
        return EXIT_GOOD;
    }
    if (args.no_verify) {
        json_null(j, "verification");
        return EXIT_GOOD;
    }
    const char *argv[] = {self(),     "verify", path, "--json", args.hooks ? "--hooks" : NULL,
                          args.hooks, NULL};
    return embed_command(j, "verification", argv);
}

/* Returns the number of query heads that go with 8 KV heads: the kernel's GQA ratio times 8; 32 if
 * the kernel takes any ratio. */
static int query_heads(const struct attn_pack *pack, uint32_t n, uint32_t field_count)
{
    for (uint32_t i = 0; i < field_count; i++) {
        const char *field, *value;
        if (attn_pack_kernel_field(pack, n, i, &field, &value) == ATTN_OK &&
            !strcmp(field, "gqa") && atoi(value) > 0)
            return 8 * atoi(value);
    }
    return 32;
}

/* Runs `attnc trace` for one launch and prints its report as a line of JSON. `shape` NULL: the op's
 * default. With `chosen` only if libattn chooses the kernel for the shape. `annotate` is the file
 * that gets the annotated code. Returns false if there is no report. */
static bool model_launch(const struct modelled *m, const char *kernel, const char *shape,
                         bool chosen, const char *annotate)
{
    struct tgt_blob out, err;
    int status;
    const char *argv[13] = {self(),   "trace",          m->path,      kernel,
                            "--json", "--samples-only", "--annotate", annotate};
    int count = 8;
    if (chosen)
        argv[count++] = "--chosen";
    if (shape) {
        argv[count++] = "--shape";
        argv[count++] = shape;
    }
    if (!attnc_run_process(argv, &out, &err, &status))
        return false;
    /* the output is a list with one report, whose first line is "[" */
    const char *line = strchr((const char *)out.data, '{');
    const char *end = line ? strrchr(line, '}') : NULL;
    if (status == 0 && end)
        printf("{\"chosen\": %s, %.*s\n", chosen ? "true" : "false", (int)(end - line), line + 1);
    tgt_blob_free(&out);
    tgt_blob_free(&err);
    return status == 0 && end;
}

/* Models launches of kernel `n` on the shapes of `list`, at most MAX_LAUNCHES. `chosen` and
 * `annotate` are passed to model_launch(). Returns how many were modelled. */
static int model_shapes(const struct modelled *m, uint32_t n, const struct attn_kernel_info *info,
                        const struct op_shapes *list, bool chosen, const char *annotate)
{
    int count = 0;
    for (int s = 0; s < MAX_SHAPES && list->shapes[s] && count < MAX_LAUNCHES; s++) {
        char shape[100];
        snprintf(shape, sizeof(shape), list->shapes[s], query_heads(m->pack, n, info->field_count));
        count += model_launch(m, info->name, shape, chosen, annotate);
    }
    return count;
}

/* Models kernel `n` in a child process: prints a line of JSON for each launch, then its hot loop.
 * `context` is the struct modelled. Returns an exit_code. */
static int model_kernel(void *context, size_t n, struct child_report *report)
{
    struct modelled *m = context;
    struct attn_kernel_info info = {.size = sizeof(info)};
    char annotated[] = "/tmp/attnc-report-XXXXXX";
    const int fd = mkstemp(annotated);
    bool modelled = false;
    if (fd < 0 || attn_pack_kernel(m->pack, (uint32_t)n, &info) != ATTN_OK)
        return EXIT_ENVIRONMENT;
    close(fd);
    child_step(report, info.name);
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        for (int chosen = 1; chosen >= 0 && !modelled && !strcmp(shapes[i].op, info.op); chosen--)
            modelled = model_shapes(m, (uint32_t)n, &info, &shapes[i], chosen, annotated) > 0;
    }
    if (!modelled)
        modelled = model_launch(m, info.name, NULL, true, annotated) ||
                   model_launch(m, info.name, NULL, false, annotated);
    if (modelled)
        print_hot_loop(annotated, info.name, stdout);
    unlink(annotated);
    return EXIT_GOOD;
}

/* Adds, in the parent, the output of a kernel's child to the JSON: lines that begin with '{' are
 * launches. The others, the hot loop, go to the file of listings. */
static void collect_kernel(void *context, size_t n, FILE *printed, const size_t results[])
{
    struct modelled *m = context;
    char *line = NULL;
    size_t size = 0;
    (void)n, (void)results;
    for (ssize_t length; (length = getline(&line, &size, printed)) > 0;) {
        if (line[0] != '{') {
            fputs(line, m->listings);
            continue;
        }
        line[length - 1] = '\0';
        json_raw(m->json, NULL, line);
    }
    free(line);
}

/* Returns the name of kernel `n` for messages. `context` is the struct modelled. */
static const char *name_kernel(void *context, size_t n)
{
    const struct modelled *m = context;
    struct attn_kernel_info info = {.size = sizeof(info)};
    return attn_pack_kernel(m->pack, (uint32_t)n, &info) == ATTN_OK ? info.name : "kernel";
}

/* Writes the file of listings as the JSON object "listings": each line is a name, a tab and a JSON
 * value. */
static void embed_listings(struct json *j, FILE *listings)
{
    char *line = NULL;
    size_t size = 0;
    rewind(listings);
    json_begin_object(j, "listings");
    for (ssize_t length; (length = getline(&line, &size, listings)) > 0;) {
        char *tab = strchr(line, '\t');
        if (!tab)
            continue;
        line[length - 1] = *tab = '\0';
        json_raw(j, line, tab + 1);
    }
    json_end(j);
    free(line);
}

/* Models each kernel of the pack in child processes, and writes the list "traces" and the object
 * "listings". Returns an exit_code. */
static int embed_traces(struct json *j, struct attn_pack *pack, const char *path, unsigned jobs)
{
    struct modelled m = {.path = path, .pack = pack, .json = j, .listings = tmpfile()};
    if (!m.listings)
        return complain(EXIT_ENVIRONMENT, "no temporary file: %s", strerror(errno));
    const size_t count = args.no_trace ? 0 : attn_pack_kernel_count(pack);
    const struct children children = {
        .parts = count,
        .jobs = jobs,
        .steps = count,
        .work = model_kernel,
        .collect = collect_kernel,
        .name = name_kernel,
        .context = &m,
    };
    json_begin_list(j, "traces");
    const int code = run_children(&children);
    json_end(j);
    embed_listings(j, m.listings);
    fclose(m.listings);
    return code;
}

/* Writes the JSON object of one pack: its path, kernels, verification, traces and listings. Returns
 * an exit_code after a message. */
static int embed_pack(struct json *j, const char *path, unsigned jobs)
{
    struct attn_pack *pack;
    const char *file;
    int code = open_pack(path, &pack);
    if (code != EXIT_GOOD)
        return code;
    code = attn_pack_check(pack) == ATTN_OK
               ? pack_for_children(path, &file)
               : complain(EXIT_USER, "%s: %s", path, attn_last_error());
    if (code != EXIT_GOOD) {
        attn_pack_close(pack);
        return code;
    }
    const char *list[] = {self(), "list", file, "--json", NULL};
    json_begin_object(j, NULL);
    json_string(j, "path", path);
    code = embed_command(j, "kernels", list);
    if (code == EXIT_GOOD)
        code = embed_verification(j, file);
    if (code == EXIT_GOOD)
        code = embed_traces(j, pack, file, jobs);
    json_end(j);
    attn_pack_close(pack);
    return code;
}

/* Writes the page about the `count` packs to the file `output`. Returns an exit_code after a
 * message. */
static int report(int count, char **paths, const char *output, unsigned jobs)
{
    struct page page;
    int code = begin_page(&page);
    if (code != EXIT_GOOD)
        return code;
    json_begin_list(&page.json, "packs");
    for (int i = 0; i < count && code == EXIT_GOOD; i++)
        code = embed_pack(&page.json, paths[i], jobs);
    json_end(&page.json);
    return end_page(&page, report_page, output, code);
}

extern const struct command command_report;

/* Runs `attnc report`. */
static int run(int argc, char **argv)
{
    const char *output = args.output ? args.output : "report.html";
    unsigned jobs = 1;
    if (argc < 1 || argc > MAX_PACKS)
        return wrong_operands(&command_report, argc, argv);
    if (args.jobs && !parse_jobs("report", args.jobs, &jobs))
        return EXIT_USER;
    if (args.verified && argc > 1)
        return complain(EXIT_USER, "report: --verified is about one pack, not two");
    for (int i = 0; i < argc; i++)
        note_input(argv[i]);
    if (args.verified)
        note_input(args.verified);
    const int code = check_output(output);
    return code == EXIT_GOOD ? report(argc, argv, output, jobs) : code;
}

const struct command command_report = {
    .name = "report",
    .usage = "PACK [PACK] [-o FILE] [OPTION]...",
    .summary = "Write an HTML page about a pack, or about two side by side",
    .options = options,
    .details =
        "The page shows the registers and LDS of each kernel, whether it is right, how far from\n"
        "the rooflines the simulator's timing model sees it, where its time goes, and its hot "
        "loop.\n"
        "Times are modelled, not measured. The page needs no network; report.html#KERNEL opens "
        "one\n"
        "kernel. A verification that fails is shown, and is no error here.\n",
    .run = run,
};
