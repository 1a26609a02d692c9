/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests attnc bench, with the simulator as the HIP device, and with a device of a bad clock, faults
 * and hangs.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/compiler/command.h"
#include "tests/unit_test.h"

#define SHAPE "--shape batch=1,k=64,heads=8,kv_heads=1 "
#define BENCH "bench x.attnpack --device hip --seconds 0.5 --flush 0 --json " SHAPE

static const char *shaky; /* library path: the folder of the shaky library, then hipsim's */

static void build(void)
{
    write_file("d.yaml", "targets: [gfx950]\n"
                         "kernels: [{ op: decode, head_dim: 64, gqa: 8, page_size: 16 }]\n");
    expect("build d.yaml -o x.attnpack -q --no-cache", 0, "", "");
}

static void on_gpu(const char *path, const char *settings)
{
    setenv("LD_LIBRARY_PATH", path, 1);
    setenv("HIPSIM", "target=gfx950", 1);
    setenv("SHAKY", settings, 1);
}

static double value(const char *json, const char *name)
{
    const char *at = strstr(json, name);
    assert_non_null(at);
    return atof(at + strlen(name));
}

TEST(the_model_needs_no_gpu)
{
    build();
    struct run r = run("bench x.attnpack --device sim --json " SHAPE);
    assert_int_equal(r.status, 0);
    const char *out = (char *)r.out.data;
    assert_true(value(out, "\"model_us\": ") > 4);
    /* A pair of query and key takes 2 (d + dv) operations. The call has one query of 8 heads, and
     * 64 keys. */
    assert_int_equal((int)value(out, "\"flops\": "), 2 * (64 + 64) * 8 * 64);
    end_run(&r);
    expect("bench x.attnpack --device sim " SHAPE, 0, "decode_bf16_d64_g8_p16_gfx950", "");
    expect("bench x.attnpack --device gpu", 1, "", "--device is hip or sim");
    expect("bench x.attnpack --seconds none", 1, "", "--seconds to be");
    expect("bench x.attnpack --only y* --device sim", 1, "", "no kernel matches 'y*'");
    expect("bench", 1, "", "usage: attnc bench PACK");
}

/* The median of times is the true time, in spite of noise, outliers and drift. */
TEST(a_bad_clock_is_seen_through)
{
    build();
    on_gpu(shaky, "noise=2");
    struct run r = run(BENCH);
    if (r.status)
        fail_msg("%s%s", (char *)r.out.data, (char *)r.err.data);
    const char *out = (char *)r.out.data;
    const double us = value(out, "\"us\": "), model = value(out, "\"model_us\": ");
    assert_true(fabs(us / model - 1) < 0.02);
    assert_true(value(out, "\"us_low\": ") < us && us < value(out, "\"us_high\": "));
    assert_true(value(out, "\"runs\": ") >= 15);
    end_run(&r);
    on_gpu(shaky, "drift=20,noise=2");
    r = run(BENCH);
    assert_int_equal(r.status, 0);
    assert_true(value((char *)r.out.data, "\"drift\": ") > 1.02);
    end_run(&r);
}

TEST(a_fault_or_hang_is_a_line)
{
    build();
    on_gpu(shaky, "fault=3");
    expect(BENCH, 1, "hipErrorLaunchFailure", "");
    on_gpu(shaky, "hang=4");
    expect(BENCH "--patience 3", 1, "hung for 5 s", "");
}

int main(int argc, char **argv)
{
    command_path = argc == 3 ? realpath(argv[1], NULL) : NULL; /* tests change the directory */
    if (!command_path)
        return 1;
    shaky = argv[2];
    return run_unit_tests_between(setup, teardown);
}
