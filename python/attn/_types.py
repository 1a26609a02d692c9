# SPDX-License-Identifier: Apache-2.0
"""Types that the signatures of attn name."""
import dataclasses
from typing import Any, Literal, Optional

Tensor = Any  # torch.Tensor, numpy.ndarray, or what has __cuda_array_interface__ or __dlpack__
Stream = Any  # None, a hipStream_t as a number, or what has .handle, .cuda_stream or .ptr


@dataclasses.dataclass(frozen=True)
class CacheDesc:
    """The form of keys and values in a cache, which is fixed for a layer.

    dtype: of its elements; None: the op's dtype
    layout: "nhd", k and v [page, token, kv head, D] with free strides, or "shuffle", k [page, kv
        head, D / x, P, x] and v [page, kv head, P / x, D, x] with x elements in 16 bytes; "shuffle_k",
        the same with v [page, kv head, D, P]; "packed", rows of latents with their scales
    scale: which elements share a scale, for fp8 and int8
    page_size: tokens in a page
    """
    dtype: Optional[Literal["bf16", "fp16", "fp8", "int8"]] = None
    layout: Literal["nhd", "shuffle", "packed", "shuffle_k"] = "nhd"
    scale: Literal["none", "tensor", "token", "block", "e8m0"] = "none"
    page_size: int = 1
