/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc on-gpu: everything that the first person with an MI300X or MI355X has to run. It runs other
 * commands of attnc in a new folder, and packs the folder. If a step fails, the next steps still
 * run.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/place_file.h"
#include "compiler/read_file.h"
#include "targets/tgt.h"
#include "tools/attnc/cli/clock.h"
#include "tools/attnc/cli/command.h"
#include "tools/attnc/cli/output.h"
#include "tools/attnc/cli/pack_file.h"
#include "tools/attnc/on_gpu/archive.h"
#include "tools/attnc/on_gpu/copy_hooks.h"
#include "tools/attnc/on_gpu/machine.h"
#include "tools/attnc/on_gpu/step.h"

/* Most descriptions, most bytes of an input file, bytes of a command line, default of --budget in
 * seconds. */
enum { MOST_DESCRIPTIONS = 16, MOST_BYTES = 16 << 20, LINE = 1024, BUDGET = 900 };

/* Lines of first.yaml and short.yaml, the descriptions without an operand; NULL at the end. */
extern const char *const on_gpu_first[], *const on_gpu_short[];

static struct {
    const char *output, *device, *target, *shapes, *budget;
    bool is_short;
} args;

static const struct option_row options[] = {
    {"output", 'o', "ARCHIVE", "the archive (default: on-gpu.tar.gz); its folder lies beside it",
     &args.output, NULL},
    {"device", 0, "DEVICE",
     "hip: the GPU of this machine (default); sim: the simulator, to see what happens",
     &args.device, NULL},
    {"target", 0, "GFX", "with --device sim: which GPU is simulated (default: gfx942)",
     &args.target, NULL},
    {"shapes", 0, "FILE", "of bench and tune, lines of \"prefill batch=1,q=512\"", &args.shapes,
     NULL},
    {"budget", 0, "SECONDS", "of the tuning (default: 900)", &args.budget, NULL},
    {"short", 0, NULL, "few shapes, tiles and runs: shows in two minutes that everything works",
     NULL, &args.is_short},
    {0},
};

/* The commands of attnc that on-gpu runs. Variables in a command are replaced: $D by the
 * descriptions, $G by the target, $V by the device. $S is replaced by the option --shapes, $H by
 * --hooks, $B by the budget in seconds. With --short the options `brief` are added. */
static const struct step {
    const char *name, *line, *brief;
    /* Estimated seconds of the step, and the part for each kernel of the pack. No GPU has measured
     * them. */
    double seconds, kernel_seconds;
} steps[] = {
    {"build", "build $D --target $G -o plain.attnpack -q", "", 1, 1},
    {"verify", "verify plain.attnpack --device $V $H -q --save verify.json", "--shapes 1", 5, 10},
    {"bench", "bench plain.attnpack --device $V --json $S", "--seconds 0.5 --flush 16", 5, 8},
    {"loops", "probes --device $V --target $G -o " ARCHIVE_LOOPS, "", 90, 0},
    {"tune",
     "tune $D --target $G --device $V $S $H --budget $B -o tuned.attnpack --db " ARCHIVE_DB
     " --shard 1/1",
     "--tiles 1 --verify 1 --seconds 1 --flush 1", 0, 0},
};
/* The number of steps; the index of the step "tune". */
enum { STEPS = sizeof(steps) / sizeof(steps[0]), TUNE = STEPS - 1 };

/* A run of attnc on-gpu. */
struct visit {
    char folder[PATH_MAX]; /* the archive's name without its suffix */
    const char *archive;   /* path of the archive */
    /* Path of hipsim; NULL: the machine's GPU. */
    const char *simulator;
    struct machine_gpu gpu;
    char descriptions[MOST_DESCRIPTIONS][PATH_MAX]; /* absolute paths */
    size_t description_count;
    char shapes[PATH_MAX]; /* absolute path of the file given by --shapes; "": none */
    char hooks[PATH_MAX];  /* absolute path of the folder of the descriptions' hooks; "": none */
    char budget[16];       /* seconds for the step "tune", as a number */
    int status[STEPS];     /* exit status of each step; -1: not run */
    double seconds[STEPS]; /* seconds that each step took */
};

