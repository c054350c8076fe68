"""The wheel and the source distribution: all of the package is in them, and a wheel trains where no source is."""

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from tests.cli.conftest import P3D, TINY
from tests.docs.running import ROOT

BESIDE = ("pyproject.toml", "README.md", "LICENSE")
OLDEST = 77  # setuptools, as pyproject.toml has it
BUILDS = (
    importlib.util.find_spec("build") is not None
    and int(metadata.version("setuptools").split(".")[0]) >= OLDEST
)
WHERE = """
import spjax, spjax.envs, spjax.rendering
print(spjax.__file__, spjax.envs.__file__, spjax.rendering.__file__, sep="\\n")
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not BUILDS, reason=f"needs build, and setuptools from {OLDEST} on: make install"
    ),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Returns wheel and source distribution, the wheel made of what the latter holds."""
    folder = tmp_path_factory.mktemp("packaging")
    source = folder / "source"
    source.mkdir()
    for name in BESIDE:
        shutil.copy(ROOT / name, source)
    for name in ("spjax", "envs"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=ignored)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder]
    done = subprocess.run([*command, source], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,), (archive,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, archive


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """Returns a folder with the wheel in it; what it requires is where the tests have it."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install"]
    alone = ["--quiet", "--no-index", "--no-deps", "--no-compile", "--target", folder]
    subprocess.run([*pip, *alone, built[0]], check=True)
    return folder


def package():
    """Returns every file of the package in the repository, by its path inside of an installation."""
    files = {
        path.relative_to(ROOT)
        for path in (ROOT / "spjax").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    files |= {
        "spjax" / path.relative_to(ROOT)
        for path in (ROOT / "envs").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    return {path.as_posix() for path in files}


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(built):
    with zipfile.ZipFile(built[0]) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert names == package()
    for name in ("envs/wam.py", "rendering/page.html", "py.typed", "presets/ant.py"):
        assert f"spjax/{name}" in names


def test_the_source_distribution_holds_all_that_a_wheel_is_made_of(built):
    with tarfile.open(built[1]) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers()}
    assert package() | {*BESIDE} <= names


def test_the_wheel_says_what_it_requires_and_what_only_extras_do(built):
    with zipfile.ZipFile(built[0]) as wheel:
        (name,) = (n for n in wheel.namelist() if n.endswith("/METADATA"))
        text = wheel.read(name).decode()
    required = [line for line in text.splitlines() if line.startswith("Requires-Dist")]
    always = {line for line in required if "extra ==" not in line}
    assert "Requires-Dist: mujoco<4,>=3.17" in always
    assert "Requires-Dist: mujoco-mjx<4,>=3.17" in always
    for optional in ("brax", "evosax", "gymnasium", "imageio-ffmpeg"):
        assert any(f" {optional}>" in line for line in required)
        assert not any(f" {optional}>" in line for line in always)


def test_an_installed_wheel_helps_lists_and_trains_where_no_source_is(
    installed, tmp_path
):
    environment = {**os.environ, "PYTHONPATH": str(installed)}

    def run(*command):
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    for file in run(sys.executable, "-c", WHERE).splitlines():
        assert Path(file).is_relative_to(installed)
    spjax = [sys.executable, str(installed / "bin" / "spjax")]
    assert "spjax train" in run(*spjax, "--help")
    listed = run(*spjax, "list")
    assert P3D in listed
    assert "self-paced" in listed
    run(*spjax, "train", P3D, "--teacher", "default", *TINY, "--out", "run")
    assert (tmp_path / "run" / "config.json").is_file()
