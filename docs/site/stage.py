# SPDX-License-Identifier: Apache-2.0
"""Stages the pages of the site: stage.py SOURCE BUILD STAGE.

Pages are the Markdown files of the repository, the output of `attnc help`, and the ops by their schemas. A file or
folder of the repository that a page links to is a page too. Links are changed to the site's. A link that leads
nowhere, and a page that no section of mkdocs.yml has, end the program with a sentence.
"""
import json
import os
import re
import shutil
import subprocess
import sys

source, build, stage = sys.argv[1:]
attnc = f"{build}/tools/attnc/attnc"

# Pages outside the folders of pages, whose files keep their names.
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "ir/LANGUAGE.md": "ir.md",
    "ops/README.md": "schemas.md",
    "templates/README.md": "templates.md",
}
LANGUAGES = {".c": "c", ".h": "c", ".def": "c", ".yaml": "yaml", ".py": "python", ".txt": "cmake"}


def fail(text):
    sys.exit(f"tools/site: {text}")


def pages_of_repository():
    pages = dict(PAGES)
    for folder in ["docs", "tools/hipsim/docs"]:
        for name in sorted(os.listdir(f"{source}/{folder}")):
            if name.endswith(".md"):
                pages[f"{folder}/{name}"] = name
    for name in sorted(os.listdir(f"{source}/examples")):
        if os.path.exists(f"{source}/examples/{name}/README.md"):
            pages[f"examples/{name}/README.md"] = f"{name}.md"
    return pages


pages = pages_of_repository()
sources = {}  # files and folders that pages link to, by their page


def site_page(path):
    """The page of a file or folder of the repository."""
    if os.path.isdir(f"{source}/{path}"):
        if path == "docs":
            return "index.md"
        readme = f"{path}/README.md"
        if readme in pages:
            return pages[readme]
    if path in pages:
        return pages[path]
    sources[path] = f"sources/{path}.md"
    return sources[path]


def with_links(text, path):
    """The text of the page at `path` with the links of the site."""
    folder, here = os.path.dirname(path), os.path.dirname(pages[path])

    def change(match):
        target, _, anchor = match.group(1).partition("#")
        if not target or re.match(r"[a-z]+:", target):
            return match.group(0)
        full = os.path.normpath(os.path.join(folder, target))
        if not os.path.exists(f"{source}/{full}"):
            fail(f"{path}: {target} does not exist")
        link = os.path.relpath(site_page(full), here or ".")
        return f"]({link}{'#' + anchor if anchor else ''})"

    return re.sub(r"\]\(([^)\s]+)\)", change, text)


def write(page, text):
    path = f"{stage}/{page}"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def read(path):
    with open(f"{source}/{path}", encoding="utf-8") as file:
        return file.read()


def block(text, language=""):
    return f"```{language}\n{text.rstrip()}\n```\n"


def write_sources():
    for path, page in sorted(sources.items()):
        text = f"# {path}\n\n"
        folder = f"{source}/{path}"
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else [""]
        for name in names:
            file = f"{path}/{name}" if name else path
            if os.path.isdir(f"{source}/{file}"):
                continue
            text += f"## {name}\n\n" if name else ""
            text += block(read(file), LANGUAGES.get(os.path.splitext(file)[1], "")) + "\n"
        write(page, text)


def says(*arguments):
    return subprocess.run([attnc, *arguments], check=True, capture_output=True, text=True).stdout


def write_commands():
    usage = says("help")
    commands = re.findall(r"^  ([a-z-]+)  +[A-Z]", usage, flags=re.M)
    text = "# attnc\n\n" + block(usage)
    for command in commands:
        text += f"\n## attnc {command}\n\n" + block(says("help", command))
    write("commands.md", text)
    write("targets.md", "# Targets\n\n" + block(says("help", "targets")))
    write("passes.md", "# Passes\n\n" + block(says("help", "passes")))


def write_fields():
    text, *entries = says("help", "fields").rstrip().split("\n\n")
    page = f"# Fields of a description\n\n{text}\n"
    for entry in entries:
        name = entry.partition(":")[0]
        page += f"\n## {name}\n\n" + block(entry)
    write("fields.md", page)


def escaped(text):
    return re.sub(r"([\\|*_<>\[\]`])", r"\\\1", text or "")


def members(rows):
    """A table of the members of a struct; the first is its size."""
    text = "| member | type | |\n| --- | --- | --- |\n"
    for row in rows[1:]:
        count = f"[{row['count']}]" if row["count"] else ""
        text += f"| `{row['name']}{count}` | `{row['type']}` | {escaped(row['doc'])} |\n"
    return text


def write_ops():
    with open(f"{build}/ops/ops.json", encoding="utf-8") as file:
        ops = json.load(file)["ops"]
    page = (
        "# Ops\n\nWhat each op takes, and its limits, as libattn checks them; "
        "the [C API](api-ops.md) has the functions.\n"
    )
    for op in ops:
        page += f"\n## {op['name']}\n\n{escaped(op['title'])}.\n\n"
        page += block(op["about"], "text") if op["about"] else ""
        page += f"\n### struct attn_{op['name']}_desc\n\n{members(op['desc'])}"
        page += f"\n### struct attn_{op['name']}_args\n\n{members(op['args'])}"
    write("ops.md", page)


def check_sections():
    listed = set(re.findall(r"[\w-]+[.]md", read("docs/site/mkdocs.yml")))
    for path, page in pages.items():
        if page not in listed:
            fail(f"docs/site/mkdocs.yml has no section with {page} ({path})")


shutil.rmtree(stage, ignore_errors=True)
check_sections()
for path, page in pages.items():
    write(page, with_links(read(path), path))
write_sources()
write_commands()
write_fields()
write_ops()
