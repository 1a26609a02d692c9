# SPDX-License-Identifier: Apache-2.0
"""Opens the site and a report as files in a headless Chromium, as a reader would.

Usage: pages.py SITE ATTNC

Every link of the site must lead to a page, and to a place in it; this needs no browser. Pages write no errors. On a
phone no page is wider than the screen, and the menu opens. The search finds sections. The report draws what its text
promises.
"""
import html.parser
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.parse

import browser

WIDE, PHONE = (1280, 900), (390, 800)
# Descriptions of the two packs of a report. The first kernel is in both packs, the others are in one.
DESCRIPTIONS = ("""targets: [gfx942, gfx950]
kernels:
  - { op: prefill, head_dim: 64, mask: causal }
  - { op: combine, head_dim: 64 }
""", """targets: [gfx942]
kernels:
  - { op: prefill, head_dim: 64, mask: causal }
  - { op: plan }
""")
faults = []


def check(good, text):
    """Records `text` as a fault if `good` is False."""
    if not good:
        faults.append(text)


class Page(html.parser.HTMLParser):
    """The anchors of a page, and its links to pages and files."""

    def __init__(self, path):
        super().__init__()
        self.places, self.references = set(), []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        a = dict(attributes)
        self.places |= {a[k] for k in ("id", "name") if a.get(k)}
        self.references += [a[k] for k in ("href", "src") if a.get(k)]


def check_links(site):
    """Checks that each link of the site leads to a file and to an anchor in it. Returns the numbers of pages and
    links."""
    pages = {p.resolve(): Page(p) for p in site.rglob("*.html")}
    count = 0
    for path, page in pages.items():
        for reference in page.references:
            if re.match(r"[a-z]+:", reference):
                continue
            count += 1
            link = urllib.parse.urlsplit(reference)
            target = (path.parent / urllib.parse.unquote(link.path)).resolve() if link.path else path
            place = urllib.parse.unquote(link.fragment)
            check(target.is_file(), f"{path.name}: {reference} does not exist")
            if place and target in pages:
                check(place in pages[target].places, f"{path.name}: no place {reference}")
    return len(pages), count


def check_site(tab, site):
    pages = sorted(site.rglob("*.html"))
    check(len(pages) > 50, f"the site has {len(pages)} pages")
    tab.resize(*PHONE)
    for path in pages:
        tab.open(path.as_uri())
        width = tab.run("document.documentElement.scrollWidth")
        check(width <= PHONE[0], f"{path.name}: {width} pixels wide on a phone")
    shown = "getComputedStyle(document.querySelector('nav')).display !== 'none'"
    tab.open((site / "index.html").as_uri())
    check(not tab.run(shown), "the menu covers a phone's page")
    tab.run("document.getElementById('menu-button').click()")
    check(tab.run(shown), "the menu does not open on a phone")
    tab.resize(*WIDE)
    check(tab.run(shown), "there is no menu on a wide screen")
    for url in tab.run("[...document.querySelectorAll('nav a')].map(a => a.href)"):
        path = urllib.parse.urlsplit(url).path
        check(pathlib.Path(urllib.parse.unquote(path)).is_file(), f"the menu's {url} does not exist")
    tab.open((site / "search.html").as_uri() + "?q=lse_head_stride")
    found = tab.run("[...document.querySelectorAll('#results a')].map(a => a.getAttribute('href'))")
    check(any(f.startswith("api-ops.html#") for f in found), f"the search finds {found}")
    tab.open((site / found[0].split("#")[0]).as_uri() if found else "about:blank")
    tab.open((site / "search.html").as_uri() + "?q=nosuchwordanywhere")
    check(tab.run("document.querySelectorAll('#results li').length") == 0, "the search finds all")
    tab.open((site / "api-ops.html").as_uri())
    check(tab.run("document.querySelector('a.home').href.endsWith('/index.html')"),
          "no way from the C API to the first page")


