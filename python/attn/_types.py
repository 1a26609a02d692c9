# SPDX-License-Identifier: Apache-2.0
"""Types that the signatures of attn name."""
from typing import Any

Tensor = Any  # torch.Tensor, numpy.ndarray, or what has __cuda_array_interface__ or __dlpack__
Stream = Any  # None, a hipStream_t as a number, or what has .handle, .cuda_stream or .ptr
DType = Any  # a dtype of torch or numpy, or the name of one
