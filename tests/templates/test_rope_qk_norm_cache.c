/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests rope_qk_norm_cache on every target. The heads, norms and caches of models compile into
 * registers that leave room for several waves. Results are tested by `attnc verify`.
 */
#include "targets/tgt.h"
#include "tests/templates/kernel.h"

extern const struct att_template att_template_rope_qk_norm_cache;

enum { COUNT = 16 }; /* settings of a case */

/* Fields that models set. A value of 0 ends a list; other fields have their defaults. */
static const struct setting models[][COUNT] = {
    {{ATT_HEAD_DIM, 128}, {ATT_NORM, ATT_NORM_RMS}}, /* Qwen3 */
    {{ATT_HEAD_DIM, 128},
     {ATT_NORM, ATT_NORM_RMS},
     {ATT_ROTARY_DIM, 64}, /* GLM-4.5 */
     {ATT_KV_DTYPE, ATT_KV_DTYPE_FP8},
     {ATT_KV_SCALE, ATT_KV_SCALE_TOKEN},
     {ATT_KV_LAYOUT, ATT_KV_LAYOUT_SHUFFLE}},
    {{ATT_HEAD_DIM, 128}, {ATT_NORM, ATT_NORM_FULL}, {ATT_ROTARY_DIM, 64}}, /* MiniMax-M2 */
    {{ATT_HEAD_DIM, 128},
     {ATT_NORM, ATT_NORM_FULL},
     {ATT_ROTARY_DIM, 64},
     {ATT_KV_LAYOUT, ATT_KV_LAYOUT_SHUFFLE}},
    {{ATT_HEAD_DIM, 64}, {ATT_BIAS, 1}, {ATT_KEEP_KV, 1}}, /* gpt-oss */
    {{ATT_HEAD_DIM, 256},
     {ATT_NORM, ATT_NORM_GEMMA_RMS},
     {ATT_ROTARY_DIM, 64}, /* Qwen3.5 */
     {ATT_GATE, 1},
     {ATT_KEEP_KV, 1},
     {ATT_MROPE, ATT_MROPE_INTERLEAVED}},
    {{ATT_HEAD_DIM, 192},
     {ATT_ROTARY_DIM, 64},
     {ATT_ROPE, ATT_ROPE_GPTJ},
     {ATT_KV_DTYPE, ATT_KV_DTYPE_INT8},
     {ATT_KV_SCALE, ATT_KV_SCALE_TOKEN},
     {ATT_OUT_DTYPE, ATT_OUT_DTYPE_FP8},
     {ATT_COS_SIN, ATT_COS_SIN_SAME}},
    {{ATT_HEAD_DIM, 128},
     {ATT_NORM, ATT_NORM_RMS},
     {ATT_KEEP_KV, 1}, /* scale of a page */
     {ATT_KV_DTYPE, ATT_KV_DTYPE_FP8},
     {ATT_KV_SCALE, ATT_KV_SCALE_BLOCK},
     {ATT_KV_LAYOUT, ATT_KV_LAYOUT_SHUFFLE}},
    {{ATT_HEAD_DIM, 256},
     {ATT_NORM, ATT_NORM_GEMMA_RMS},
     {ATT_ROTARY_DIM, 64},
     {ATT_GATE, 1},
     {ATT_KV_DTYPE, ATT_KV_DTYPE_FP8},
     {ATT_KV_SCALE, ATT_KV_SCALE_BLOCK},
     {ATT_KV_LAYOUT, ATT_KV_LAYOUT_SHUFFLE}},
    {{ATT_HEAD_DIM, 192},
     {ATT_ROTARY_DIM, 64},
     {ATT_ROPE, ATT_ROPE_GPTJ},
     {ATT_KV_DTYPE, ATT_KV_DTYPE_INT8},
     {ATT_KV_SCALE, ATT_KV_SCALE_BLOCK}},
    {{ATT_HEAD_DIM, 128}, {ATT_MROPE, ATT_MROPE_SECTIONS}, {ATT_BIAS, 1}}, /* Qwen2.5-VL */
    {{ATT_HEAD_DIM, 128}, {ATT_MROPE, ATT_MROPE_INTERLEAVED}, {ATT_NORM, ATT_NORM_RMS}}, /* 3-VL */
    /* Fewer pairs than lanes that share a head. */
    {{ATT_HEAD_DIM, 128}, {ATT_ROTARY_DIM, 4}},
    {{ATT_HEAD_DIM, 256}, {ATT_ROTARY_DIM, 4}, {ATT_NORM, ATT_NORM_RMS}},
    {{ATT_HEAD_DIM, 512}, {ATT_ROTARY_DIM, 64}},
    /* Half of the rotated part is less than 16 bytes of SHUFFLE. */
    {{ATT_HEAD_DIM, 64},
     {ATT_ROTARY_DIM, 16},
     {ATT_KV_DTYPE, ATT_KV_DTYPE_FP8},
     {ATT_KV_SCALE, ATT_KV_SCALE_TOKEN},
     {ATT_KV_LAYOUT, ATT_KV_LAYOUT_SHUFFLE}},
    {{ATT_HEAD_DIM, 272}, {ATT_KV_LAYOUT, ATT_KV_LAYOUT_SHUFFLE}},
    /* The distance between the elements of a pair is no multiple of a SHUFFLE block. */
    {{ATT_HEAD_DIM, 72}, {ATT_NORM, ATT_NORM_RMS}, {ATT_KV_LAYOUT, ATT_KV_LAYOUT_SHUFFLE}},
    {{ATT_HEAD_DIM, 120}, {ATT_NORM, ATT_NORM_FULL}, {ATT_KV_LAYOUT, ATT_KV_LAYOUT_SHUFFLE}},
    {{ATT_HEAD_DIM, 504}, {ATT_ROPE, ATT_ROPE_GPTJ}},
    {{ATT_HEAD_DIM, 248}, {ATT_NORM, ATT_NORM_RMS}, {ATT_KV_LAYOUT, ATT_KV_LAYOUT_SHUFFLE}},
    {{ATT_HEAD_DIM, 504}, {ATT_NORM, ATT_NORM_RMS}},
    {{ATT_HEAD_DIM, 192}, {ATT_BIAS, 1}, {ATT_GATE, 1}, {ATT_KEEP_KV, 1}},
    /* The largest number of arguments, and of arguments that the loop over tokens needs. */
    {{ATT_HEAD_DIM, 128},
     {ATT_NORM, ATT_NORM_FULL},
     {ATT_BIAS, 1},
     {ATT_KEEP_KV, 1},
     {ATT_KV_DTYPE, ATT_KV_DTYPE_FP8},
     {ATT_KV_SCALE, ATT_KV_SCALE_TOKEN},
     {ATT_OUT_DTYPE, ATT_OUT_DTYPE_FP8}},
    {{ATT_HEAD_DIM, 192},
     {ATT_HEAD_DIM_V, 128},
     {ATT_ROPE, ATT_ROPE_GPTJ},
     {ATT_ROTARY_DIM, 64},
     {ATT_NORM, ATT_NORM_FULL},
     {ATT_BIAS, 1},
     {ATT_GATE, 1},
     {ATT_KEEP_KV, 1},
     {ATT_KV_DTYPE, ATT_KV_DTYPE_INT8},
     {ATT_KV_SCALE, ATT_KV_SCALE_TOKEN},
     {ATT_OUT_DTYPE, ATT_OUT_DTYPE_FP8}},
    {{ATT_HEAD_DIM, 240},
     {ATT_ROTARY_DIM, 64},
     {ATT_KV_DTYPE, ATT_KV_DTYPE_FP8},
     {ATT_KV_SCALE, ATT_KV_SCALE_BLOCK},
     {ATT_KV_LAYOUT, ATT_KV_LAYOUT_SHUFFLE}},
};

