"""Parts by kind and name: spelled and built again, registered once, never swapped for another."""

import json
import sys

import numpy as np
import pytest
from flax import struct

from spjax import catalogue
from spjax.agents.step_based import PPO
from spjax.catalogue import Use, part
from spjax.contexts import Gaussian
from spjax.envs import PointMass
from spjax.self_paced.schedules import Bound, Proportion, Schedule
from spjax.settings import Part, setting

MINE = """
from flax import struct
from spjax.catalogue import part
from spjax.self_paced.schedules import Aim, Schedule
from spjax.settings import setting

@part("schedule", "{name}")
@struct.dataclass
class Mine(Schedule):
    '''Mine.'''
    slope: float = setting({slope}, least=0, help="of alpha")

    def aim(self, evidence):
        return Aim(alpha=self.slope * evidence.update)
"""


@pytest.fixture
def catalogue_as_before(monkeypatch):
    """Forgets what a test registers and imports."""
    monkeypatch.setattr(catalogue, "_FOUND", dict(catalogue._FOUND))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def forget(name):
    """Forgets a user's schedule and its module, as a fresh process knows nothing of them."""
    del sys.modules[catalogue._FOUND.pop(("schedule", name)).cls.__module__]


ALL = [
    (kind, name)
    for kind in ("task", "agent", "teacher", "schedule")
    for name in catalogue.names(kind)
]


@pytest.mark.parametrize(
    ("kind", "name"), [one for one in ALL if one[1] != "policy-search"]
)
def test_every_built_in_part_is_spelled_as_json_and_built_again(kind, name):
    made = catalogue.make(kind, name)
    spelled = json.loads(json.dumps(catalogue.spell(made), allow_nan=False))
    assert next(iter(spelled.items())) == (kind, name)
    assert catalogue.build(spelled) == made
    assert catalogue.name_of(made) == name


def test_parts_inside_parts_are_spelled_with_their_own_names_and_only_open_settings():
    spelled = catalogue.spell(
        catalogue.make("task", "policy-search", of=PointMass(dimensions=2))
    )
    assert spelled["of"] == {
        "task": "point-mass-2d",
        "force_gain": 1.5,
        "noise_std": 0.05,
    }
    assert catalogue.build(spelled).of == PointMass(dimensions=2)
    teacher = catalogue.make(
        "teacher", "self-paced", schedule=Bound(performance_bound=2.0)
    )
    assert catalogue.spell(teacher)["schedule"] == {
        "schedule": "bound",
        "performance_bound": 2.0,
    }


def test_infinity_is_a_word_in_json():
    spelled = catalogue.spell(Proportion(offset=float("inf")))
    assert json.loads(json.dumps(spelled, allow_nan=False))["offset"] == "inf"
    assert catalogue.build(spelled) == Proportion(offset=float("inf"))


def test_a_gaussian_keeps_every_bit_and_its_correlations():
    for made in (
        Gaussian.from_std(np.float32([2.4, -1e-3]), np.float32([0.1, 1 / 3])),
        Gaussian.from_covariance(
            np.array([0.0, 1.0]), np.array([[0.25, 0.09], [0.09, 0.25]])
        ),
    ):
        again = catalogue.build(json.loads(json.dumps(catalogue.spell(made))))
        np.testing.assert_array_equal(again.mean, made.mean)
        np.testing.assert_allclose(again.covariance, made.covariance, rtol=2e-7)
    assert float(again.covariance[0, 1]) == pytest.approx(0.09, rel=1e-6)


@pytest.mark.parametrize(
    ("spelled", "sentence"),
    [
        (
            {"schedule": "propotion"},
            "unknown schedule 'propotion'; did you mean 'proportion'?",
        ),
        ({"shedule": "bound"}, "unknown kind 'shedule'; did you mean 'schedule'?"),
        (
            {"schedule": "bound", "zeta": 1.0},
            "the schedule 'bound' has no setting 'zeta'; known: performance_bound",
        ),
        (
            {"schedule": "proportion", "zeta": -1.0},
            "schedule.zeta must be at least 0, got -1.0",
        ),
    ],
)
def test_what_cannot_be_built_is_one_sentence(spelled, sentence):
    with pytest.raises(ValueError) as error:  # noqa: PT011
        catalogue.build(spelled)
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("kind", "name"), [("schedule", "bound"), ("schedule", "proportion")]
)
@pytest.mark.usefixtures("catalogue_as_before")
def test_a_taken_name_is_refused_and_the_first_stays(kind, name):
    @struct.dataclass
    class Other(Schedule):
        def aim(self, evidence):
            return None

    with pytest.raises(
        ValueError,
        match=f"there is a {kind} '{name}' already: spjax.self_paced.schedules",
    ):
        part(kind, name)(Other)
    assert catalogue.find(kind, name).cls in (Bound, Proportion)


def test_a_class_of_another_kind_or_an_unknown_kind_is_refused():
    with pytest.raises(
        ValueError, match=r"^PPO is an agent, it cannot be the teacher 'mine'$"
    ):
        part("teacher", "mine")(PPO)
    with pytest.raises(
        ValueError, match="unknown kind 'taecher'; did you mean 'teacher'"
    ):
        part("taecher", "mine")


def test_a_subclass_is_not_the_part_whose_name_it_inherits():
    @struct.dataclass
    class Mine(Proportion):
        pass

    with pytest.raises(
        ValueError,
        match=r"Mine is not in the catalogue.*@part\(\"schedule\", \"NAME\"\)",
    ):
        catalogue.spell(Mine())


