# SPDX-License-Identifier: Apache-2.0
"""interface_members.py SAVED NOW: compares the structs of two interfaces, files that abidw wrote. Each member of SAVED
must have the same offset in NOW, and each enumerator the same value. abidiff 2.2 misses some members that were inserted
into a struct."""
import sys
import xml.etree.ElementTree as tree


def places(path):
    """Returns {struct or enum: {member: offset in bits, or enumerator: value}} of an interface."""
    out = {}
    root = tree.parse(path).getroot()
    for kind in root.iter("class-decl"):
        if kind.get("size-in-bits"):
            out[kind.get("name")] = {m.find("var-decl").get("name"): m.get("layout-offset-in-bits")
                                     for m in kind.findall("data-member")}
    for kind in root.iter("enum-decl"):
        out[kind.get("name")] = {e.get("name"): e.get("value") for e in kind.findall("enumerator")}
    return out


def main(saved, now):
    """Prints members and enumerators that moved or are missing. Returns True if there are any."""
    known, moved = places(now), []
    for kind, names in places(saved).items():
        own = known.get(kind, names)  # abidiff reports a struct or enum that is missing
        moved += [f"{kind}: {name} was at {place}, is at {own.get(name)}" for name, place in names.items()
                  if own.get(name) != place]
    print(*moved, sep="\n")
    return bool(moved)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
