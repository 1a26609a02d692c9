/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the options of HIPSIM and hipsim_configure(). An invalid text changes no option. */
#include "tests/unit_test.h"
#include "tools/hipsim/core/options.h"

#include <string.h>

static char why[400];

static struct options parsed(const char *text)
{
    struct options options = options_default();

    assert_true(options_parse(&options, text, false, why, sizeof(why)));
    return options;
}

TEST(every_key_sets_its_field)
{
    const struct options o = parsed("target=gfx950,devices=8,memory=4,checks=off,seed=0x10,"
                                    "threads=3,budget=0,fail=7,error=719,stats=on,"
                                    "time=on,suppress=a/b,json=c d,write_suppress=e,summary=off,"
                                    "exitcode=3,sample=5,latency=9,break=k:3,gdb=/s,patch=k+0:1,"
                                    "counters=f");

    assert_int_equal(options_part(&o, 0)->target, GFX950);
    assert_int_equal(options_part(&o, 7)->target, GFX950);
    assert_int_equal(o.devices, 8);
    assert_int_equal(o.memory_gib, 4);
    assert_int_equal(o.checks, 0);
    assert_int_equal(o.seed, 16);
    assert_int_equal(o.threads, 3);
    assert_int_equal(o.budget, 0);
    assert_int_equal(o.fail_call, 7);
    assert_int_equal(o.fail_error, 719);
    assert_int_equal(o.stats, 1);
    assert_int_equal(o.sample, 5);
    assert_int_equal(o.latency, 9);
    assert_string_equal(o.break_at, "k:3");
    assert_string_equal(o.gdb, "/s");
    assert_string_equal(o.patch, "k+0:1");
    assert_string_equal(o.counters, "f");
    assert_int_equal(o.time, 1);
    assert_string_equal(o.suppress, "a/b");
    assert_string_equal(o.json, "c d");
    assert_string_equal(o.write_suppress, "e");
    assert_int_equal(o.summary, 0);
    assert_int_equal(o.exitcode, 3);
}

TEST(targets_are_listed_gpu_by_gpu)
{
    const struct options o = parsed("target=gfx950+gfx942+gfx950,devices=64");

    assert_int_equal(options_part(&o, 0)->target, GFX950);
    assert_int_equal(options_part(&o, 1)->target, GFX942);
    assert_int_equal(options_part(&o, 2)->target, GFX950);
    assert_int_equal(options_part(&o, 63)->target, GFX950);
}

TEST(parts_are_named_too)
{
    const struct options o = parsed("target=mi300a+gfx950+mi308x+mi350x+mi325x,devices=5");
    static const char *const names[] = {"mi300a", "mi355x", "mi308x", "mi350x", "mi325x"};

    for (unsigned i = 0; i < 5; i++)
        assert_string_equal(options_part(&o, i)->name, names[i]);
    assert_int_equal(options_part(&o, 0)->compute_units, 228);
    assert_int_equal(options_part(&o, 2)->target, GFX942);
    assert_int_equal(options_part(&o, 3)->target, GFX950);
}

TEST(unnamed_options_keep_their_defaults)
{
    struct options expected = options_default();

    assert_int_equal(expected.checks, CHECK_DEFAULT);
    assert_int_equal(options_part(&expected, 0)->target, GFX942);
    struct options o = parsed("");
    assert_memory_equal(&o, &expected, sizeof(o));
    expected.seed = 2;
    o = parsed(",seed=1,,seed=2,");
    assert_memory_equal(&o, &expected, sizeof(o));
}

TEST(checks_are_named_one_by_one)
{
    assert_int_equal(parsed("checks=race").checks, CHECK_RACE);
    assert_int_equal(parsed("checks=memory+wait+memory").checks, CHECK_MEMORY | CHECK_WAIT);
    assert_int_equal(
        parsed("checks=memory+align+uninit+wait+hazard+race+barrier+diverge+stale").checks,
        CHECK_DEFAULT);
    assert_int_equal(parsed("checks=strict+memory+fence").checks,
                     CHECK_STRICT | CHECK_MEMORY | CHECK_FENCE);
    assert_int_equal(parsed("checks=off,checks=on").checks, CHECK_ALL);
}

/* Each text is refused because of the part that `says` quotes, even after valid options. */
TEST(invalid_texts_change_nothing)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"seed=1,sed=2", "\"sed\" is unknown; the keys are target, devices,"},
        {"seed=1,stats", "\"stats\" has no value"},
        {"seed=1,=2", "\"\" is unknown"},
        {"target=gfx90a", "gfx942 or mi300x (default)"},
        {"target=gfx942+", "gfx942 or mi300x (default)"},
        {"target=+gfx942", "gfx942 or mi300x (default)"},
        {"devices=65", "\"65\""},
        {"memory=0", "\"0\""},
        {"error=0", "\"0\""},
        {"seed=", "\"\""},
        {"seed=-1", "\"-1\""},
        {"seed=+1", "\"+1\""},
        {"seed= 1", "\" 1\""},
        {"seed=1x", "\"1x\""},
        {"seed=18446744073709551616", "\"18446744073709551616\""},
        {"checks=memory+", "\"memory+\""},
        {"checks=mem", "\"mem\""},
        {"checks=on+race", "\"on+race\""},
        {"stats=1", "\"1\""},
    };
    const struct options before = options_default();

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct options o = before;
        why[0] = 0;
        assert_false(options_parse(&o, cases[i].text, false, why, sizeof(why)));
        assert_memory_equal(&o, &before, sizeof(o));
        if (!strstr(why, cases[i].says))
            fail_msg("%s: %s", cases[i].text, why);
    }
}

TEST(options_of_a_device_are_fixed)
{
    static const char *const fixed[] = {"target=gfx942", "devices=1", "memory=1"};
    struct options o = options_default();

    for (size_t i = 0; i < sizeof(fixed) / sizeof(*fixed); i++) {
        assert_false(options_parse(&o, fixed[i], true, why, sizeof(why)));
        assert_non_null(strstr(why, "after the first HIP call"));
    }
    assert_true(options_parse(&o, "checks=off,seed=9,budget=5", true, why, sizeof(why)));
    assert_int_equal(o.seed, 9);
}

/* The key is longer than the buffer for the reason. Sanitizers would report an overflow. */
TEST(the_reason_is_truncated_to_its_buffer)
{
    char key[2000], small[8];
    struct options o = options_default();

    memset(key, 'k', sizeof(key));
    key[sizeof(key) - 1] = 0;
    memset(small, 'x', sizeof(small));
    assert_false(options_parse(&o, key, false, small, 4));
    assert_string_equal(small, "opt");
    assert_int_equal(small[4], 'x');
}

int main(void) { return run_unit_tests(); }
