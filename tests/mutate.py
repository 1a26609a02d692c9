#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mutate.py SOURCE: tests tools/mutate. It judges a mutation only by packs that were built from it, and skips tests
whose packs are not built."""
import importlib.machinery
import importlib.util
import pathlib
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv[1])
loader = importlib.machinery.SourceFileLoader("mutate", str(SOURCE / "tools/mutate"))
sys.dont_write_bytecode = True
mutate = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutate", loader))
loader.exec_module(mutate)

FILES = {"templates/a.c": "right\n", "runtime/b.c": "right\n"}


class Tree(mutate.Tree):
    """A stand-in for a source tree: its packs are copies of a template, and its tests pass if their pack is the
    template without a mutation."""

    def __init__(self, folder, packs):
        self.path, self.built, self.packs = folder, set(), {}
        self.places, self.idle, self.tracing_cost = set(), (), 0
        self.history = mutate.History(folder / "tests.json", "head", set(packs), set(packs))
        self.tests = [{"name": "of_" + pack, "suite": ["attnc:runtime"], "depends": [pack]} for pack in packs]
        for name, text in FILES.items():
            (folder / name).parent.mkdir()
            (folder / name).write_text(text)

    def builds(self, test, seconds, without=()):
        """Copies the template into all packs on which a test depends, except those in `without`."""
        for pack in set(test["depends"]) - set(without):
            self.packs[pack] = (self.path / "templates/a.c").read_text()
        return True

    def passes(self, test, seconds, patience=20):
        return self.packs.get(test["depends"][0]) == FILES["templates/a.c"]

    def lines_run(self, test, places, most):
        """A test runs every line, unless it is one of the idle tests, which run none."""
        self.tracing_left -= self.tracing_cost
        return self.passes(test, most), [test["name"] not in self.idle] * len(places)


class Mutations(unittest.TestCase):
    def tree(self, *packs):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return Tree(pathlib.Path(folder.name), packs)

    def killer(self, tree, room, path, limit=150):
        """Returns the name of the test that notices the mutation of a file; None: no test."""
        return mutate.killer(tree, mutate.Mutation(room, path, 1, FILES[path], "wrong\n"), limit)

    def test_packs_of_another_mutation_are_made_again(self):
        tree = self.tree("pack")
        self.assertIsNone(self.killer(tree, "runtime", "runtime/b.c"))
        self.assertEqual(self.killer(tree, "templates", "templates/a.c"), "of_pack")
        self.assertIsNone(self.killer(tree, "runtime", "runtime/b.c"))

    def test_no_test_runs_without_its_packs(self):
        tree = self.tree("pack", "other")
        # As an earlier run measured them: one test fits into the limit of seconds, two exceed it.
        for test in tree.tests:
            tree.history.measured(test, 100)
        self.assertIsNone(self.killer(tree, "runtime", "runtime/b.c"))

    def test_no_test_is_measured_before_its_first_use(self):
        tree = self.tree("pack", "other")
        caught_by = self.killer(tree, "templates", "templates/a.c")
        self.assertEqual([caught_by], [t["name"] for t in tree.tests if tree.history.is_measured(t)])

    def test_no_test_is_run_that_does_not_come_to_the_line(self):
        tree = self.tree("pack")
        tree.idle = ["of_pack"]
        self.assertIsNone(self.killer(tree, "templates", "templates/a.c"))

    def test_tracing_ends_with_its_time(self):
        tree = self.tree(*["pack%d" % n for n in range(4)])
        tree.idle = [test["name"] for test in tree.tests]
        tree.tracing_cost = 0.4 * mutate.TRACING * 150
        self.assertIsNone(self.killer(tree, "runtime", "runtime/b.c"))
        self.assertEqual(sum(tree.history.is_measured(test) for test in tree.tests), 3)
        self.assertIsNone(self.killer(tree, "runtime", "runtime/b.c"))  # the next mutation traces the rest
        self.assertEqual(sum(tree.history.is_measured(test) for test in tree.tests), 4)

    def test_a_mutation_ends_with_its_test(self):
        tree = self.tree("pack")
        self.killer(tree, "templates", "templates/a.c")
        self.assertEqual((tree.path / "templates/a.c").read_text(), FILES["templates/a.c"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
