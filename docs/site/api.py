# SPDX-License-Identifier: Apache-2.0
"""Writes the C API as pages of the site, from the comments of public headers, which Doxygen reads.

    api.py DOXYGEN STAGE HEADER...

A header is a page, a section of it a heading, and what it declares an entry below: the same that
attn(3) has, by the same functions (runtime/manual.py).
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "runtime"))
import manual  # noqa: E402

PAGES = {
    "attn.h": "api.md",
    "attn_base.h": "api-base.md",
    "attn_types.h": "api-types.md",
    "attn_ops.h": "api-ops.md",
    "attn_dlpack.h": "api-dlpack.md",
    "attn_hook.h": "api-hook.md",
}
HAS = {
    "attn.h": "all of the API: it includes the next three",
    "attn_base.h": "packs, devices, ops and errors",
    "attn_types.h": "types that ops share",
    "attn_ops.h": "descriptor, arguments, lookup and launch of every op",
    "attn_dlpack.h": "tensors of an op's arguments from DLPack",
    "attn_hook.h": "what a user's function on the logits is given",
}


def escaped(text):
    return re.sub(r"([\\*_<>\[\]`|])", r"\\\1", text)


def about(element):
    text = ""
    for part in manual.paragraphs(element):
        if isinstance(part, str):
            text += escaped(part) + "\n\n"
        else:
            text += "```text\n" + "\n".join(part) + "\n```\n\n"
    return text


def heading(element):
    kind, name = element.get("kind"), element.findtext("name") or element.findtext("compoundname")
    return f"{kind} {name}" if kind in ("struct", "enum") else name + "()" * (kind == "function")


def entries(compounds, path):
    """The Markdown of a header's declarations, each below its section."""
    text, level = "", "##"
    sections = manual.sections_of(path)
    for line, element, code in sorted(manual.entries_of(compounds, path.name), key=lambda e: e[0]):
        while sections and sections[0][0] < line:
            name = sections.pop(0)[1]
            text += f"## {name[0].upper()}{name[1:]}\n\n"
            level = "###"
        text += f"{level} {heading(element)}\n\n```c\n" + "\n".join(code) + "\n```\n\n" + about(element)
    return text


def page(compounds, path):
    text = f"# {path.name}\n\n"
    for compound in compounds:
        if compound.get("kind") == "file" and compound.findtext("compoundname") == path.name:
            text += about(compound)
    if path.name == "attn.h":
        text = "# C API\n\nThe C API of libattn, from the comments of its headers; `attn(3)` has the same text.\n\n"
        text += "| header | has |\n| --- | --- |\n"
        text += "".join(f"| [{n}]({PAGES[n]}) | {HAS[n]} |\n" for n in PAGES) + "\n"
    return text + entries(compounds, path)


def main():
    doxygen, stage, *headers = sys.argv[1:]
    doxyfile = pathlib.Path(__file__).with_name("Doxyfile")
    compounds = manual.read_headers(doxygen, doxyfile, headers)
    for path in map(pathlib.Path, headers):
        pathlib.Path(stage, PAGES[path.name]).write_text(page(compounds, path), encoding="utf-8")


if __name__ == "__main__":
    main()