/* Writes `size` bytes to the file `name` in the folder. Returns an exit_code after a message. */
static int write_to(const struct visit *v, const char *name, const void *bytes, size_t size)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/%s", v->folder, name) >= (int)sizeof(path))
        return complain(EXIT_USER, "on-gpu: the path of %s is too long", name);
    return write_output(path, bytes, size);
}

/* Copies the file at `path` into the folder as `name`. Returns an exit_code after a message. */
static int copy_in(const struct visit *v, const char *path, const char *name)
{
    char *bytes;
    size_t size;
    if (!attnc_read_file(path, MOST_BYTES, &bytes, &size))
        return complain(EXIT_ENVIRONMENT, "%s: %s", path, strerror(errno));
    const int code = write_to(v, name, bytes, size);
    free(bytes);
    return code;
}

/* Writes the built-in description into the folder's part for descriptions and makes it the only
 * description. Returns an exit_code after a message. */
static int write_own(struct visit *v)
{
    const char *const *lines = args.is_short ? on_gpu_short : on_gpu_first;
    struct output o;
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/" ARCHIVE_DESCRIPTIONS "/first.yaml", v->folder) >=
            (int)sizeof(path) ||
        begin_output(&o) != EXIT_GOOD)
        return EXIT_ENVIRONMENT;
    for (; *lines; lines++)
        fprintf(o.out, "%s\n", *lines);
    const int code = end_output(&o, path, EXIT_GOOD);
    if (code == EXIT_GOOD && realpath(path, v->descriptions[0]))
        v->description_count = 1;
    return code;
}

/* Returns the name of description i in the archive: the last part of its path. */
static const char *name_of(const struct visit *v, unsigned i)
{
    return strrchr(v->descriptions[i], '/') + 1;
}

/* Sets v->descriptions to the real paths of the `argc` descriptions argv[]. Their names in the
 * archive must differ. Returns an exit_code after a message. */
static int find_descriptions(struct visit *v, int argc, char **argv)
{
    if (argc > MOST_DESCRIPTIONS)
        return complain(EXIT_USER, "on-gpu: %d descriptions, at most %d are taken", argc,
                        MOST_DESCRIPTIONS);
    for (int i = 0; i < argc; i++) {
        if (!realpath(argv[i], v->descriptions[i]))
            return complain(EXIT_USER, "%s: %s", argv[i], strerror(errno));
        for (int k = 0; k < i; k++)
            if (!strcmp(name_of(v, k), name_of(v, i)))
                return complain(EXIT_USER,
                                "on-gpu: %s and %s have the same name in the archive; rename one",
                                v->descriptions[k], v->descriptions[i]);
    }
    v->description_count = argc;
    return EXIT_GOOD;
}

/* Makes the folder ARCHIVE_DESCRIPTIONS in v->folder, and copies the user's descriptions and their
 * hooks there, for attnc calibrate. Writes the built-in description if the user names none. The
 * steps read the user's files, not the copies. Returns an exit_code after a message. */
static int take_descriptions(struct visit *v)
{
    char folder[PATH_MAX], path[PATH_MAX];
    if (snprintf(folder, sizeof(folder), "%s/" ARCHIVE_DESCRIPTIONS, v->folder) >=
        (int)sizeof(folder))
        return complain(EXIT_USER, "on-gpu: the path of %s is too long", v->folder);
    if (mkdir(folder, 0777) != 0)
        return complain(EXIT_ENVIRONMENT, "%s: %s", folder, strerror(errno));
    if (!v->description_count)
        return write_own(v);
    for (unsigned i = 0; i < v->description_count; i++) {
        snprintf(path, sizeof(path), ARCHIVE_DESCRIPTIONS "/%s", name_of(v, i));
        int code = copy_in(v, v->descriptions[i], path);
        if (code == EXIT_GOOD)
            code = copy_hooks(v->descriptions[i], v->gpu.id.target, folder, v->hooks);
        if (code != EXIT_GOOD)
            return code;
    }
    return EXIT_GOOD;
}

/* Chooses the GPU or the simulator by --device and reads the facts of the GPU. Returns an exit_code
 * after a message. */