def make_report(attnc, room):
    """Builds both packs and their report in the folder `room`. Returns the path of the report's page."""
    packs = []
    for n, text in enumerate(DESCRIPTIONS):
        description = room / f"d{n}.yaml"
        description.write_text(text)
        packs.append(str(room / f"p{n}.attnpack"))
        subprocess.run([attnc, "build", description, "-o", packs[-1], "--cache", room / "cache", "-q"],
                       check=True, capture_output=True)
    page = room / "report.html"
    subprocess.run([attnc, "report", *packs, "--no-verify", "-o", page, "-j", "2"], check=True,
                   capture_output=True)
    return page


def check_report(tab, page):
    data = json.loads(re.search(r'id="data">(.*?)</script>', page.read_text(), re.S).group(1))
    launches = [t for p in data["packs"] for t in p["traces"]]
    check(all(t["chosen"] for t in launches), "a launch is not one of its kernel")
    listings = [(n, lines) for p in data["packs"] for n, lines in p["listings"].items()]
    for name, lines in listings:
        if name.startswith("prefill"):
            share = sum(line[0] for line in lines)
            check(share > 40, f"{name}: the hot loop has {share:.0f} % of the clocks")
    for size, dark in ((WIDE, False), (PHONE, True)):
        tab.resize(*size, dark)
        tab.open(page.as_uri())
        width = tab.run("document.documentElement.scrollWidth")
        check(width <= size[0], f"the report is {width} pixels wide")
    tab.resize(*WIDE)
    marks = tab.run("document.querySelectorAll('svg.roofline title').length")
    check(marks == len(launches), f"the roofline has {marks} marks for {len(launches)} launches")
    colours = "new Set([...document.querySelectorAll('svg.roofline :is(circle, path)')]" \
        ".filter(e => e.querySelector('title')).map(e => e.getAttribute('fill'))).size"
    check(tab.run(colours) == 2, "targets do not differ in colour")
    words = tab.run("[...document.querySelectorAll('svg.roofline text')].map(t => t.textContent)")
    for word in ("gfx942", "gfx950", "p0.attnpack", "limit", "attained part of the matrix roofline",
                 "arithmetic intensity / intensity at the ridge"):
        check(word in words, f"the roofline does not say '{word}'")
    rows = tab.run("[...document.querySelectorAll('tr.kernel')].map(r => r.textContent)")
    both = set.intersection(*({k["name"] for k in p["kernels"]} for p in data["packs"]))
    check(len(rows) > len(both) > 0, f"{len(rows)} rows")
    for row in rows:
        times = row.count("absent")
        check(times == (0 if any(row.startswith(n) for n in both) else 1), f"absent {times} times: {row}")
    for n in range(len(rows)):
        tab.run(f"document.querySelectorAll('tr.kernel')[{n}].click()")
    details = tab.run("[...document.querySelectorAll('td.detail')].map(d => d.textContent)")
    check(len(details) == len(rows), "a row does not open")
    for row, text in zip(rows, details):
        check("us at" in text and "Where the waves" in text, f"{row}: no launch is shown")
        check("Hot loop: " in text or "No loop." in text, f"{row}: no hot loop")
        check("undefined" not in text and "NaN" not in text, f"{row}: a value is missing")


def main():
    site, attnc = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    pages, links = check_links(site)
    print(f"{links} references of {pages} pages")
    program = browser.find()
    if program:
        tab = browser.Browser(program)
        try:
            check_site(tab, site)
            with tempfile.TemporaryDirectory() as room:
                check_report(tab, make_report(attnc, pathlib.Path(room)))
        finally:
            tab.close()
        faults.extend(tab.errors)
    if faults:
        sys.exit("\n".join(f"pages: {f}" for f in faults[:40]))
    if not program:
        print("no Chromium is installed: the pages were not opened")
        sys.exit(77)


if __name__ == "__main__":
    main()