TEST(models_fit_their_registers)
{
    for (int t = 0; tgt_all[t]; t++)
        for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
            const struct att_variant v =
                variant_of(&att_template_rope_qk_norm_cache, tgt_all[t]->machine.name, models[i]);
            const bool gathers = v.kv_layout == ATT_KV_LAYOUT_SHUFFLE;
            compile_kernel(&v, v.head_dim > 128 || gathers ? 256 : 128);
        }
}

TEST(every_head_dim_has_layouts)
{
    unsigned built = 0;
    for (int dim = 16; dim <= 520; dim += 8)
        for (int rotary = 4; rotary <= dim; rotary *= 2)
            for (int kind = 0; kind < 2 * 2 * 4; kind++) {
                const struct setting settings[COUNT] = {
                    {ATT_HEAD_DIM, dim},
                    {ATT_ROTARY_DIM, rotary},
                    {ATT_ROPE, kind & 1 ? ATT_ROPE_GPTJ : ATT_ROPE_NEOX},
                    {ATT_KV_DTYPE, kind < 4 ? ATT_KV_DTYPE_BF16 : ATT_KV_DTYPE_FP8},
                };
                struct att_variant v =
                    variant_of(&att_template_rope_qk_norm_cache, "gfx942", settings);
                v.kv_layout = kind & 2 ? ATT_KV_LAYOUT_SHUFFLE : ATT_KV_LAYOUT_NHD;
                v.kv_scale = (enum att_kv_scale)(kind / 4);
                built += build_or_refuse(&v);
                v.rotary_dim = dim;
                built += build_or_refuse(&v);
            }
    assert_true(built > 1000);
}

