"""Where the command line finds no home, no Unicode, no device, and names that look like markup."""

import io
import json
import os
import pwd
import subprocess
import sys

import jax
import pytest

from spjax.cache import keep_compiled_programs
from spjax.cli import main
from spjax.training import train as training
from tests.cli.conftest import P3D


def test_a_terminal_without_unicode_gets_similar_characters(trained, monkeypatch):
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", terminal)
    assert main(["evaluate", str(trained), "--episodes", "2"]) == 0
    terminal.flush()
    assert (
        "discounted return +- one standard error"
        in terminal.buffer.getvalue().decode("ascii")
    )


def test_text_that_cannot_be_written_is_no_mistake_of_the_users(
    trained, monkeypatch, capsys
):
    def fail(*args, **kwargs):
        "\u2013".encode("latin-1")

    monkeypatch.setattr(training, "resume", fail)
    assert main(["resume", str(trained)]) == 1
    assert capsys.readouterr().err.startswith(
        "spjax: text that cannot be read or written: 'latin-1' codec"
    )


def test_a_folder_is_listed_by_its_name_whatever_it_holds(
    tmp_path, monkeypatch, capsys
):
    names = ["a[b]", "x[/b]", "d:fire:e"]
    for name in names:
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(
            json.dumps({"format_version": 1, "lanes": [{}], "num_iterations": 3})
        )
    monkeypatch.chdir(tmp_path)
    assert main(["list"]) == 0
    listed = [
        line.split()[0]
        for line in capsys.readouterr().out.splitlines()
        if line.startswith("runs/")
    ]
    assert listed == sorted(f"runs/{name}" for name in names)


@pytest.fixture
def homeless(monkeypatch):
    """A user of a number without a name, as a container may have; the compilation cache is put back afterwards."""

    def unknown(number):
        raise KeyError(number)

    before = jax.config.jax_compilation_cache_dir
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    yield
    jax.config.update("jax_compilation_cache_dir", before)


def test_without_a_home_nothing_is_kept_and_one_line_says_so(homeless, capsys):
    jax.config.update("jax_compilation_cache_dir", None)
    keep_compiled_programs()
    assert jax.config.jax_compilation_cache_dir is None
    said = "compiled programs are not kept for the next time: Could not determine home directory.\n"
    assert capsys.readouterr() == ("", said)


def test_without_a_home_a_chosen_cache_folder_serves(homeless, tmp_path, capsys):
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "mine"))
    keep_compiled_programs()
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "mine")
    assert capsys.readouterr() == ("", "")


@pytest.mark.slow
def test_a_platform_that_the_machine_lacks_is_one_sentence(tmp_path):
    command = [
        sys.executable,
        "-m",
        "spjax.cli",
        "train",
        P3D,
        "--out",
        str(tmp_path / "run"),
    ]
    done = subprocess.run(
        command,
        env={**os.environ, "JAX_PLATFORMS": "abacus"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "spjax: JAX finds no device for JAX_PLATFORMS=abacus on this machine; unset it to compute on what there is\n"
    )
    assert not any(tmp_path.iterdir())


def test_an_assertion_that_fails_where_there_are_devices_is_not_hidden(
    trained, monkeypatch
):
    def fail(*args, **kwargs):
        raise AssertionError("a fault of ours")

    monkeypatch.setattr(training, "resume", fail)
    with pytest.raises(AssertionError, match="a fault of ours"):
        main(["resume", str(trained)])


def test_an_empty_folder_of_the_users_stays_where_the_start_fails_and_ours_goes(
    tmp_path, monkeypatch
):
    def fail(*args, **kwargs):
        raise ValueError("no")

    monkeypatch.setattr(training, "train", fail)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    assert main(["train", P3D, "--out", "mine"]) == 2
    assert main(["train", P3D]) == 2
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["mine", "runs"]
