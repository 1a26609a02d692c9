#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints attn(3) from the comments of public headers, which Doxygen reads.

    manual.py DOXYGEN DOXYFILE VERSION HEADER...

The Doxyfile is the site's: page and site say the same. A header's sections, lines of the form
"---- name ----" in a comment, are headings of the page.
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
import xml.etree.ElementTree as ET

WIDTH = 92
TITLE = r""".TH ATTN 3 "" "attnc {version}" "libattn"
.SH NAME
attn \- dispatch of compiled attention kernels on AMD GPUs
.SH SYNOPSIS
.nf
\fB#include <attn.h>\fR
\fBcc \&... $(pkg\-config \-\-cflags \-\-libs attn)\fR
.fi"""


def troff(text):
    """A line of text, so that troff prints it as it is."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in (".", "'") else text


def read_headers(doxygen, doxyfile, headers):
    """Doxygen's XML: a list of compounddef elements."""
    with tempfile.TemporaryDirectory() as room:
        settings = pathlib.Path(doxyfile).read_text() + f"""
            OUTPUT_DIRECTORY = "{room}"
            GENERATE_HTML = NO
            GENERATE_XML = YES
            XML_PROGRAMLISTING = NO
            INPUT = {" ".join(f'"{h}"' for h in headers)}
            USE_MDFILE_AS_MAINPAGE =
            """
        subprocess.run([doxygen, "-"], input=settings, text=True, check=True,
                       stdout=subprocess.DEVNULL)
        files = sorted(pathlib.Path(room, "xml").glob("*.xml"))
        return [c for f in files for c in ET.parse(f).getroot().iter("compounddef")]


def text_of(element):
    return "".join(element.itertext()) if element is not None else ""


def paragraphs(element):
    """The brief and the detailed description: texts, and lists of lines that stay as they are."""
    found = []
    for part in (element.find("briefdescription"), element.find("detaileddescription")):
        for n, para in enumerate(part.findall("para") if part is not None else []):
            text = para.text or ""
            for child in para:
                if child.tag == "verbatim":
                    found += [text, child.text.rstrip("\n").split("\n")]
                    text = child.tail or ""
                else:
                    text += text_of(child) + (child.tail or "")
            # The first detailed paragraph goes on where the brief sentence ends.
            if part.tag == "detaileddescription" and n == 0 and found and isinstance(found[-1], str):
                text = found.pop() + " " + text
            found.append(text)
    found = [" ".join(p.split()) if isinstance(p, str) else p for p in found]
    return [p for p in found if p]


def print_about(element):
    for n, part in enumerate(paragraphs(element)):
        if n:
            print(".sp")
        if isinstance(part, str):
            print(troff(part))
        else:
            print(".nf", *("    " + troff(line) for line in part), ".fi", sep="\n")


def remark(element):
    """Returns the description of a member or a value as one line."""
    return " ".join(p if isinstance(p, str) else " ".join(p) for p in paragraphs(element))


def with_remark(code, text):
    """Returns the lines of a member: its remark follows on the same line or below."""
    if not text:
        return [code]
    if len(code) + len(text) + 7 <= WIDTH:
        return [f"{code} /* {text} */"]
    lines = textwrap.wrap(f"/* {text} */", WIDTH - 8, break_long_words=False)
    return [code] + [" " * 8 + ("" if n == 0 else " * ") + line for n, line in enumerate(lines)]


def declared(member):
    """A member, a function or a typedef as C has it."""
    kind = member.get("kind")
    type_name = text_of(member.find("type"))
    arguments = text_of(member.find("argsstring"))
    star = "" if type_name.endswith("*") or "(" in type_name else " "
    code = f"{'typedef ' if kind == 'typedef' else ''}{type_name}{star}{text_of(member.find('name'))}"
    return f"{code}{arguments};"


def enum_lines(member):
    values = []
    for value in member.findall("enumvalue"):
        given = text_of(value.find("initializer"))
        code = f"    {value.findtext('name')}{' ' + given if given else ''},"
        values += with_remark(code, remark(value))
    return [f"enum {member.findtext('name')} {{", *values, "};"]


def struct_lines(compound):
    lines = [f"struct {compound.findtext('compoundname')} {{"]
    for member in compound.iter("memberdef"):
        lines += with_remark("    " + declared(member), remark(member))
    return lines + ["};"]


def define_lines(member):
    names = [text_of(p) for p in member.findall("param")]
    given = text_of(member.find("initializer"))
    return [f"#define {member.findtext('name')}{'(' + ', '.join(names) + ')' if names else ''} {given}"]


def function_lines(member):
    code = declared(member).replace(" *", "\0*")  # no line begins with a star
    lines = textwrap.wrap(code, WIDTH, subsequent_indent=" " * 4, break_long_words=False)
    return [line.replace("\0", " ") for line in lines]


PRINTED = {"enum": enum_lines, "define": define_lines, "function": function_lines,
           "typedef": function_lines}


def entries_of(compounds, name):
    """(line, element, its declaration's lines) of all that a header declares and describes."""
    for c in compounds:
        location = c.find("location")
        if c.get("kind") == "struct" and pathlib.Path(location.get("file")).name == name:
            yield int(location.get("line")), c, struct_lines(c)
        if c.get("kind") != "file" or c.findtext("compoundname") != name:
            continue
        for m in c.iter("memberdef"):
            if m.get("kind") in PRINTED and (paragraphs(m) or m.get("kind") != "define"):
                yield int(m.find("location").get("line")), m, PRINTED[m.get("kind")](m)


def sections_of(path):
    found = re.finditer(r"^/\* ---- (.*) ---- \*/$", path.read_text(), re.MULTILINE)
    return [(m.string.count("\n", 0, m.start()) + 1, m.group(1)) for m in found]


def print_header(compounds, path, first):
    print(".SH DESCRIPTION" if first else f".SH {path.name.upper()}")
    for c in compounds:
        if c.get("kind") == "file" and c.findtext("compoundname") == path.name:
            print_about(c)
    sections = sections_of(path)
    for line, element, code in sorted(entries_of(compounds, path.name), key=lambda e: e[0]):
        while sections and sections[0][0] < line:
            print(".SH", troff(sections.pop(0)[1].upper()))
        print(".PP", ".nf", *("\\fB" + troff(c) + "\\fR" for c in code), ".fi", ".RS 4", sep="\n")
        print_about(element)
        print(".RE")


def main():
    doxygen, doxyfile, version, *headers = sys.argv[1:]
    compounds = read_headers(doxygen, doxyfile, headers)
    print(TITLE.format(version=version))
    for n, path in enumerate(map(pathlib.Path, headers)):
        print_header(compounds, path, n == 0)
    print(".SH SEE ALSO\n.BR attnc (1)")


if __name__ == "__main__":
    main()
