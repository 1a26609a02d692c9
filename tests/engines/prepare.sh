#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# prepare.sh FOLDER: makes FOLDER/venv, an environment with vLLM and SGLang of PyPI (8 GB), FOLDER/aiter, AITER's sources
# for op_tests.py, and FOLDER/vllm/tests, vLLM's tests for vllm_tests.py. Nothing needs a GPU: the wheels are of CUDA, whose libraries PyTorch loads, and none of their kernels
# runs. Python 3.11.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
cd "$1"
python3.11 -m venv venv
. venv/bin/activate
pip install -q uv packaging
uv pip install torch==2.14.0 torchvision==0.29.0
uv pip install --no-deps vllm==0.33.0 sglang==0.5.23
# What vLLM's wheel requires, without the parts that only a GPU of NVIDIA's uses.
python "$here/requirements.py" >requirements.txt
uv pip install -r requirements.txt numpy cffi
# What SGLang imports besides; it pins another PyTorch.
uv pip install IPython datasets scipy kernels zstandard av uvloop python-multipart interegular
uv pip install --no-deps torch_memory_saver outlines==0.1.11 timm==1.0.25 soundfile modelscope easydict distro build gguf
# AITER's and vLLM's tests and what they compare with.
uv pip install pytest pandas einops tabulate tblib pypi-simple
[ -d vllm/tests ] || python "$here/source_tests.py" vllm 0.33.0 vllm
commit=$(sed -n 's/^COMMIT = "\([0-9a-f]*\)".*/\1/p' "$here/op_tests.py")
[ -d aiter ] || git clone -q --filter=blob:none --no-checkout https://github.com/ROCm/aiter aiter
[ -d aiter/op_tests ] || git -C aiter checkout -q "$commit" -- aiter op_tests csrc/include
python -c 'import importlib.metadata as m; print("vLLM", m.version("vllm"), "SGLang", m.version("sglang"))'