static int find_device(struct visit *v)
{
    static char simulator[PATH_MAX];
    char why[200];
    bool hip = true;
    if (read_device_name(args.device, &hip))
        return EXIT_USER;
    if (!hip) {
        if (!gpu_find_simulator(simulator, sizeof(simulator)))
            return complain(EXIT_ENVIRONMENT, "this attnc was installed without the simulator");
        v->simulator = simulator;
    }
    if (!machine_find_gpu(v->simulator, args.target ? args.target : "gfx942", &v->gpu, why))
        return complain(EXIT_ENVIRONMENT,
                        "on-gpu: no GPU: %s; --device sim shows on a simulated one what happens",
                        why);
    if (!tgt_find(v->gpu.id.target))
        return complain(EXIT_USER, "on-gpu: the GPU is a %s, for which attnc has no kernels",
                        v->gpu.id.target);
    return EXIT_GOOD;
}

/* Makes the folder that the archive will contain: "x" for "x.tar.gz". Returns an exit_code after a
 * message. */
static int make_folder(struct visit *v)
{
    static const char suffix[] = ".tar.gz";
    v->archive = args.output ? args.output : "on-gpu.tar.gz";
    const size_t length = strlen(v->archive), cut = strlen(suffix);
    if (length <= cut || strcmp(v->archive + length - cut, suffix) != 0 || length >= PATH_MAX)
        return complain(EXIT_USER, "on-gpu: expected the archive's name to end in %s, saw '%s'",
                        suffix, v->archive);
    snprintf(v->folder, sizeof(v->folder), "%.*s", (int)(length - cut), v->archive);
    if (mkdir(v->folder, 0777) == 0)
        return EXIT_GOOD;
    return complain(EXIT_ENVIRONMENT, "%s: %s%s", v->folder, strerror(errno),
                    errno == EEXIST ? "; remove it, or name another archive with -o" : "");
}

/* Appends an option and its value to a command line; nothing if the value is "". */
static void add_option(struct step_line *line, const char *option, const char *value)
{
    if (!value[0])
        return;
    step_add(line, option);
    step_add(line, value);
}

/* Appends a word of a step's table to a command line. A variable, which begins with $, is replaced
 * by its words. */
static void add_word(const struct visit *v, struct step_line *line, const char *word)
{
    if (!strcmp(word, "$D")) {
        for (size_t i = 0; i < v->description_count; i++)
            step_add(line, v->descriptions[i]);
    } else if (!strcmp(word, "$S")) {
        add_option(line, "--shapes", v->shapes);
    } else if (!strcmp(word, "$H")) {
        add_option(line, "--hooks", v->hooks);
    } else {
        step_add(line, !strcmp(word, "$G")   ? v->gpu.id.target
                       : !strcmp(word, "$V") ? v->simulator ? "sim" : "hip"
                       : !strcmp(word, "$B") ? v->budget
                                             : word);
    }
}

/* Prints a step's command line. Absolute paths become the file names that the archive has. */
static void print_line(FILE *out, const struct step_line *line)
{
    fputs("attnc", out);
    for (size_t i = 1; i < line->count; i++) {
        const char *slash = line->words[i][0] == '/' ? strrchr(line->words[i], '/') : NULL;
        fprintf(out, " %s", slash ? slash + 1 : line->words[i]);
    }
}

/* Returns the command line of step `n`. Its words point into `text`, which the caller provides, and
 * into `v`. */
static struct step_line make_line(const struct visit *v, size_t n, char text[LINE])
{
    struct step_line words = {0}, line = {0};
    snprintf(text, LINE, "%s%s%s", steps[n].line, args.is_short && steps[n].brief[0] ? " " : "",
             args.is_short ? steps[n].brief : "");
    step_add_text(&words, text);
    step_add(&line, NULL);
    for (size_t i = 0; i < words.count; i++)
        add_word(v, &line, words.words[i]);
    return line;
}

/* Prints the number of kernels that the first step has built, and an estimate of the minutes that
 * the others take. */
