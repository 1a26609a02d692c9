/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/boxes.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

bool attnc_boxes_add(struct attnc_boxes *list, const struct att_box *box)
{
    struct att_box *const grown = realloc(list->rows, (list->count + 1) * sizeof(*grown));
    if (!grown)
        return false;
    list->rows = grown;
    grown[list->count++] = *box;
    return true;
}

/* Returns the range of the launch argument `arg` in a box. If the box has no range for it, returns
 * the range of all 32-bit values. */
static struct att_when range_of(const struct att_box *box, const char *arg)
{
    for (unsigned i = 0; i < box->count; i++) {
        if (!strcmp(box->rows[i].arg, arg))
            return box->rows[i];
    }
    return (struct att_when){arg, INT32_MIN, INT32_MAX};
}

bool attnc_boxes_meet(const struct att_box *a, const struct att_box *b)
{
    for (unsigned i = 0; i < a->count; i++) {
        const struct att_when other = range_of(b, a->rows[i].arg);
        if (a->rows[i].max < other.min || other.max < a->rows[i].min)
            return false;
    }
    return true;
}

/* Sets the range of launch argument `arg` in a box to `min` .. `max`, both included; returns false
 * if the box is full. */
static bool set_range(struct att_box *box, const char *arg, int64_t min, int64_t max)
{
    unsigned i = 0;
    while (i < box->count && strcmp(box->rows[i].arg, arg))
        i++;
    if (i == ATT_WHEN_MAX)
        return false;
    box->rows[i] = (struct att_when){arg, min, max};
    box->count += i == box->count;
    return true;
}

/* Appends to `list` the parts of `box` whose argument is below or above the range `hole`, and
 * narrows `box` to that range. Returns false if memory or the ranges of a box are exhausted. */
static bool slice(struct attnc_boxes *list, struct att_box *box, const struct att_when *hole)
{
    const struct att_when own = range_of(box, hole->arg);
    struct att_box below = *box, above = *box;
    if (own.min < hole->min &&
        !(set_range(&below, hole->arg, own.min, hole->min - 1) && attnc_boxes_add(list, &below)))
        return false;
    if (own.max > hole->max &&
        !(set_range(&above, hole->arg, hole->max + 1, own.max) && attnc_boxes_add(list, &above)))
        return false;
    return set_range(box, hole->arg, own.min > hole->min ? own.min : hole->min,
                     own.max < hole->max ? own.max : hole->max);
}

bool attnc_boxes_cut(struct attnc_boxes *list, size_t first, const struct att_box *hole)
{
    struct attnc_boxes left = {0};
    bool good = true;
    for (size_t i = first; good && i < list->count; i++) {
        struct att_box box = list->rows[i];
        if (!attnc_boxes_meet(&box, hole)) {
            good = attnc_boxes_add(&left, &box);
            continue;
        }
        for (unsigned r = 0; good && r < hole->count; r++)
            good = slice(&left, &box, &hole->rows[r]);
    }
    list->count = good ? first : list->count;
    for (size_t i = 0; good && i < left.count; i++)
        good = attnc_boxes_add(list, &left.rows[i]);
    free(left.rows);
    return good;
}
