# SPDX-License-Identifier: Apache-2.0
"""A simulated AMD GPU for Python programs, above all for Triton kernels.

`python -m hipsim [--target mi355x] [--checks on] [--time] SCRIPT [ARGUMENT]...` runs a script whose Triton kernels then
compile for that GPU and run on the simulator, with tensors of torch's CPU build. A program does the same with
hipsim.use(target="mi355x") before its first launch. No figure is measured: every time is modelled.
"""
from hipsim._library import HipsimError, Library, library, library_path

__all__ = ["HipsimError", "Library", "findings", "library", "library_path", "use"]


def use(target="mi300x", **options):
    """Makes Triton compile for `target` and launch on the simulator, and torch's device "cuda" mean the CPU's memory.

    `target` and `options` are options of HIPSIM, such as checks="on" or time=True; True and False are on and off.
    Raises HipsimError for an option that does not exist or comes too late, and ImportError without Triton.
    """
    simulator = library()
    simulator.configure(target=target, **options)
    from hipsim import _triton
    _triton.activate(simulator)


def findings():
    """The number of findings of the checks in launches that went on."""
    return library().findings()
