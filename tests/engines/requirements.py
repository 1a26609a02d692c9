# SPDX-License-Identifier: Apache-2.0
"""Prints the packages that an installed vLLM requires, except PyTorch and packages that only NVIDIA's GPUs use."""
import importlib.metadata
import re

from packaging.requirements import Requirement

LEFT_OUT = re.compile(r"torch(audio|vision|codec)?$|pynvvideocodec|flashinfer|tilelang|nvidia-|nvtx|fastsafetensors|"
                      r"instanttensor|quack-kernels|tokenspeed|humming", re.IGNORECASE)

for text in importlib.metadata.requires("vllm"):
    requirement = Requirement(text)
    if requirement.marker and not requirement.marker.evaluate({"extra": ""}) or LEFT_OUT.match(requirement.name):
        continue
    requirement.marker = None
    print(requirement)
