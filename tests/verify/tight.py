#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that the error bounds of attnc verify are close to the errors. Results of the ops in OPS end in a rounding to
the nearest number, an error of up to half a step. Among thousands of elements some come near it. So a kernel's largest
error is far above half of its bound, unless the bound allows much more than the rounding.

Usage: tight.py ATTNC PACK...

The packs have kernels of all these ops for gfx942.
"""
import fnmatch
import json
import subprocess
import sys

LEAST = 0.6
# Bounds of chunks add up absolute values of terms, which mostly cancel in the result.
LEAST_OF_CHUNKS = 0.15
OPS = ['qk_rmsnorm', 'combine', 'rope_qk_norm_cache', 'mla_rope_cache', 'indexer_rope_cache', 'cache_write',
       'head_product', 'compress', 'conv1d', 'gated_rmsnorm', 'gated_delta', 'ssd',
       'selective_scan', 'rope_heads']


def run(*arguments):
    """Runs a command and returns the JSON that it prints."""
    return json.loads(subprocess.run(arguments, stdout=subprocess.PIPE, text=True).stdout)


def rows(attnc, pack, op):
    """Returns the results of attnc verify for a pack's kernels of an op."""
    results = run(attnc, 'verify', pack, '--device', 'sim', '--shapes', '1', '--json', '--only', op + '_*gfx942')
    # Kernels of gated_delta_step are left out: their bounds contain the bounds of three ops with roundings in between.
    # So are kernels of sums, whose results are not rounded to 16 bits.
    return [row for row in results['rows']
            if not row['kernel'].startswith('gated_delta_step') and '_stage_sums' not in row['kernel']]


def main():
    """Prints each kernel whose largest error is too small a part of its bound. Returns 1 if there is one."""
    attnc, *packs = sys.argv[1:]
    names = {pack: [kernel['name'] for kernel in run(attnc, 'list', pack, '--json')] for pack in packs}
    wrong = 0
    for op in OPS:
        there = [pack for pack in packs if fnmatch.filter(names[pack], op + '_*gfx942')]
        found = [row for pack in there for row in rows(attnc, pack, op)]
        if not found:
            print('no pack has', op)
            wrong += 1
        for row in found:
            # The bound is 0 for rows of e2m1: an element is the nearest code, or it is a fault.
            if not row['largest_bound']:
                assert row['passed'] and 'fp4' in row['kernel'], row
                continue
            part = row['largest_error'] / row['largest_bound']
            least = LEAST_OF_CHUNKS if '_prefill_' in row['kernel'] else LEAST
            if not row['passed'] or part < least:
                print('%s, %s: the largest error is %.2f of its bound' % (row['kernel'], row['shape'], part))
                wrong += 1
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