TEST(what_cannot_be_built_says_why)
{
    static const struct {
        struct setting settings[COUNT];
        enum att_field field;
        const char *text;
    } wrong[] = {
        {{{ATT_HEAD_DIM, 68}}, ATT_HEAD_DIM, "head_dim 68 is not a multiple of 8 from 16"},
        {{{ATT_HEAD_DIM, 1024}}, ATT_HEAD_DIM, "from 16 to 512"},
        {{{ATT_HEAD_DIM, 64}, {ATT_ROTARY_DIM, 128}}, ATT_ROTARY_DIM, "more than head_dim 64"},
        {{{ATT_HEAD_DIM, 64}, {ATT_ROTARY_DIM, 18}},
         ATT_ROTARY_DIM,
         "rotary_dim 18 is not a multiple of 4"},
        {{{ATT_HEAD_DIM, 512}, {ATT_ROTARY_DIM, 508}}, ATT_ROTARY_DIM, "more than 6 powers"},
        {{{ATT_HEAD_DIM, 80}, {ATT_ROTARY_DIM, 20}, {ATT_OUT_DTYPE, ATT_OUT_DTYPE_FP8}},
         ATT_ROTARY_DIM,
         "rotary_dim 20 is not a multiple of 8"},
        {{{ATT_HEAD_DIM, 64}, {ATT_HEAD_DIM_V, 144}},
         ATT_HEAD_DIM_V,
         "more than twice head_dim 64"},
        {{{ATT_HEAD_DIM, 64}, {ATT_HEAD_DIM_V, 76}},
         ATT_HEAD_DIM_V,
         "head_dim_v 76 is not a multiple of 8"},
        {{{ATT_HEAD_DIM, 72}, {ATT_KV_DTYPE, ATT_KV_DTYPE_FP8}},
         ATT_HEAD_DIM,
         "head_dim 72 is not a multiple of 16"},
        {{{ATT_HEAD_DIM, 64}, {ATT_KV_DTYPE, ATT_KV_DTYPE_INT8}},
         ATT_KV_SCALE,
         "an int8 cache needs a scale"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        const struct att_variant v =
            variant_of(&att_template_rope_qk_norm_cache, "gfx942", wrong[i].settings);
        expect_refused(&v, wrong[i].field, wrong[i].text);
    }
}

int main(void) { return run_unit_tests(); }
