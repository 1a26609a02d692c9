# SPDX-License-Identifier: Apache-2.0
"""Tests attn.describe(): it makes a description from a model's configuration, and attn.build() compiles that."""
import json
import pathlib
import tempfile
import types
import unittest
from unittest import mock

import attn
from attn import _engine
import support

CONFIG = {"model_type": "qwen3", "num_hidden_layers": 2, "hidden_size": 512, "head_dim": 128, "num_attention_heads": 8,
          "num_key_value_heads": 2}


class Describe(unittest.TestCase):
    def test_layers_and_ranks(self):
        out = attn.describe(CONFIG, tp=(1, 2))
        layer, = out["attention"]
        self.assertEqual((layer["layers"], layer["heads"], layer["kv_heads"], layer["head_dim"]), (2, 8, 2, 128))
        self.assertEqual([(r["tp"], r["heads"], r["kv_heads"]) for r in layer["ranks"]], [(1, 8, 2), (2, 4, 1)])
        self.assertEqual(out["missing"], [])
        self.assertNotIn("output", out)
        self.assertTrue(out.text.startswith("# A model (model_type qwen3), 2 layers, bf16"), out.text[:60])

    def test_every_form_of_a_configuration(self):
        want = attn.describe(CONFIG)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "config.json"
            path.write_text(json.dumps(CONFIG))
            for config in (path, str(path), folder, types.SimpleNamespace(to_dict=lambda: CONFIG)):
                got = attn.describe(config)
                self.assertEqual((got, got.text), (want, want.text), config)

    def test_a_pack_has_all_launches_of_an_engine(self):
        """Opens the kernels of an engine's step, as attn.vllm and attn.sglang do, and of cache_write, from a pack of
        `attnc describe`."""
        kind = _engine.Kind(dtype="bf16", heads=8, kv_heads=2, head_dim=128, head_dim_v=128, scale=0.1, kv_dtype="fp8")
        for scale in ("tensor", "head"):
            text = attn.describe(CONFIG, page_size="any", kv_dtype="fp8", kv_scale=scale)
            device = attn.Device(attn.build(text, quiet=True), hip="sim")
            layer = kind._replace(kv_scale=scale)
            _engine.Steps(device, [layer], page_size=16, max_batch=2, max_tokens=32)
            device.cache_write(dtype="bf16", head_dim=128, kv_heads=2, cache=layer.cache(16))

    def test_the_cache(self):
        text = attn.describe(CONFIG, page_size="any", kv_dtype="float8_e4m3fn", kv_scale="tensor", draft_tokens=3).text
        for line in ("page_size: any", "kv_dtype: fp8", "kv_scale: tensor"):
            self.assertIn(line, text)
        self.assertIn("q_len", text)
        self.assertNotIn("custom", text)
        self.assertIn("custom", attn.describe(CONFIG, draft_tokens=3, draft_tree=True).text)
        self.assertIn("kv_layout: shuffle", attn.describe(CONFIG, kv_layout="shuffle").text)

    def test_what_is_missing_is_listed(self):
        out = attn.describe(dict(CONFIG, attention_of_next_year=True))
        self.assertTrue(any("attention_of_next_year" in str(text) for text in out["missing"]), out["missing"])

    def test_a_configuration_that_attnc_refuses(self):
        with self.assertRaisesRegex(attn.AttnError, "num_attention_heads"):
            attn.describe({k: v for k, v in CONFIG.items() if k != "num_attention_heads"})

    def test_without_the_compiler(self):
        with mock.patch.dict("os.environ", ATTN_ATTNC="/no/such/attnc"):
            with self.assertRaisesRegex(attn.AttnError, "attn.describe needs the compiler"):
                attn.describe(CONFIG)

    def test_it_is_built(self):
        text = attn.describe({**CONFIG, "num_hidden_layers": 1}).text
        short = attn.Description()
        short.text = text.replace("targets: [gfx942, gfx950]", f"targets: [{support.TARGET}]")
        ops = {kernel["op"] for kernel in attn.build(short).kernels()}
        self.assertLessEqual({"prefill", "decode", "plan", "combine", "rope_qk_norm_cache"}, ops)


if __name__ == "__main__":
    unittest.main()