def test_settings_that_no_name_stands_for_are_refused():
    @struct.dataclass
    class Cup(Part):
        kind = "schedule"
        size: int = setting(1, static=True)

    part("schedule", "small-cup", size=1)(Cup)
    try:
        assert catalogue.name_of(Cup(1)) == "small-cup"
        with pytest.raises(
            ValueError,
            match=r"no schedule of the catalogue is Cup with these settings: .*size=2",
        ):
            catalogue.name_of(Cup(2))
    finally:
        del catalogue._FOUND["schedule", "small-cup"]


@pytest.mark.usefixtures("catalogue_as_before")
def test_a_users_file_registers_its_parts_and_is_found_again_by_what_the_run_folder_keeps(
    tmp_path,
):
    file = tmp_path / "mine.py"
    file.write_text(MINE.format(name="mine", slope=0.5))
    catalogue.use(str(file))
    catalogue.use(str(file))  # a second time is nothing new
    made = catalogue.make("schedule", "mine")
    assert made.slope == 0.5
    assert catalogue.names("schedule")[:2] == ("proportion", "bound")
    assert catalogue.names("schedule")[-1] == "mine"
    (use,) = catalogue.uses([catalogue.make("teacher", "self-paced", schedule=made)])
    assert (use.module, use.file) == ("mine", str(file))

    forget("mine")
    with pytest.raises(ValueError, match="unknown schedule 'mine'"):
        catalogue.build({"schedule": "mine", "slope": 0.25})
    catalogue.load([use])
    assert catalogue.build({"schedule": "mine", "slope": 0.25}).slope == 0.25


@pytest.mark.usefixtures("catalogue_as_before")
def test_a_file_that_is_another_one_now_is_refused_unless_that_is_accepted(tmp_path):
    file = tmp_path / "theirs.py"
    file.write_text(MINE.format(name="theirs", slope=0.5))
    catalogue.use(str(file))
    (use,) = catalogue.uses([catalogue.make("schedule", "theirs")])
    forget("theirs")
    file.write_text(MINE.format(name="theirs", slope=0.75))
    with pytest.raises(
        ValueError,
        match=r"theirs.py is not the file that the run was trained with; put that one back",
    ):
        catalogue.load([use])
    catalogue.load([use], accept_changes=True)
    assert catalogue.make("schedule", "theirs").slope == 0.75


@pytest.mark.usefixtures("catalogue_as_before")
def test_a_missing_file_is_refused_unless_its_parts_come_from_a_new_place(tmp_path):
    file, moved = tmp_path / "gone.py", tmp_path / "new.py"
    file.write_text(MINE.format(name="gone", slope=0.5))
    catalogue.use(str(file))
    (use,) = catalogue.uses([catalogue.make("schedule", "gone")])
    forget("gone")
    file.rename(moved)
    with pytest.raises(
        ValueError,
        match=r"the run needs .*gone.py, which is missing; put it back, or name its new place",
    ):
        catalogue.load([use])
    catalogue.use(str(moved))
    catalogue.load([use], accept_changes=True)
    assert catalogue.make("schedule", "gone").slope == 0.5


@pytest.mark.usefixtures("catalogue_as_before")
def test_a_module_of_a_package_is_found_again_with_what_it_imports_beside_it(
    tmp_path, monkeypatch
):
    package = tmp_path / "lab"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "steep.py").write_text("SLOPE = 3.0")
    text = MINE.format(name="lab", slope="SLOPE")
    (package / "schedules.py").write_text("from .steep import SLOPE\n" + text)
    monkeypatch.syspath_prepend(tmp_path)
    catalogue.use("lab.schedules")
    (use,) = catalogue.uses([catalogue.make("schedule", "lab")])
    assert use.module == "lab.schedules"
    for name in ("lab", "lab.steep"):
        del sys.modules[name]
    forget("lab")
    catalogue.load([use])
    assert catalogue.make("schedule", "lab").slope == 3.0
    assert catalogue.find("schedule", "lab").cls.__module__ == "lab.schedules"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "import no_such_module",
            "cannot use .*broken.py: ModuleNotFoundError: No module named 'no_such_module'",
        ),
        (
            MINE.format(name="bound", slope=1.0),
            "cannot use .*broken.py: ValueError: there is a schedule 'bound' already",
        ),
        ("def f(:", "cannot use .*broken.py: SyntaxError"),
    ],
)
@pytest.mark.usefixtures("catalogue_as_before")
def test_a_file_that_does_not_load_is_one_sentence_and_leaves_nothing(
    text, sentence, tmp_path
):
    (tmp_path / "broken.py").write_text(text)
    before = dict(catalogue._FOUND)
    with pytest.raises(ValueError, match=sentence):
        catalogue.use(str(tmp_path / "broken.py"))
    assert "broken" not in sys.modules
    assert before == catalogue._FOUND


def test_built_in_parts_need_no_file():
    assert catalogue.uses([PointMass(2), PPO(), Proportion()]) == []


def test_what_was_typed_in_and_stands_in_no_file_is_refused():
    module = type(sys)("typed_in")
    sys.modules["typed_in"] = module
    try:
        exec(MINE.format(name="typed", slope=1.0), module.__dict__)
        with pytest.raises(
            ValueError,
            match="the schedule 'typed' stands in no file, so a run with it could not be",
        ):
            catalogue.uses([module.Mine()])
    finally:
        del sys.modules["typed_in"]
        del catalogue._FOUND["schedule", "typed"]


def test_a_use_says_module_file_and_digest(tmp_path):
    with pytest.raises(
        ValueError, match=r"the run needs .*nowhere.py, which is missing"
    ):
        catalogue.load([Use("nowhere", str(tmp_path / "nowhere.py"), "0" * 64)])
