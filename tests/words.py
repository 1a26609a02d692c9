#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the words of comments, pages, texts of ops and commit subjects.

Usage: words.py ROOT             every line of the tree, and the commit subjects since SINCE
       words.py --subject FILE   the first line of a commit message, as the hook tools/commit-msg has it

A rule is a regular expression and what to write instead. The rules catch habits that made older text hard to
read: questions, pronouns for nouns, prepositions in front of the subject, everyday words for terms that
docs/glossary.md has. Comments of functions begin with a verb. The check of subjects needs the history of git.
"""
import ast
import pathlib
import re
import subprocess
import sys

SINCE = "d07e0b60"
MOST_WORDS = 25
# Files whose lines are data, or text of other people.
EXEMPT = re.compile(r"(^|/)(words\.py|CHANGELOG\.md|models\.(txt|def)|LICENSE)$|^tests/(fuzz|.*/(golden|data|models))/|^debian/")


RULES = [
    (r"\?\s*$|\?\s*(\*/|[A-Z])", "a statement instead of a question: 'True if ...' for a predicate"),
    (r"\bso (many|much)\b", "the number's name, or 'n'"),
    (r"\b(behind|in front of) (the|it|them|that|those|a|an|each|every|this|which)\b", "'after' or 'before'"),
    (r"\bstands? (for|in|at|there|beside|behind|here|alone|once)\b", "'is', 'represents' or 'is placed'"),
    (r"\b(asks?|asked) (for|whether|of)\b|\bsends? for\b", "'issues', 'loads', 'requests' or 'tests'"),
    (r"\b(those|that|these|this) of\b", "the noun"),
    (r"\b(takes?|taking|in) turns\b", "'persistent scheduler' and 'work tile', or 'alternates'"),
    (r"\b(is|are) told\b|\btells? of\b", "what is passed, and to whom"),
    (r"\bof which\b|\bof whom\b", "a sentence of its own"),
    (r"\b(vote|votes|voted)\b", "'rescale check'"),
]
# Names of functions that templates/ may not have, and names to use instead.
NAMES = [
    (r"\b(?:\w+_)?ask(?:_\w+)?\(", "'load', 'issue' or 'prefetch'"),
    (r"\b(?:\w+_)?meet\(", "'barrier'"),
    (r"\b(?:\w+_)?offer(?:_\w+)?\(", "'insert'"),
    (r"\b(?:\w+_)?turns?(?:_\w+)?\(", "'step', 'iteration' or 'work tile'"),
]
LEADING = re.compile(r"(Of|Behind|For which|In front of|To which|With which|Whose|Where there|Nor|Lets|What|Is|Are|Does|Do|Has|Have) ")

VERBS = """accept adapt add adopt align allow apply assert avoid balance begin bench bound break build bump cache calibrate
call change charge check choose clean clear collect combine compare complete compute convert copy correct count cover cut
decode define delete demand derive describe document draw drop emit enable encode end escape examine exclude execute expect
explain export expose extend extract fill find fit fix fold follow format free fuse gather generate give group guard handle hold
honour ignore implement import improve include infer inline install issue join judge keep know leave let limit link list load lower
make map mark match measure merge mirror model move multiply mutate name note open order overlap pack parse pass permute pick
pin place plan point prefer prefetch print protect prove pull put quote raise read rebuild record reduce refuse register reject
release remove rename reorder repair repeat replace report require reserve reset resolve restore restrict retry return reuse
revert reword rewrite rotate round run say scale scan schedule select send separate serve set share shorten show shrink simplify size
skip sort speed split spread start state stop store strip suggest sum support swap take teach tell test tighten time trace
track train translate treat trim try tune turn unify unroll update use validate verify wait warn weaken widen wrap write zero""".split()

# Verbs that do not say what a commit changes. The hook refuses them in new subjects; history keeps its own.
VAGUE = """align begin bound break fill follow give hold honour keep know leave let meet note open serve suggest take wait
wrap""".split()


def git(root, *words):
    """Returns the output of a git command in the tree `root`."""
    return subprocess.run(["git", "-C", root, *words], check=True, stdout=subprocess.PIPE, text=True).stdout


def subject_faults(subject):
    """Returns a sentence about what is wrong with the first line of a commit message; None: nothing is wrong."""
    match = re.match(r"[A-Za-z0-9_, /.+-]+: ([a-z0-9'-]+)\b", subject)
    if subject.startswith(("Merge ", "Revert ", "fixup!", "squash!")):
        return None
    if not match:
        return "not 'area: verb what'"
    if match.group(1) not in VERBS:
        return "'%s' is no imperative verb of the list in tests/words.py" % match.group(1)
    return "ends with a period" if subject.endswith(".") else None


def c_comments(lines):
    """Yields (first line number, text) of each comment."""
    text = "".join(lines)
    for match in re.finditer(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|/\*.*?\*/|//[^\n]*', text, re.S):
        if match.group().startswith("/"):
            yield text.count("\n", 0, match.start()) + 1, match.group()


def strip_comment(line):
    """Returns a line of a comment without the marks of comments."""
    return re.sub(r"^\s*(/\*+<?|\*/?|//+|#+)\s?|\s*\*/\s*$", "", line.rstrip("\n"))


def paragraphs_of_comments(lines):
    """Yields (first line number, lines) of each comment in C."""
    for first, text in c_comments(lines):
        yield first, [strip_comment(line) for line in text.split("\n")]


def paragraphs_of_python(lines):
    """Yields (first line number, lines) of each comment of a whole line, and of each docstring."""
    for number, line in enumerate(lines, 1):
        if re.match(r"\s*#(?!!)", line):
            yield number, [strip_comment(line)]
    for node in ast.walk(ast.parse("".join(lines))):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node):
            text = node.body[0]
            block = lines[text.lineno - 1:text.end_lineno]
            yield text.lineno, [line.strip().replace('"""', "") for line in block]


