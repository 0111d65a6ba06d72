"""What is shipped: it builds, holds everything, and works in an environment where nothing else of ours is."""

import site
import tarfile
import zipfile

import pytest

from packages import ROOT, Installed, build


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return build(tmp_path_factory.mktemp("dist"))


def test_the_wheel_has_every_module_and_nothing_else(built):
    shipped = {name for name in zipfile.ZipFile(built[0]).namelist() if ".dist-info/" not in name}
    source = ROOT / "src"
    files = [f for f in source.rglob("*") if f.is_file() and "__pycache__" not in f.parts]
    assert shipped == {str(f.relative_to(source)) for f in files}
    assert "slipstream/py.typed" in shipped and "slipstream/runs/directory.py" in shipped


def test_the_source_distribution_has_what_builds_tests_and_explains_it(built):
    with tarfile.open(built[1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "Makefile", "mkdocs.yml", "docs/index.md", "tests/test_packaging.py", "LICENSE"} <= names
    assert not [name for name in names if name.startswith((".venv", "runs/", "site/"))]


def test_the_wheel_works_beside_the_packages_it_needs(built, tmp_path):
    installed = Installed.empty(tmp_path)
    installed.install(built[0], "--no-deps", "--no-index")
    (packages,) = (tmp_path / "env" / "lib").glob("python*/site-packages")
    # Our own dependencies as they are installed here; what an editable install adds is not looked at.
    (packages / "shared.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    installed.check()
