# SPDX-License-Identifier: Apache-2.0
"""Tests the parts of tools/bench/aiter that need none of AITER's code objects: formulas, layouts, arguments and
tables."""
import os
import subprocess
import sys
import tempfile
import unittest

import numpy as np

sys.dont_write_bytecode = True
TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/bench/aiter")
sys.path.insert(0, TOOL)

import forward
import gemm
import mla
import pa
from device import slots
from formats import Kind, bf16, fp8_values, from_bf16, nearest, softmax
from outcome import HEADER, compare, judge, least, line, orderly, outcome, row

MLA_ROW = {"co_name": "mla_of_mine.co", "qType": "bf16", "kvType": "bf16", "Gqa": "16",
           "qSeqLen": "2", "ps": "1", "causal": "1", "lse": "0", "prefill": "0"}


def attend(q, k, v, visible):
    """Returns the attention output of one query over the first `visible` keys, as a loop over keys."""
    scores = [float(np.dot(q, x)) for x in k[:visible]]
    weights = np.exp(np.array(scores) - max(scores))
    return sum(w * x for w, x in zip(weights, v)) / weights.sum(), \
        max(scores) + np.log(weights.sum())


class Formats(unittest.TestCase):
    def test_bf16_rounds_to_nearest_even(self):
        x = np.array([1, 1 + 2**-8, 1 + 3 * 2**-8, -3.5], np.float32)
        np.testing.assert_array_equal(bf16(x), [0x3f80, 0x3f80, 0x3f82, 0xc060])
        np.testing.assert_array_equal(from_bf16(bf16(x)), [1, 1, 1 + 2**-6, -3.5])

    def test_fp8_values_are_those_of_the_target(self):
        fnuz, ocp = fp8_values("gfx942"), fp8_values("gfx950")
        self.assertEqual((fnuz[0x7f], ocp[0x7e], ocp[0x38], fnuz[0x40]), (240, 448, 1, 1))
        self.assertTrue(np.isnan(fnuz[0x80]) and np.isnan(ocp[0x7f]) and np.isnan(ocp[0xff]))
        self.assertEqual(list(nearest(np.array([1.01, -500, 0.9999]), ocp)), [0x38, 0xfe, 0x38])

    def test_int8_is_clipped(self):
        bits, values = Kind("i8", "gfx942").make(np.array([1.4, -300]))
        self.assertEqual((list(bits), list(values)), ([1, -127], [1, -127]))

    def test_softmax_of_a_row_that_sees_nothing(self):
        p, lse = softmax(np.array([[0.0, np.log(3)], [-np.inf, -np.inf]]))
        np.testing.assert_allclose(p, [[0.25, 0.75], [0, 0]])
        np.testing.assert_allclose(lse, [np.log(4), -np.inf])


