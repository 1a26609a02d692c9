#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# prepare.sh FOLDER [--aiter DIR] [--wheels DIR] [--sources]: makes FOLDER/venv, an environment with vLLM and SGLang of PyPI (8 GB),
# FOLDER/aiter, AITER's sources for op_tests.py, and FOLDER/vllm/tests, vLLM's tests for vllm_tests.py. No GPU is needed: the wheels
# are those for CUDA, whose libraries PyTorch loads, and no CUDA kernel runs. Needs Python 3.11. --aiter names a checkout or an unpacked
# archive of AITER's sources of the commit that op_tests.py names, and does not change it. Without --aiter the sources come from
# github.com. If github.com is not reachable, everything else is made, and only op_tests.py lacks its sources. With --wheels the
# environment also has attn, attnc and hipsim from the wheels of a release in DIR, for `run.py FOLDER/venv FOLDER`. With --sources only
# FOLDER/aiter is made.
set -eu
fail() { echo "prepare: $*" >&2; exit 1; }
here=$(cd "$(dirname "$0")" && pwd)
folder='' aiter='' wheels='' sources=false
while [ $# -gt 0 ]; do
    case $1 in
    --aiter)
        [ $# -gt 1 ] || fail '--aiter needs a folder'
        aiter=$(cd "$2" 2>/dev/null && pwd) || fail "--aiter $2: no such folder"
        [ -d "$aiter/aiter" ] && [ -d "$aiter/op_tests" ] || fail "--aiter $2: a folder aiter or op_tests is missing: it is no AITER"
        shift 2
        ;;
    --wheels)
        [ $# -gt 1 ] || fail '--wheels needs a folder'
        wheels=$(cd "$2" 2>/dev/null && pwd) || fail "--wheels $2: no such folder"
        for name in attn attnc hipsim; do
            ls "$wheels/$name"-*.whl >/dev/null 2>&1 || fail "--wheels $2: no wheel of $name is there"
        done
        shift 2
        ;;
    --sources)
        sources=true
        shift
        ;;
    -*) fail "$1: unknown option" ;;
    *)
        [ -z "$folder" ] || fail "$1: one FOLDER is needed"
        folder=$1
        shift
        ;;
    esac
done
[ -n "$folder" ] || fail 'a FOLDER is needed'
mkdir -p "$folder"
cd "$folder"

# Makes ./aiter, AITER's sources. Warns if their commit is not the one of op_tests.txt.
fetch_aiter() {
    commit=$(sed -n 's/^COMMIT = "\([0-9a-f]*\)".*/\1/p' "$here/op_tests.py")
    if [ -n "$aiter" ]; then
        has=$(git -C "$aiter" rev-parse -q --verify HEAD 2>/dev/null || true)
        case $has in
        "$commit"* | '') ;;
        *) echo "prepare: $aiter is commit $has of AITER; op_tests.txt is of $commit" >&2 ;;
        esac
        [ ! -L aiter ] || rm aiter
        [ -e aiter ] || ln -s "$aiter" aiter
        [ "$aiter" -ef aiter ] || fail "$folder/aiter is there already, and is another folder"
        return
    fi
    [ -d aiter ] || git clone -q --filter=blob:none --no-checkout https://github.com/ROCm/aiter aiter || return 1
    [ -d aiter/op_tests ] || git -C aiter checkout -q "$commit" -- aiter op_tests csrc/include
}
# AITER comes before gigabytes of other downloads, and those follow without AITER too.
fetch_aiter || echo 'prepare: github.com is not reachable: op_tests.py needs AITER from elsewhere, by --aiter DIR' >&2
if $sources; then exit 0; fi

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
[ -z "$wheels" ] || uv pip install --reinstall "$wheels"/attn-*.whl "$wheels"/attnc-*.whl "$wheels"/hipsim-*.whl
[ -d vllm/tests ] || python "$here/source_tests.py" vllm 0.33.0 vllm
python -c 'import importlib.metadata as m; print("vLLM", m.version("vllm"), "SGLang", m.version("sglang"))'
