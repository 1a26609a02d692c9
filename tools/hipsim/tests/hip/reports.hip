// SPDX-License-Identifier: Apache-2.0
// Tests suppression of findings by rules that the simulator wrote, counts, JSON, the summary at the
// end and the exit status. Runs itself as a child, since the end of a process prints them.
#include "check.h"

#include <string>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

__global__ void shift(int *out)
{
    __shared__ int part[128];
    part[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = part[(threadIdx.x + 64) % 128];
}

__device__ inline __attribute__((always_inline)) int load(const int *p, int at)
{
    return p[at]; // inlined: first line of the chain
}

__global__ void read_at(int *p, int at)
{
    p[threadIdx.x] = load(p, at + threadIdx.x); // second line of the chain
}

static int child()
{
    int *p, out[64];
    HIP(hipMalloc(&p, 512));
    shift<<<1, 128>>>(p);
    HIP(hipDeviceSynchronize());
    shift<<<1, 128>>>(p);
    HIP(hipDeviceSynchronize());
    read_at<<<1, 64>>>(p, 1 << 20); // halt=off: reads zeros and continues
    HIP(hipDeviceSynchronize());
    HIP(hipMemcpy(out, p, sizeof(out), hipMemcpyDeviceToHost));
    CHECK(out[0] == 0 && out[63] == 0);
    return 0;
}

struct outcome {
    int status;
    std::string text;
};

static outcome run(const std::string &options)
{
    outcome result;
    char buffer[4096];
    int ends[2];
    CHECK(pipe(ends) == 0);
    const pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], 2);
        close(ends[0]);
        setenv("HIPSIM", ("checks=memory+race,halt=off" + options).c_str(), 1);
        execl("/proc/self/exe", "reports", "child", NULL);
        _exit(99);
    }
    close(ends[1]);
    for (ssize_t n; (n = read(ends[0], buffer, sizeof(buffer))) > 0;)
        result.text.append(buffer, (size_t)n);
    close(ends[0]);
    waitpid(pid, &result.status, 0);
    CHECK(WIFEXITED(result.status));
    result.status = WEXITSTATUS(result.status);
    return result;
}

static std::string contents(const std::string &path)
{
    std::string text;
    FILE *file = fopen(path.c_str(), "r");
    CHECK(file);
    for (int c; (c = fgetc(file)) != EOF;)
        text += (char)c;
    fclose(file);
    return text;
}

static bool has(const std::string &text, const char *part)
{
    if (text.find(part) != std::string::npos)
        return true;
    fprintf(stderr, "no \"%s\" in\n%s\n", part, text.c_str());
    return false;
}

static void write_file(const std::string &path, const char *text)
{
    FILE *file = fopen(path.c_str(), "w");
    CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "child") == 0)
        return child();
    char directory[] = "/tmp/reportsXXXXXX";
    CHECK(mkdtemp(directory));
    const std::string rules = std::string(directory) + "/rules";
    const std::string json = std::string(directory) + "/json", mine = rules + "2";

    // All findings are reported and summed up. The default exit status does not change.
    outcome all = run(",write_suppress=" + rules + ",json=" + json);
    CHECK(all.status == 0 && has(all.text, "data race") && has(all.text, "invalid memory access"));
    CHECK(has(all.text, "in load\n  inlined at ") && has(all.text, "reports.hip:25 in read_at"));
    CHECK(has(all.text, "findings at 2 places, 0 suppressed"));
    CHECK(has(all.text, "kernel _Z7read_atPii: memory 1 at 1 place"));
    CHECK(has(contents(json),
              "{\"check\":\"memory\",\"kernel\":\"_Z7read_atPii\",\"pc\":\"entry+"));
    CHECK(has(contents(json), "reports.hip:25\",\"function\":\"read_at\""));
    CHECK(has(contents(json), "{\"summary\":{\"kernel\":\"_Z5shiftPi\",\"checks\":{\"race\":"));
    CHECK(run(",exitcode=7").status == 7);

    // The written rules suppress all findings.
    outcome none = run(",exitcode=7,suppress=" + rules);
    CHECK(none.status == 0 && none.text.find("data race") == std::string::npos);
    CHECK(has(none.text, "hipsim: 0 findings at 0 places, "));

    // Hints are not counted as mistakes.
    outcome hints = run(",exitcode=7,hints=on,suppress=" + rules);
    CHECK(hints.status == 0 && hints.text.find("hint") == std::string::npos);

    // A rule for one check and the caller's source line.
    write_file(mine, "# a comment\n\n  check=memory kernel=*read* source=*/reports.hip:25\n");
    outcome some = run(",exitcode=7,summary=off,suppress=" + mine);
    CHECK(some.status == 7 && has(some.text, "data race"));
    CHECK(some.text.find("invalid memory access") == std::string::npos);
    CHECK(some.text.find("findings at") == std::string::npos);

    // A suppressed finding does not stop a launch.
    CHECK(run(",halt=memory,suppress=" + mine).status == 0);
    CHECK(run(",halt=memory").status == 1);

    // An invalid rule and a missing file are reported.
    write_file(mine, "check=race line=7\n");
    outcome wrong = run(",suppress=" + mine);
    CHECK(wrong.status == 1 && has(wrong.text, "rules2:1: \"line=7\" is none of"));
    CHECK(has(run(",suppress=/nowhere/rules").text, "/nowhere/rules: No such file"));

    unlink(rules.c_str());
    unlink(mine.c_str());
    unlink(json.c_str());
    return rmdir(directory);
}
