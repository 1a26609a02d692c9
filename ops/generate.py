# SPDX-License-Identifier: Apache-2.0
"""Usage: generate.py FOLDER OUTPUT...

Writes each output file from the .def files in FOLDER. The file's name selects the function that makes its text."""
import pathlib
import sys

import dispatch
import export
import headers
import help
import names
import pymodule
import schema
import tensors
import verification

MAKERS = {
    "attn_types.h": headers.types_header,
    "attn_ops.h": headers.ops_header,
    "attn_ops.c": dispatch.dispatch_source,
    "attn_dlpack.c": tensors.dlpack_source,
    "attn_dlpack.h": tensors.dlpack_header,
    "attn_tensors.c": tensors.tensors_source,
    "op_help.c": help.help_source,
    "op_operands.h": verification.operands_header,
    "verify_ops.c": verification.schemas_source,
    "op_kernel_args.def": names.kernel_args_table,
    "op_members.def": export.members_table,
    "ops.json": export.as_json,
    "_ops.py": pymodule.module,
    "op_args.def": names.args_table,
    "op_names.h": names.template_header,
}


def main(folder, *outputs):
    sys.dont_write_bytecode = True
    model = schema.Schema(folder)
    for output in outputs:
        path = pathlib.Path(output)
        path.write_text(MAKERS[path.name](model))


main(*sys.argv[1:])
