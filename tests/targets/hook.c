/* SPDX-License-Identifier: Apache-2.0
 *
 * User functions for test_emit.c: a valid one, and one that calls an undefined function.
 */
static float half_of(float x) { return 0.5f * x; }

float scale_by_distance(float logit, int distance, float slope)
{
    return half_of(logit) - slope * (float)distance;
}

float outside(float x);

float calls_outside(float x) { return outside(x); }
