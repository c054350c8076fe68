import subprocess
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from spjax.runs import provenance


def git(folder: Path, *arguments: str) -> str:
    identity = (
        "-c",
        "user.name=A",
        "-c",
        "user.email=a@example.org",
        "-c",
        "commit.gpgsign=false",
    )
    command = ["git", *identity, "-C", str(folder), *arguments]
    return subprocess.run(
        command, check=True, capture_output=True, text=True
    ).stdout.strip()


def test_versions_name_what_the_numbers_depend_on() -> None:
    versions = provenance.versions()
    assert set(versions) == {
        "jax",
        "jaxlib",
        "flax",
        "optax",
        "numpy",
        "scipy",
        "mujoco",
        "python",
        "spjax",
    }
    assert (versions["jax"], versions["numpy"]) == (jax.__version__, np.__version__)


def test_a_package_that_is_not_installed_has_no_version() -> None:
    assert (
        provenance.versions(["no-such-package-anywhere"])["no-such-package-anywhere"]
        is None
    )


def test_the_commit_is_that_of_the_source_and_marked_if_it_was_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source.py"
    source.write_text("first")
    monkeypatch.setattr(provenance, "__file__", str(source))
    assert provenance.commit() is None  # outside git
    git(tmp_path, "init", "-q")
    assert provenance.commit() is None  # in somebody else's checkout
    git(tmp_path, "add", "source.py")
    git(tmp_path, "commit", "-q", "-m", "first")
    clean = git(tmp_path, "rev-parse", "--short", "HEAD")
    (tmp_path / "a-run-folder").write_text(
        "an untracked file is no change of the source"
    )
    assert provenance.commit() == clean
    source.write_text("second")
    assert provenance.commit() == f"{clean}-dirty"


@pytest.mark.parametrize(
    ("platform", "count", "expected"),
    [
        ("cpu", 2, "3 CPU cores (Fast Chip)"),
        ("gpu", 1, "NVIDIA H100 80GB HBM3"),
        ("gpu", 4, "4 x NVIDIA H100 80GB HBM3"),
    ],
)
def test_the_device_is_said_in_words(
    monkeypatch: pytest.MonkeyPatch, platform: str, count: int, expected: str
) -> None:
    device = SimpleNamespace(platform=platform, device_kind="NVIDIA H100 80GB HBM3")
    monkeypatch.setattr(jax, "local_devices", lambda: [device] * count)
    monkeypatch.setattr(provenance, "num_cores", lambda: 3)
    monkeypatch.setattr(provenance, "cpu_model", lambda: "Fast Chip")
    assert provenance.device() == expected


def test_this_machine_has_a_name() -> None:
    assert provenance.device().strip("()0123456789 ")
