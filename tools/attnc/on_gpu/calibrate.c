/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc calibrate: fits the timing model to an archive of attnc on-gpu. First each loop of attnc
 * probes determines a parameter. Then the launches that tune has measured determine the parameters
 * that are still open.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/process.h"
#include "compiler/read_file.h"
#include "compiler/yaml.h"
#include "targets/tgt.h"
#include "tools/attnc/cli/command.h"
#include "tools/attnc/on_gpu/archive.h"
#include "tools/attnc/on_gpu/step.h"

/* Most bytes of on-gpu.json, most descriptions of an archive, bytes of the text of parameters. */
enum { MOST_BYTES = 1 << 20, MOST_DESCRIPTIONS = 16, TEXT = 2048 };

/* An archive that is being read, unpacked in a temporary folder. */
struct visit {
    char folder[PATH_MAX]; /* folder that has on-gpu.json */
    char *bytes;           /* contents of on-gpu.json, owned */
    struct attnc_yaml yaml;
    /* Parameters that fit the loops, in the form of --parameters; "": none has changed. */
    char parameters[TEXT];
    char descriptions[MOST_DESCRIPTIONS][PATH_MAX]; /* paths of descriptions in `folder` */
};

/* Returns the value of `key` in a YAML map; NULL if it is absent or `map` is NULL or no map. */
static const struct attnc_yaml_node *find(const struct visit *v, const struct attnc_yaml_node *map,
                                          const char *key)
{
    if (!map || map->kind != ATTNC_YAML_MAP)
        return NULL;
    for (uint32_t id = map->first; id;) {
        const struct attnc_yaml_node *n = attnc_yaml_node(&v->yaml, id);
        const uint32_t value = v->yaml.nodes[id].next;
        if (n->kind == ATTNC_YAML_SCALAR && !strcmp(attnc_yaml_text(&v->yaml, n), key))
            return attnc_yaml_node(&v->yaml, value);
        id = v->yaml.nodes[value].next;
    }
    return NULL;
}

/* Returns the text of `key` in the member `object` of on-gpu.json; at its top if `object` is NULL.
 * Returns "?" if the key is absent or null. */
static const char *text_at(const struct visit *v, const char *object, const char *key)
{
    const struct attnc_yaml_node *map = attnc_yaml_node(&v->yaml, 1);
    const struct attnc_yaml_node *n = find(v, object ? find(v, map, object) : map, key);
    const char *text = n && n->kind == ATTNC_YAML_SCALAR ? attnc_yaml_text(&v->yaml, n) : "null";
    return strcmp(text, "null") ? text : "?";
}

/* Reads and checks on-gpu.json. Returns an exit_code after a message. */
static int read_facts(struct visit *v)
{
    char path[PATH_MAX];
    size_t size;
    struct attnc_diag d = {.file = ARCHIVE_FACTS};
    if (snprintf(path, sizeof(path), "%s/" ARCHIVE_FACTS, v->folder) >= (int)sizeof(path) ||
        !attnc_read_file(path, MOST_BYTES, &v->bytes, &size))
        return complain(EXIT_USER, "calibrate: no archive of attnc on-gpu: it has no "
                                   "on-gpu/" ARCHIVE_FACTS);
    const bool good = attnc_yaml_parse(&v->yaml, v->bytes, size, &d) && v->yaml.count > 1 &&
                      !strcmp(text_at(v, NULL, "format"), "1") &&
                      tgt_find(text_at(v, "gpu", "target"));
    attnc_diag_clear(&d);
    return good ? EXIT_GOOD
                : complain(EXIT_USER, "calibrate: " ARCHIVE_FACTS " is not of this version of "
                                      "attnc, or its target is unknown");
}

