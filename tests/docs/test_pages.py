"""The pages of the documentation: they build without a warning, their code runs, and what they name exists."""

import dataclasses
import importlib
import importlib.util
import re
import shlex
import subprocess
import sys

import numpy as np
import pytest

import spjax
from spjax import catalogue, settings
from spjax.cli import main
from spjax.self_paced.schedules import Bound
from spjax.teachers import CURROT, DORAEMON, SelfPaced, SelfPacedParticles
from spjax.training import halving
from spjax.training import train as training
from spjax.training.halving import Halving
from tests.docs.running import ROOT, commands, python_blocks
from tests.training.conftest import TINY

DOCS = ROOT / "docs"
PAGES = [
    path
    for path in [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
    if "tutorials" not in path.parts and "_build" not in path.parts
]
NAMES = [str(path.relative_to(ROOT)) for path in PAGES]
TEXTS = dict(zip(NAMES, (path.read_text() for path in PAGES), strict=True))
SHOWN = [(name, command) for name, text in TEXTS.items() for command in commands(text)]
RUN_ELSEWHERE = {"docs/brax.md", "docs/policies.md"}  # by test_brax, test_using_runs
TRAINED = [
    (name, command)
    for name, command in SHOWN
    if command.startswith(("spjax train", "spjax sweep")) and "--help" not in command
]


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_bytes()) <= 9_000


@pytest.mark.slow
def test_the_documentation_builds_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    done = subprocess.run(
        [*command, "-d", tmp_path / "trees", DOCS, tmp_path / "html"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "html" / "api" / "self_paced.html").read_text()
    assert "epsilon, nats; 0 keeps the distribution" in page


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        name
        for name in NAMES
        if python_blocks(TEXTS[name]) and name not in RUN_ELSEWHERE
    ],
)
def test_the_python_of_a_page_runs_from_top_to_bottom(name, monkeypatch, tmp_path):
    published = spjax.preset

    def smaller(*names, **choices):
        config = published(*names, **choices)
        return dataclasses.replace(
            config,
            agent=TINY,
            num_iterations=2,
            evaluate_every=1,
            evaluation_episodes=4,
        )

    def sooner(share, every):
        return Halving(share=share, every=1)

    monkeypatch.setattr(spjax, "preset", smaller, raising=False)
    monkeypatch.setattr(halving, "Halving", sooner)
    monkeypatch.chdir(tmp_path)
    scope = {"__name__": "__main__"}
    for block in python_blocks(TEXTS[name]):
        exec(block, scope)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "command"), TRAINED)
def test_a_training_command_starts_what_it_says(name, command, monkeypatch, tmp_path):
    started = []
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").symlink_to(DOCS)
    monkeypatch.setattr(
        training,
        "train",
        lambda config, folder, **how: started.append(config) or folder,
    )
    monkeypatch.setattr("spjax.cli.training.report", lambda folder, plots: None)
    words = shlex.split(command)
    assert main(words[1:]) == 0
    (config,) = started
    assert config.task.name in (words[2], "policy-search")


def test_other_commands_are_known():
    for name, command in SHOWN:
        words = shlex.split(command)
        if words[0] == "spjax":
            assert words[1] in (
                "train",
                "sweep",
                "resume",
                "evaluate",
                "plot",
                "render",
                "report",
                "list",
            ), (name, command)
        if "-m" in words and words[words.index("-m") - 1] == "python":
            module = words[words.index("-m") + 1]
            assert importlib.util.find_spec(module), (name, command)


def test_every_module_that_is_run_by_the_text_exists():
    for name, text in TEXTS.items():
        for module in re.findall(r"`python -m ([\w.]+)", text):
            assert importlib.util.find_spec(module), (name, module)


def resolve(path):
    """Returns what a dotted name means."""
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError as missing:
            if not str(missing.name).startswith("spjax"):
                return missing  # it is there, but not an optional package that it needs
            continue
        for part in parts[end:]:
            found = getattr(found, part)
        return found
    raise AttributeError(path)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_of_the_package_that_a_page_has_exists(name):
    for row in TEXTS[name].splitlines():
        before = ""
        for quoted in re.findall(r"`([^`]+)`", row):
            if match := re.match(r"spjax\.[\w.]+", quoted):
                before = match[0].rstrip(".")
                resolve(before)
            elif re.fullmatch(r"\.\w+", quoted) and before:
                resolve(before.rpartition(".")[0] + quoted)


@pytest.mark.slow
def test_the_gradients_of_the_page_are_those_of_differences():
    scope = {}
    *before, _ = python_blocks(TEXTS["docs/differentiating.md"])  # the last one learns
    for block in before:
        exec(block, scope)
    assert float(scope["gradient"]) == pytest.approx(
        float(scope["difference"]), rel=0.02
    )
    value, gradient = scope["jax"].value_and_grad(scope["target_mass"])(0.01)
    step = 3e-4
    difference = (
        scope["target_mass"](0.01 + step) - scope["target_mass"](0.01 - step)
    ) / (2 * step)
    assert np.isfinite(value)
    assert float(gradient) == pytest.approx(float(difference), rel=0.02)
    assert gradient > 0  # the more the target counts, the more likely its mean becomes


def test_every_setting_that_a_page_names_is_a_flag():
    named = {
        flag
        for text in TEXTS.values()
        for flag in re.findall(r"--((?:task|agent|teacher)\.[a-z.-]+)", text)
    }
    assert len(named) > 10
    parts = [
        catalogue.make(kind, name)
        for kind, name in (
            ("task", "point-mass-3d"),
            ("task", "ball-catching"),
            ("task", "ball-in-a-cup"),
            ("task", "ant"),
            ("task", "reacher-step"),
            ("agent", "ppo"),
        )
    ]
    parts += [SelfPaced().bound_to(parts[0]), SelfPaced(schedule=Bound())]
    parts += [CURROT(), DORAEMON(), SelfPacedParticles()]
    known = {
        f"{part.kind}.{name}".replace("_", "-")
        for part in parts
        for name in settings.every(part)
    }
    known |= {"teacher.schedule", "teacher.initial", "teacher.target"}
    for kind, setting in (
        ("schedule", "teacher.schedule"),
        ("distribution", "teacher.initial"),
        ("distribution", "teacher.target"),
    ):
        known |= {
            f"{setting}.{name}".replace("_", "-")
            for one in catalogue.names(kind)
            for name in catalogue.find(kind, one).cls.declared()
        }
    assert named <= known


def test_every_picture_that_the_readme_shows_is_committed():
    shown = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", TEXTS["README.md"])
    assert shown
    for path in shown:
        assert (ROOT / path).is_file(), path


def test_every_page_that_the_readme_links_to_exists():
    linked = re.findall(r"\]\(((?!http)[^)#]+)\)", TEXTS["README.md"])
    assert len(linked) > 15
    for path in linked:
        assert (ROOT / path).exists(), path


def test_the_command_with_a_file_of_ones_own_is_that_of_its_tutorial():
    own = [
        command
        for name, command in TRAINED
        if name == "README.md" and "--use" in command
    ]
    tutorial = commands((DOCS / "tutorials" / "own_task.md").read_text())[0]
    assert own == [tutorial.removesuffix(" --out runs/pendulum")]
