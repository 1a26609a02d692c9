/* SPDX-License-Identifier: Apache-2.0
 *
 * A user's functions for test_emit.c: one that is right, one that calls what nobody defines.
 */
static float half_of(float x) { return 0.5f * x; }

float scale_by_distance(float logit, int distance, float slope)
{
    return half_of(logit) - slope * (float)distance;
}

float outside(float x);

float calls_outside(float x) { return outside(x); }