static void print_estimate(const struct visit *v)
{
    char path[PATH_MAX];
    struct attn_pack *pack = NULL;
    double seconds = atof(v->budget);
    if (snprintf(path, sizeof(path), "%s/plain.attnpack", v->folder) >= (int)sizeof(path) ||
        open_pack(path, &pack) != EXIT_GOOD)
        return;
    const uint32_t kernels = attn_pack_kernel_count(pack);
    for (size_t i = 1; i < STEPS; i++)
        seconds += steps[i].seconds + kernels * steps[i].kernel_seconds;
    attn_pack_close(pack);
    if (args.is_short)
        fprintf(stderr, "%u kernel%s, about two minutes\n", kernels, kernels == 1 ? "" : "s");
    else
        fprintf(stderr,
                "%u kernels, about %.0f minutes, %.0f of them to tune (an estimate: no GPU has "
                "run this)\n",
                kernels, seconds / 60 + 0.5, atof(v->budget) / 60);
}

/* Prints the last line of the standard error of step `n`. */
static void print_failure(const struct visit *v, size_t n)
{
    char path[PATH_MAX], line[300], last[300] = "";
    if (snprintf(path, sizeof(path), "%s/%s.err", v->folder, steps[n].name) >= (int)sizeof(path))
        return;
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof(line), f))
        memcpy(last, line, sizeof(last));
    if (f)
        fclose(f);
    fprintf(stderr, "    %s%s", last, last[0] && last[strlen(last) - 1] == '\n' ? "" : "\n");
}

/* Runs all steps in their order; stops only if the first, the build, fails. Returns how many
 * failed. */
static size_t run_steps(struct visit *v)
{
    size_t failed = 0;
    char text[LINE], title[64];
    for (size_t i = 0; i < STEPS; i++) {
        const struct step_line line = make_line(v, i, text);
        const double start = steady_seconds();
        snprintf(title, sizeof(title), "[%zu/%d] %s", i + 1, (int)STEPS, steps[i].name);
        if (!isatty(STDERR_FILENO))
            fprintf(stderr, "%s ...\n", title);
        v->status[i] = step_run(&line, v->folder, steps[i].name, title, false);
        v->seconds[i] = steady_seconds() - start;
        const bool good = v->status[i] == EXIT_GOOD || v->status[i] == EXIT_PARTIAL;
        fprintf(stderr, "%s: %s, %.0f s\n", title,
                v->status[i] == EXIT_GOOD ? "good"
                : good                    ? "good, in part"
                                          : "FAILED",
                v->seconds[i]);
        if (!good)
            print_failure(v, i);
        failed += !good;
        if (i == 0 && !good) /* the other steps need the pack */
            break;
        if (i == 0)
            print_estimate(v);
    }
    return failed;
}

/* Writes the command line, exit status and seconds of each step as the JSON list "steps". */
static void write_steps(struct json *j, const struct visit *v)
{
    char text[LINE];
    json_begin_list(j, "steps");
    for (size_t i = 0; i < STEPS; i++) {
        const struct step_line line = make_line(v, i, text);
        char *words = NULL;
        size_t size;
        FILE *out = open_memstream(&words, &size);
        if (out) {
            print_line(out, &line);
            fclose(out);
        }
        json_begin_object(j, NULL);
        json_string(j, "name", steps[i].name);
        json_string(j, "command", words);
        if (v->status[i] < 0)
            json_null(j, "status");
        else
            json_integer(j, "status", v->status[i]);
        json_real(j, "seconds", v->seconds[i]);
        json_end(j);
        free(words);
    }
    json_end(j);
}

/* Writes on-gpu.json: the date, the machine, the descriptions and the steps. Returns an exit_code
 * after a message. */
static int write_facts(const struct visit *v)
{
    char date[40], path[PATH_MAX];
    const time_t now = time(NULL);
    struct output o;
    strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    if (snprintf(path, sizeof(path), "%s/" ARCHIVE_FACTS, v->folder) >= (int)sizeof(path) ||
        begin_output(&o) != EXIT_GOOD)
        return EXIT_ENVIRONMENT;
    struct json j = {.out = o.out};
    json_begin_object(&j, NULL);
    json_integer(&j, "format", 1);
    json_string(&j, "date", date);
    json_string(&j, "attnc", ATTNC_PROVENANCE);
    json_flag(&j, "simulated", v->gpu.id.simulated);
    json_string(&j, "device", v->simulator ? "sim" : "hip"); /* the argument of --device */
    json_flag(&j, "short", args.is_short);
    machine_write(&j, &v->gpu);
    json_begin_list(&j, "descriptions");
    for (size_t i = 0; i < v->description_count; i++)
        json_string(&j, NULL, strrchr(v->descriptions[i], '/') + 1);
    json_end(&j);
    write_steps(&j, v);
    json_end(&j);
    return end_output(&o, path, EXIT_GOOD);
}