class References(unittest.TestCase):
    def setUp(self):
        self.random = np.random.default_rng(3)

    def test_latent_attention(self):
        s = mla.Shape("", MLA_ROW)
        q, kv = (self.random.standard_normal(n + (mla.QK,)) for n in ((2, 16), (5,)))
        (out, lse), = mla.reference(s, q, kv, (5,), 0.1)
        for query, head in (0, 0), (1, 15):
            want = attend(q[query, head] * 0.1, kv, kv[:, :mla.V], 4 + query)
            np.testing.assert_allclose(out[query, head], want[0])
            np.testing.assert_allclose(lse[query, head], want[1])

    def test_keys_of_ranks_lie_between_those_of_others(self):
        s = mla.Shape("", dict(MLA_ROW, cprr="1"))
        q, kv = (self.random.standard_normal(n + (mla.QK,)) for n in ((2, 16), (5,)))
        (out, _), = mla.reference(s, q, kv, (5,), 0.1)
        want = attend(q[0, 0] * 0.1, kv, kv[:, :mla.V], 4)  # the rank's keys are those at positions 1, 3, 5 and 7
        np.testing.assert_allclose(out[0, 0], want[0])

    def test_parts_add_up(self):
        s = mla.Shape("", dict(MLA_ROW, causal="0"))
        q, kv = (self.random.standard_normal(n + (mla.QK,)) for n in ((2, 16), (7,)))
        (whole, _), = mla.reference(s, q, kv, (7,), 0.1)
        pieces = [mla.reference(s, q, x, (len(x),), 0.1)[0] for x in (kv[:3], kv[3:])]
        out, lse = (np.stack(x + (np.full_like(x[0], np.nan),)) for x in zip(*pieces))
        np.testing.assert_allclose(mla.join(range(3), np.nan_to_num(out), lse), whole)

    def test_a_work_list_cuts_one_sequence(self):
        s = mla.Shape("", MLA_ROW)
        info, first, parts = mla.work_list(s, (200, 30), 0)
        self.assertEqual(info[:, [0, 1, 4, 5, 6]].tolist(),
                         [[0, 0, 0, 64, 136], [0, 2, 64, 200, 0], [1, -1, 200, 230, 0]])
        self.assertEqual((list(first[:4]), parts), ([0, 1, 2, 3], [(0, 0), (0, 2)]))

    def test_forward(self):
        path, table = "x.co", {"dtype": "bf16", "hdim_q": "128", "hdim_v": "128", "mask": "2",
                               "mode": "0", "ts_qo": "256"}
        s = forward.Shape(path, table)
        q, k, v = (self.random.standard_normal((n, heads, 128))
                   for n, heads in ((3, forward.HEADS), (5, 2), (5, 2)))
        out, lse = forward.reference(s, q, k, v, 0.1)
        want = attend(q[1, 3] * 0.1, k[:, 1], v[:, 1], 4)
        np.testing.assert_allclose(out[1, 3], want[0])
        np.testing.assert_allclose(lse[1, 3], want[1])
        self.assertEqual(s.grid("gfx950", 600, 7), (2, 4, 7))
        s.group = True
        self.assertEqual(s.grid("gfx950", 600, 7), (4, 7, 2))

    def test_paged(self):
        s = pa.Shape("", {"co_name": "x.co", "qType": "bf16", "kvType": "fp8", "Gqa": "8",
                          "blkSz": "16", "Mtp": "12", "Msk": "1"})
        self.assertEqual((s.queries, s.page), (2, 16))
        q, k, v = (self.random.standard_normal(n + (128,)) for n in ((2, 8), (5,), (5,)))
        want, _ = attend(q[0, 7] / np.sqrt(128), k, v, 4)
        np.testing.assert_allclose(pa.reference(s, q, k, v)[0, 7], want)

    def test_queries_are_rounded_to_the_numbers_of_the_cache(self):
        q = np.array([[2.0, -1.0, 0.013], [448, 1, 0]])
        np.testing.assert_allclose(pa.rounded(Kind("i8", "gfx942"), q[:1]), [[2, -126 / 127, 2 / 127]],
                                   rtol=0.02)
        np.testing.assert_array_equal(pa.rounded(Kind("fp8", "gfx950"), q[1:]), q[1:])
        np.testing.assert_array_equal(pa.rounded(Kind("bf16", "gfx950"), q), q)

    def test_weights_are_shuffled_by_pieces_of_16_bytes(self):
        for kind, size in (np.uint16, 8), (np.int8, 16):
            x = np.arange(32 * 64).reshape(32, 64).astype(kind)
            y = gemm.shuffled(x)
            self.assertEqual(y.shape, (2, 2, 32 // size, 16, size))
            self.assertEqual(y[1, 1, 1, 9, 3], x[16 + 9, 32 + size + 3])

    def test_pages_are_laid_out_as_the_kernels_read_them(self):
        kind = Kind("fp8", "gfx950")
        x = np.arange(2 * 3 * 32 * 128).reshape(2, 3, 32, 128)
        k, v = pa.paged(kind, x, x)
        self.assertEqual((k.shape, v.shape), ((2, 3, 8, 32, 16), (2, 3, 2, 128, 16)))
        self.assertEqual(k[1, 2, 4, 30, 5], x[1, 2, 30, 4 * 16 + 5])
        self.assertEqual(v[1, 2, 1, 100, 5], x[1, 2, 16 + 5, 100])


class Outcomes(unittest.TestCase):
    def result(self, verdict="ok", **more):
        return dict(outcome(verdict), margins={"lds_before": 4, "lds_after": None}, **more)

    def test_errors_are_parts_of_the_largest_value(self):
        self.assertEqual(compare([1, 2], [1, 4]), 0.5)
        self.assertEqual(compare([-np.inf, 2], [-np.inf, 2]), 0)
        self.assertEqual(compare([np.nan, 2], [1, 2]), np.inf)

    def test_a_result_beyond_its_bound_is_wrong(self):
        r = outcome()
        judge(r, [("a", [1.0], [1.0], 0.1), ("b", [1.3], [1.0], 0.1)])
        self.assertEqual((r["verdict"], r["note"]), ("WRONG", "b 0.3; "))
        judge(r, [("c", [np.nan], [1.0], 0.1), ("writes no LSE", None, None, None)])
        self.assertTrue(r["note"].endswith("writes no LSE; "))
        self.assertIn("c inf", r["note"])

    def test_orderly_kernels_have_neither_races_nor_early_uses(self):
        self.assertTrue(orderly(dict(outcome(), kinds=["hazard"])))
        self.assertFalse(orderly(dict(outcome(), kinds=["race"])))
        self.assertFalse(orderly(outcome("FAILED")))

    def test_the_row_of_an_object_has_its_worst(self):
        """The results of an object are in one row, which has the worst figures."""
        a, b = self.result(), self.result("WRONG")
        b["error"], b["kinds"], b["margins"] = 0.25, ["wait"], {"lds_before": 2, "lds_after": 7}
        self.assertEqual(row("gfx950", "x.co", [a, b]),
                         "| gfx950 | `x.co` | 2 | 1 | 0.25 | 2 | 7 | - | - | wait |  |")
        self.assertEqual(HEADER.split("\n")[0].count("|"), row("", "", [a]).count("|"))
        self.assertEqual(least([a, b])["lds_before"], 2)
        a["seeds"], b["seeds"] = "right", "WRONG"
        self.assertTrue(row("", "", [a, b]).endswith("WRONG |"))
        self.assertIn("seeds: right", line("gfx950", "x.co (1,)", a))

    def test_arguments_have_sixteen_bytes_each(self):
        text = slots(1.0, -1, 2**40)
        self.assertEqual((len(text), text[:4], text[16:24], text[37]),
                         (48, b"\x00\x00\x80\x3f", b"\xff" * 8, 1))


class Command(unittest.TestCase):
    def run_tool(self, *args):
        return subprocess.run([sys.executable, os.path.join(TOOL, "check"), *args],
                              capture_output=True, text=True)

    def test_arguments_that_are_none(self):
        for args, word in ([], "--hsa"), (["--hsa", "/nowhere"], "no code objects in /nowhere"), \
                (["--hsa", "/", "--set", "conv"], "invalid choice"):
            done = self.run_tool(*args)
            self.assertEqual(done.returncode, 2)
            self.assertIn(word, done.stderr)

    def test_what_is_not_run_has_its_reason(self):
        with tempfile.TemporaryDirectory() as hsa:
            folder = os.path.join(hsa, "gfx942", "pa")
            os.makedirs(folder)
            with open(os.path.join(folder, "pa_asm.csv"), "w") as f:
                f.write("co_name,ps\nx.co,0\ny.co,1\n")
            open(os.path.join(folder, "y.co"), "w").close()
            done = self.run_tool("--hsa", hsa, "--set", "pa", "--target", "gfx942", "--table")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("x.co", done.stdout)
        self.assertIn("not run: no such object", done.stdout)
        self.assertIn("* gfx942 `y.co`: its work lists are made by a planner", done.stdout)
        self.assertTrue(done.stdout.endswith("2 not run\n"))


if __name__ == "__main__":
    unittest.main()
