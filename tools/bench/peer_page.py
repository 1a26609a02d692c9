# SPDX-License-Identifier: Apache-2.0
"""Writes the comparison of tools/bench/peers as one HTML page: a bar for each row, and the tables."""
import html
import os

BARS = """
.bar { position: relative; width: 300px;
  background: linear-gradient(var(--soft), var(--soft)) 50% 0 / 1px 100% no-repeat; }
.bar i { position: absolute; top: 4px; bottom: 4px; left: 0; opacity: 0.6; }
.less { background: var(--good); } .more { background: var(--bad); }
.bar b { position: relative; }
"""

SCALE = 2.0  # the ratio at which a bar is full; 1 is in its middle


def bar(ratio):
    width = 100 * min(ratio, SCALE) / SCALE
    return ("<td class=bar><i class=%s style='width:%.1f%%'></i><b>%.2f</b></td>" %
            ("less" if ratio <= 1 else "more", width, ratio))


def cell(value):
    if value is None:
        return "<td>-</td>"
    if isinstance(value, str):
        return "<td>%s</td>" % html.escape(value)
    return "<td>%s</td>" % ("{:,.0f}".format(value) if abs(value) >= 1000 else "%.3g" % value)


def table(title, note, columns, rows):
    """Returns a table as HTML. Rows are (name, ratio, values); `columns` names the values."""
    head = "".join("<th>%s</th>" % html.escape(c) for c in ["", "ratio"] + columns)
    body = "".join("<tr><td>%s</td>%s%s</tr>\n" %
                   (html.escape(what), bar(ratio), "".join(cell(v) for v in values))
                   for what, ratio, values in rows)
    return "<h2>%s</h2><p>%s</p><table><tr>%s</tr>\n%s</table>\n" % (
        html.escape(title), html.escape(note), head, body)


def page(tables):
    """Returns the page as HTML. Each of `tables` has the arguments of table()."""
    style = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../attnc/report/page_style.css")
    with open(style) as f:
        return ("<!doctype html><meta charset=utf-8><title>attnc beside its peers</title>"
                "<style>%s%s</style><h1>attnc beside its peers</h1><p>All figures are modelled. A bar is "
                "what attnc takes of the other's cycles or time: the line in the middle is as much, "
                "and green is less.</p>\n%s" % (f.read(), BARS, "".join(table(*t) for t in tables)))