/* Prints the GPU, driver and date of an archive, and the steps that failed. */
static void print_facts(const struct visit *v)
{
    const bool simulated = strcmp(text_at(v, NULL, "simulated"), "false") != 0;
    printf("%s (%s), %s, %s\n", text_at(v, "gpu", "name"), text_at(v, "gpu", "target"),
           text_at(v, NULL, "date"),
           simulated ? "SIMULATED: nothing here was measured on hardware" : "measured");
    printf("driver %s, kernel %s, HIP %s, ROCm %s, %s MHz, memory %s MHz\n",
           text_at(v, "driver", "amdgpu"), text_at(v, "host", "kernel"),
           text_at(v, "gpu", "hip_version"), text_at(v, "host", "rocm"),
           text_at(v, "gpu", "engine_mhz"), text_at(v, "gpu", "memory_mhz"));
    const struct attnc_yaml_node *steps = find(v, attnc_yaml_node(&v->yaml, 1), "steps");
    for (uint32_t id = steps ? steps->first : 0; id; id = v->yaml.nodes[id].next) {
        const struct attnc_yaml_node *step = attnc_yaml_node(&v->yaml, id);
        const struct attnc_yaml_node *name = find(v, step, "name"),
                                     *status = find(v, step, "status");
        if (name && status && strcmp(attnc_yaml_text(&v->yaml, status), "0") != 0)
            printf("%s: exit status %s\n", attnc_yaml_text(&v->yaml, name),
                   attnc_yaml_text(&v->yaml, status));
    }
    fflush(stdout);
}

/* Runs `attnc probes --fit` on the results of the loops, prints its output and keeps the fitted
 * parameters in v->parameters. Returns an exit_code after a message. */
static int fit_loops(struct visit *v)
{
    static const char mark[] = " --parameters ";
    char path[PATH_MAX], self[PATH_MAX];
    struct tgt_blob out, err;
    int status;
    attnc_program_path(self);
    snprintf(path, sizeof(path), "%.*s/" ARCHIVE_LOOPS, PATH_MAX - 16, v->folder);
    if (access(path, R_OK) != 0) {
        puts("\nThe archive has no loops.");
        return EXIT_GOOD;
    }
    const char *const argv[] = {self, "probes", "--fit", path, NULL};
    if (!attnc_run_process(argv, &out, &err, &status))
        return complain(EXIT_ENVIRONMENT, "%s: %s", self, strerror(errno));
    printf("\nLoops:\n%s", (const char *)out.data);
    fwrite(err.data, 1, err.size, stderr);
    const char *last = strstr((const char *)out.data, mark);
    if (status == EXIT_GOOD && last && last[strlen(mark)] != '(')
        snprintf(v->parameters, sizeof(v->parameters), "%.*s",
                 (int)strcspn(last + strlen(mark), "\n"), last + strlen(mark));
    tgt_blob_free(&out);
    tgt_blob_free(&err);
    return status;
}

/* True if a file name has no slash and does not begin with '-', so that an archive cannot name
 * files outside its folder. */
static bool is_plain(const char *name) { return name[0] && name[0] != '-' && !strchr(name, '/'); }

/* Adds the archive's descriptions to a command line. They are in a folder, or in v->folder itself
 * in archives without this folder, which attnc on-gpu wrote before it had one. Returns false if
 * there is no description, if there are too many, or if a name is not plain. */
static bool add_descriptions(struct visit *v, struct step_line *line)
{
    const struct attnc_yaml_node *list = find(v, attnc_yaml_node(&v->yaml, 1), "descriptions");
    char folder[PATH_MAX];
    size_t count = 0;
    snprintf(folder, sizeof(folder), "%.*s/" ARCHIVE_DESCRIPTIONS, PATH_MAX - 16, v->folder);
    const char *const before = access(folder, R_OK) == 0 ? ARCHIVE_DESCRIPTIONS "/" : "";
    for (uint32_t id = list ? list->first : 0; id; id = v->yaml.nodes[id].next) {
        const struct attnc_yaml_node *n = attnc_yaml_node(&v->yaml, id);
        if (n->kind != ATTNC_YAML_SCALAR || !is_plain(attnc_yaml_text(&v->yaml, n)) ||
            count++ == MOST_DESCRIPTIONS)
            return false;
        char *const path = v->descriptions[count - 1];
        snprintf(path, PATH_MAX, "%s%s", before, attnc_yaml_text(&v->yaml, n));
        step_add(line, path);
    }
    return count > 0;
}

/* Runs `attnc tune --calibrate` on the measured launches of the archive, with the parameters that
 * the loops have given. Does nothing if the launches were simulated. Returns an exit_code after a
 * message. */
