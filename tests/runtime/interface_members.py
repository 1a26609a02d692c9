# SPDX-License-Identifier: Apache-2.0
"""interface_members.py SAVED NOW: compares the structs of two interfaces, files that abidw wrote. Each member of SAVED
must have the same offset in NOW, and each enumerator the same value. abidiff 2.2 misses some members that were inserted
into a struct. A new member must begin after the end of SAVED's struct, since programs may leave anything in padding."""
import sys
import xml.etree.ElementTree as tree


def places(path):
    """Returns {struct or enum: {member: offset in bits, or enumerator: value}} and {struct: bits} of an interface."""
    out, sizes = {}, {}
    root = tree.parse(path).getroot()
    for kind in root.iter("class-decl"):
        if kind.get("size-in-bits"):
            sizes[kind.get("name")] = int(kind.get("size-in-bits"))
            out[kind.get("name")] = {m.find("var-decl").get("name"): m.get("layout-offset-in-bits")
                                     for m in kind.findall("data-member")}
    for kind in root.iter("enum-decl"):
        out[kind.get("name")] = {e.get("name"): e.get("value") for e in kind.findall("enumerator")}
    return out, sizes


def main(saved, now):
    """Prints members and enumerators that moved, are missing, or took the place of padding. Returns True if there are
    any."""
    (old, sizes), (known, _), moved = places(saved), places(now), []
    for kind, names in old.items():
        own = known.get(kind, names)  # abidiff reports a struct or enum that is missing
        moved += [f"{kind}: {name} was at {place}, is at {own.get(name)}" for name, place in names.items()
                  if own.get(name) != place]
        moved += [f"{kind}: {name} is at {place}, where programs of {sizes[kind]} bits have padding" for name, place in own.items()
                  if kind in sizes and name not in names and int(place) < sizes[kind]]
    print(*moved, sep="\n")
    return bool(moved)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
