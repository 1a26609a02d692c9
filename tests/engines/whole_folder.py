# SPDX-License-Identifier: Apache-2.0
"""Writes folders that several processes use, so that no process sees unfinished files. Executed as a program it tests itself."""
import contextlib
import os
import sys
import tempfile


@contextlib.contextmanager
def whole(path, mark):
    """Gives a new folder to write to, and renames it to `path` at the end. If another process has made `path` first, with the file
    `mark` in it, its files stay."""
    parent = os.path.dirname(path)
    os.makedirs(parent, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent, prefix=".unfinished-") as work:
        made = os.path.join(work, "made")
        os.mkdir(made)
        yield made
        try:
            os.rename(made, path)
        except OSError:
            if not os.path.exists(os.path.join(path, mark)):
                raise


def main():
    """Tests whole() with two writers at once: the first one that ends makes the folder, and nothing else is left. A folder without
    the mark is an error."""
    with tempfile.TemporaryDirectory() as work:
        path = os.path.join(work, "models", "tiny")
        with contextlib.ExitStack() as first, contextlib.ExitStack() as second:
            for stack, text in ((first, "first"), (second, "second")):
                with open(os.path.join(stack.enter_context(whole(path, "mark")), "mark"), "w", encoding="ascii") as file:
                    file.write(text)
                assert not os.path.exists(path), "unfinished files are visible"
            second.close()
            first.close()
        with open(os.path.join(path, "mark"), encoding="ascii") as file:
            assert file.read() == "second", "the later writer has replaced files"
        assert os.listdir(os.path.dirname(path)) == ["tiny"], "temporary files are left"
        os.remove(os.path.join(path, "mark"))
        open(os.path.join(path, "other"), "w", encoding="ascii").close()
        try:
            with whole(path, "mark"):
                pass
        except OSError:
            return 0
        return "a folder without the file counts as finished"


if __name__ == "__main__":
    sys.exit(main())