static int fit_launches(struct visit *v)
{
    char path[PATH_MAX];
    struct step_line line = {0};
    if (!strcmp(text_at(v, NULL, "device"), "sim")) {
        puts("\nLaunches: none, since the tuning ran on the timing model.");
        return EXIT_GOOD;
    }
    step_add(&line, NULL);
    step_add(&line, "tune");
    if (!add_descriptions(v, &line))
        return complain(EXIT_USER, "calibrate: the archive names no description");
    const char *const words[] = {"--calibrate", "--target", text_at(v, "gpu", "target"),
                                 "--db",        ARCHIVE_DB, "--tuning",
                                 "unused.yaml"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        step_add(&line, words[i]);
    snprintf(path, sizeof(path), "%.*s/" ARCHIVE_SHAPES, PATH_MAX - 16, v->folder);
    if (access(path, R_OK) == 0) {
        step_add(&line, "--shapes");
        step_add(&line, ARCHIVE_SHAPES);
    }
    if (!strcmp(text_at(v, NULL, "short"), "true")) {
        step_add(&line, "--tiles");
        step_add(&line, "1");
    }
    if (v->parameters[0]) {
        step_add(&line, "--parameters");
        step_add(&line, v->parameters);
    }
    puts("\nLaunches:");
    return step_run(&line, v->folder, "tune", "", true);
}

/* Unpacks the archive into the folder `work`, and sets v->folder. Returns an exit_code after a
 * message. */
static int unpack(struct visit *v, const char *archive, const char *work)
{
    char path[PATH_MAX], name[PATH_MAX];
    struct step_line line = {0};
    if (!realpath(archive, path))
        return complain(EXIT_USER, "%s: %s", archive, strerror(errno));
    const char *const words[] = {"tar", "--no-same-owner", "--strip-components=1", "-xzf", path};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        step_add(&line, words[i]);
    snprintf(name, sizeof(name), "%s", work);
    memcpy(v->folder, name, sizeof(name));
    if (step_run(&line, work, "tar", "", false) == 0)
        return EXIT_GOOD;
    return complain(EXIT_USER, "%s: not an archive of attnc on-gpu", archive);
}

/* Removes the folder `work` with all that is in it. */
static void remove_folder(const char *work)
{
    struct step_line line = {0};
    step_add(&line, "rm");
    step_add(&line, "-rf");
    step_add(&line, work);
    step_run(&line, "/", "rm", "", true);
}

static int run(int argc, char **argv);

const struct command command_calibrate = {
    .name = "calibrate",
    .usage = "ARCHIVE",
    .summary = "Fit the timing model to an archive of `attnc on-gpu`",
    .details =
        "Prints what GPU the archive is of, and which steps failed there. Then it finds the\n"
        "parameters of the timing model with which the simulator gives the results of the loops,\n"
        "and those that bring the model closest to the measured launches. Both are lists for\n"
        "--parameters of `attnc trace`, `attnc tune` and `attnc step`. Needs no GPU.",
    .run = run,
};

/* Runs `attnc calibrate`. */
static int run(int argc, char **argv)
{
    char work[PATH_MAX];
    if (argc != 1)
        return wrong_operands(&command_calibrate, argc, argv);
    const char *temporary = getenv("TMPDIR");
    snprintf(work, sizeof(work), "%s/attnc-XXXXXX", temporary ? temporary : "/tmp");
    if (!mkdtemp(work))
        return complain(EXIT_ENVIRONMENT, "%s: %s", work, strerror(errno));
    struct visit *v = calloc(1, sizeof(*v));
    int code = v ? unpack(v, argv[0], work) : complain(EXIT_ENVIRONMENT, "out of memory");
    if (code == EXIT_GOOD)
        code = read_facts(v);
    if (code == EXIT_GOOD) {
        print_facts(v);
        code = fit_loops(v);
    }
    if (code == EXIT_GOOD)
        code = fit_launches(v);
    if (v) {
        attnc_yaml_free(&v->yaml);
        free(v->bytes);
    }
    free(v);
    remove_folder(work);
    return code;
}
