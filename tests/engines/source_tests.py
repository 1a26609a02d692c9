# SPDX-License-Identifier: Apache-2.0
"""source_tests.py PACKAGE VERSION FOLDER: unpacks the folder `tests` of a package's source archive of PyPI into FOLDER/tests. Wheels
have no tests, and pip builds a source archive's metadata before it keeps the archive."""
import pathlib
import shutil
import sys
import tarfile
import tempfile

import pypi_simple


def main(package, version, folder):
    """Unpacks the tests. FOLDER/tests appears only when all files are unpacked."""
    with pypi_simple.PyPISimple() as client, tempfile.TemporaryDirectory(dir=pathlib.Path(folder).parent) as work:
        page = client.get_project_page(package)
        found = next(one for one in page.packages if one.package_type == "sdist" and one.version == version)
        archive = pathlib.Path(work) / found.filename
        client.download_package(found, path=archive)
        with tarfile.open(archive) as tar:
            root = f"{package}-{version}/tests/"
            tar.extractall(work, members=[one for one in tar.getmembers() if one.name.startswith(root)], filter="data")
        shutil.rmtree(folder, ignore_errors=True)
        pathlib.Path(folder).mkdir(parents=True)
        (pathlib.Path(work) / root).rename(pathlib.Path(folder) / "tests")


if __name__ == "__main__":
    main(*sys.argv[1:])
