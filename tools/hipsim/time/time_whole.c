/* SPDX-License-Identifier: Apache-2.0 */
#include "time_whole.h"

/* Weights of the middle's and the last position's figures in an interpolation. */
struct parts {
    double middle, last;
};

/* Returns the weights at position `at` of `groups` in dimension `d`. Without a sampled middle, the
 * interpolation between the ends is linear. */
static struct parts parts_of(const struct time_whole *w, unsigned d, uint64_t at, uint64_t groups)
{
    struct parts p = {0};
    if (groups < 2 || !w->last[d].sampled)
        return p;
    const double end = (double)groups - 1, half = (double)(groups / 2), here = (double)at;
    p.middle = here <= half ? here / half : (end - here) / (end - half);
    p.last = here <= half ? 0 : (here - half) / (end - half);
    if (!w->middle[d].sampled) {
        p.last += p.middle / 2;
        p.middle = 0;
    }
    return p;
}

double time_whole_added(const struct time_whole *w, unsigned dimension, uint64_t at,
                        uint64_t groups)
{
    const struct parts p = parts_of(w, dimension, at, groups);
    return p.middle * (w->middle[dimension].figures.clocks - w->first.clocks) +
           p.last * (w->last[dimension].figures.clocks - w->first.clocks);
}

/* Adds `times` times the figures of *f to *sum. */
static void add(struct time_figures *sum, const struct time_figures *f, double times)
{
    sum->clocks += times * f->clocks;
    sum->matrix_clocks += times * f->matrix_clocks;
    sum->far_bytes += times * f->far_bytes;
    sum->load_bytes += times * f->load_bytes;
    sum->store_bytes += times * f->store_bytes;
}

/* Returns x, or 0 if x is negative. */
static double positive(double x) { return x > 0 ? x : 0; }

struct time_figures time_whole_sum(const struct time_whole *w,
                                   const uint64_t groups[TIME_DIMENSIONS])
{
    struct time_figures sum = {0};
    double total = 1, first;
    for (unsigned d = 0; d < TIME_DIMENSIONS; d++)
        total *= (double)groups[d];
    first = total;
    for (unsigned d = 0; d < TIME_DIMENSIONS; d++) {
        struct parts of_all = {0};
        for (uint64_t at = 0; at < groups[d] && w->last[d].sampled; at++) {
            const struct parts p = parts_of(w, d, at, groups[d]);
            of_all.middle += p.middle;
            of_all.last += p.last;
        }
        const double others = total / (double)groups[d];
        add(&sum, &w->middle[d].figures, others * of_all.middle);
        add(&sum, &w->last[d].figures, others * of_all.last);
        first -= others * (of_all.middle + of_all.last);
    }
    add(&sum, &w->first, first);
    return (struct time_figures){
        .clocks = positive(sum.clocks),
        .matrix_clocks = positive(sum.matrix_clocks),
        .far_bytes = positive(sum.far_bytes),
        .load_bytes = positive(sum.load_bytes),
        .store_bytes = positive(sum.store_bytes),
    };
}