def paragraphs_of_markdown(lines):
    """Yields (first line number, lines) of each paragraph, without tables, code and headings."""
    code, start, block = False, 0, []
    for number, line in enumerate([*lines, "\n"], 1):
        text = line.rstrip("\n")
        code ^= text.lstrip().startswith("```")
        if code or not text.strip() or text.startswith(("    ", "|", "#", "```")) or re.match(r"\s*[*-] ", text):
            if block:
                yield start, block
            start, block = 0, []
            if not code and re.match(r"\s*[*-] ", text):
                start, block = number, [re.sub(r"^\s*[*-] ", "", text)]
        else:
            start = start or number
            block.append(text)


READERS = {".c": paragraphs_of_comments, ".h": paragraphs_of_comments, ".def": paragraphs_of_comments,
           ".py": paragraphs_of_python, ".md": paragraphs_of_markdown}


def long_sentences(block):
    """Yields the beginning of each sentence with more than MOST_WORDS words."""
    text = re.sub(r"`[^`]*`|\([^)]*\)|https?:\S+", "x", " ".join(block))
    for sentence in re.split(r"[.:;!]\s+|\s{2,}", text):
        if len(re.findall(r"[A-Za-z0-9_'-]+", sentence)) > MOST_WORDS:
            yield sentence[:60]


# Folders whose functions have comments that begin with a verb: "Copies ...", "True if ...", "Like f(), ...".
ROOMS = ("templates/", "ir/", "targets/", "tools/attnc/")
FUNCTION = re.compile(r"(/\*(?:(?!\*/).)*\*/)\n(?:static |inline |const |extern )*(?:struct |enum )?"
                      r"\w+[ *]+\w+\([^;{]*\)\s*[;{]", re.S)
NOUNS = """arguments attributes bits blocks bytes cells columns elements entries heads items its keys kinds lanes
    layouts members offsets pages parts queries registers rows scalars scores slots states terms this tiles tokens
    units values waves weights words workgroups""".split()


def verbless(path, text):
    """Yields (line number, what) for each function whose comment does not begin with a verb."""
    if not path.startswith(ROOMS) or not path.endswith((".c", ".h")):
        return
    for match in FUNCTION.finditer(text):
        first = re.match(r"[\s/*]*(\S+)", match.group(1)).group(1).strip(".,:;")
        verb = re.fullmatch(r"[A-Z][a-z]+s", first) and first.lower() not in NOUNS
        if not verb and first not in ("True", "Like") and first.lower() not in VERBS:
            number = text.count("\n", 0, match.start()) + 1
            yield number, "a function's comment begins with %r, not with a verb" % first


def faults(path, text):
    """Yields (line number, what) for each fault in a file."""
    for first, block in READERS[pathlib.PurePath(path).suffix](text.splitlines(keepends=True)):
        for number, line in enumerate(block, first):
            plain = re.sub(r"`[^`]*`|\"[^\"]*\"", "x", line)
            for rule, instead in RULES:
                if re.search(rule, plain):
                    yield number, "%r: write %s" % (re.search(rule, plain).group().strip(), instead)
        opening = next((t for t in block if t.strip()), "")
        if LEADING.match(opening):
            yield first, "begins with %r: name the subject first" % opening.split()[0]
        for sentence in long_sentences(block):
            yield first, "a sentence of more than %d words: %s..." % (MOST_WORDS, sentence)
    yield from verbless(path, text)
    for number, line in enumerate(text.split("\n"), 1):
        for rule, instead in NAMES:
            if path.startswith("templates/") and not line.startswith(" *") and re.search(rule, line):
                yield number, "%r: write %s" % (re.search(rule, line).group().strip("("), instead)


def main():
    if sys.argv[1] == "--subject":
        subject = pathlib.Path(sys.argv[2]).read_text().split("\n")[0]
        wrong = subject_faults(subject)
        if not wrong and re.search(r": (%s)\b" % "|".join(VAGUE), subject):
            wrong = "the verb does not say what changes: 'add', 'fix', 'remove', 'rename', 'report', 'read', 'write'"
        if wrong:
            print("%s: %s" % (subject, wrong))
        return 1 if wrong else 0
    root, bad = sys.argv[1], 0
    for line in git(root, "log", "--format=%H %s", SINCE + "..HEAD").splitlines():
        commit, _, subject = line.partition(" ")
        wrong = subject_faults(subject)
        if wrong:
            print("%s %s: %s" % (commit[:8], subject, wrong))
            bad += 1
    for path in git(root, "ls-files").splitlines():
        if EXEMPT.search(path) or pathlib.PurePath(path).suffix not in READERS:
            continue
        for number, what in faults(path, (pathlib.Path(root) / path).read_text()):
            print("%s:%d: %s" % (path, number, what))
            bad += 1
    print("%d faults" % bad)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