/* Writes the archive, a compressed tar file of the folder. Returns an exit_code after a message. */
static int pack_folder(const struct visit *v)
{
    char parent[PATH_MAX], archive[PATH_MAX];
    const char *slash = strrchr(v->folder, '/');
    const char *name = slash ? slash + 1 : v->folder;
    const char *file = strrchr(v->archive, '/');
    snprintf(parent, sizeof(parent), "%.*s", slash ? (int)(slash - v->folder) + 1 : 1,
             slash ? v->folder : ".");
    snprintf(archive, sizeof(archive), "%s", file ? file + 1 : v->archive);
    struct step_line line = {0};
    const char *const words[] = {"tar", "-czf", archive, name};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        step_add(&line, words[i]);
    if (step_run(&line, parent, "tar", "", true) == 0)
        return EXIT_GOOD;
    return complain(EXIT_ENVIRONMENT, "on-gpu: tar failed; the results are in %s", v->folder);
}

/* Reads the options, finds the device, makes the folder and copies the inputs into it. Returns an
 * exit_code after a message. */
static int prepare(struct visit *v, int argc, char **argv)
{
    long budget = args.is_short ? 60 : BUDGET;
    int code = read_number("on-gpu", "budget", args.budget, 1, 1000000, &budget);
    snprintf(v->budget, sizeof(v->budget), "%ld", budget);
    if (code == EXIT_GOOD && args.shapes && !realpath(args.shapes, v->shapes))
        code = complain(EXIT_USER, "%s: %s", args.shapes, strerror(errno));
    if (code == EXIT_GOOD)
        code = find_descriptions(v, argc, argv);
    if (code == EXIT_GOOD)
        code = find_device(v);
    if (code == EXIT_GOOD)
        code = make_folder(v);
    if (code == EXIT_GOOD)
        code = take_descriptions(v);
    if (code == EXIT_GOOD && v->shapes[0])
        code = copy_in(v, v->shapes, ARCHIVE_SHAPES);
    return code;
}

/* Runs `attnc on-gpu`. */
static int run(int argc, char **argv)
{
    struct visit *v = calloc(1, sizeof(*v));
    if (!v)
        return complain(EXIT_ENVIRONMENT, "out of memory");
    for (size_t i = 0; i < STEPS; i++)
        v->status[i] = -1;
    int code = prepare(v, argc, argv);
    if (code == EXIT_GOOD) {
        fprintf(stderr, "%s (%s%s), HIP %d from %s\n", v->gpu.id.name, v->gpu.id.target,
                v->gpu.id.simulated ? ", SIMULATED" : "", v->gpu.id.hip_version, v->gpu.id.library);
        const size_t failed = run_steps(v);
        code = write_facts(v);
        if (code == EXIT_GOOD)
            code = pack_folder(v);
        if (code == EXIT_GOOD)
            printf("%s\n", v->archive);
        if (code == EXIT_GOOD && failed)
            code = complain(EXIT_PARTIAL, "on-gpu: %zu of %d steps failed; the archive says why",
                            failed, (int)STEPS);
    }
    free(v);
    return code;
}

const struct command command_on_gpu = {
    .name = "on-gpu",
    .usage = "[DESC]... [-o ARCHIVE] [OPTION]...",
    .summary = "Verify, measure and tune on this machine's GPU, and leave one archive",
    .details =
        "Builds the kernels of the descriptions, or a dozen of its own, for the first GPU, "
        "verifies\n"
        "and times them, runs the loops of `attnc probes`, and tunes them. The archive names the\n"
        "GPU, driver, HIP and ROCm and says whether the device was simulated; `attnc calibrate`\n"
        "reads it, on any machine. A step that fails or hangs is noted and the others go on.\n"
        "Status 3: the archive is written, and a step has failed. See docs/first-gpu.md.",
    .options = options,
    .run = run,
};
