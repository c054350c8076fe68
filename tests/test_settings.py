"""One declaration of a setting gives the check, the help, the sweep and the JSON."""

import math
from typing import ClassVar, Literal

import numpy as np
import pytest
from flax import struct

from spjax import settings
from spjax.settings import Part, setting


@struct.dataclass
class Spring(Part):
    """A part inside a part."""

    kind: ClassVar[str] = "schedule"

    stiffness: float = setting(2.0, above=0, unit="N/m", help="of the spring")


@struct.dataclass
class Machine(Part):
    """Every kind of setting."""

    kind: ClassVar[str] = "teacher"

    rate: float = setting(0.5, least=0, most=1, help="of whatever")
    limit: float = setting(
        math.inf, least=0, infinite=True, help="switches something off"
    )
    size: int = setting(3, static=True, least=1, unit="rows", help="of the buffer")
    mode: Literal["fast", "exact"] = setting("fast", static=True, help="of the machine")
    floor: float | tuple[float, ...] | None = setting(
        None, least=0, help="none, one for all, or one each"
    )
    loud: bool = setting(False, static=True, help="or not")
    spring: Spring = setting(Spring(), help="inside")
    notes: int = struct.field(pytree_node=False, default=0)  # no setting


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"rate": 1.5}, "teacher.rate must lie in [0, 1], got 1.5"),
        ({"rate": "much"}, "teacher.rate needs a number, got 'much'"),
        ({"rate": True}, "teacher.rate needs a number, got True"),
        ({"rate": math.nan}, "teacher.rate must not be NaN"),
        ({"rate": None}, "teacher.rate needs a number, got None"),
        ({"rate": (0.1, 0.2)}, "teacher.rate needs a number, got (0.1, 0.2)"),
        ({"limit": -math.inf}, "teacher.limit must be at least 0, got -inf"),
        ({"size": 0}, "teacher.size must be at least 1, got 0"),
        ({"size": 3.0}, "teacher.size must be a whole number, got 3.0"),
        (
            {"size": 2**31},
            "teacher.size must be less than 2^31 if it is a whole number, got 2147483648",
        ),
        ({"mode": "slow"}, "teacher.mode must be fast or exact, got 'slow'"),
        ({"floor": (0.1, -1.0)}, "teacher.floor must be at least 0, got -1.0"),
        ({"floor": (0.1, "b")}, "teacher.floor needs a number, got 'b'"),
        ({"loud": 1}, "teacher.loud must be True or False, got 1"),
        ({"spring": 2.0}, "teacher.spring must be a schedule, got 2.0"),
        (
            {"spring": Spring(stiffness=0.0)},
            "teacher.spring.stiffness must be positive and finite, got 0.0",
        ),
    ],
)
def test_a_value_out_of_its_range_is_one_sentence_with_the_name_and_what_is_right(
    changes, sentence
):
    with pytest.raises(ValueError) as error:  # noqa: PT011
        settings.check("teacher", Machine(**changes))
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"floor": 0.1},
        {"floor": (0.1, 0.2)},
        {"limit": 3},
        {"rate": np.float32(1.0)},
        {"size": np.int64(4)},
    ],
)
def test_a_value_in_its_range_is_accepted(changes):
    settings.check("teacher", Machine(**changes))


def test_a_sweep_may_vary_traced_numbers_those_of_parts_inside_too():
    assert list(settings.traced(Machine())) == [
        "rate",
        "limit",
        "floor",
        "spring.stiffness",
    ]
    assert list(settings.every(Machine())) == [
        *(
            "rate",
            "limit",
            "size",
            "mode",
            "floor",
            "loud",
            "spring",
            "spring.stiffness",
        )
    ]


def test_a_setting_is_read_and_replaced_by_its_dotted_name():
    changed = settings.put(Machine(), "spring.stiffness", 7.0)
    assert settings.get(changed, "spring.stiffness") == 7.0
    assert changed == Machine(spring=Spring(7.0))
    assert settings.get(Machine(), "spring.stiffness") == 2.0


def test_numbers_of_numpy_become_those_of_python_in_parts_inside_too():
    made = settings.plain(
        Machine(
            rate=np.float64(0.25),
            size=np.int64(4),
            floor=np.array([1.0, 2.0]),
            spring=Spring(np.float32(0.5)),
        )
    )
    assert made == Machine(rate=0.25, size=4, floor=(1.0, 2.0), spring=Spring(0.5))
    assert [
        type(value)
        for value in (made.rate, made.size, made.floor[0], made.spring.stiffness)
    ] == [
        float,
        int,
        float,
        float,
    ]
    same = Machine()
    assert settings.plain(same) is same


@pytest.mark.parametrize(
    ("name", "known", "near"),
    [
        ("max_lk", ["max_kl", "rate"], "max_kl"),
        ("teacher.max-kl", ["task.max_kl"], "task.max_kl"),
        (
            "teacher.zeta",
            ["teacher.warmup", "teacher.schedule.zeta"],
            "teacher.schedule.zeta",
        ),
        (
            "teacher.schedule.zta",
            ["teacher.warmup", "teacher.schedule.zeta"],
            "teacher.schedule.zeta",
        ),
        ("teacher.K_alpha", ["teacher.schedule.offset"], "teacher.schedule.offset"),
        (
            "teacher.V-LB",
            ["teacher.schedule.performance-bound"],
            "teacher.schedule.performance-bound",
        ),
        ("teacher.V_LB", ["teacher.max_kl", "teacher.max_alpha"], None),
        ("teacher.frobnicate", ["teacher.initial.mean", "teacher.fraction"], None),
        ("teacher.zeta", ["teacher.num_rollouts", "teacher.noise"], None),
    ],
)
def test_a_name_leads_to_the_nearest_or_to_none(name, known, near):
    assert settings.near_name(name, known) == near


def test_help_says_unit_and_bounds():
    declared = Machine.declared()
    assert declared["rate"].setting.describe() == "of whatever [0 to 1]"
    assert declared["size"].setting.describe() == "of the buffer [rows, at least 1]"
    assert (
        Spring.declared()["stiffness"].setting.describe()
        == "of the spring [N/m, above 0]"
    )
    text = settings.help_text(Machine)
    assert "    size: of the buffer [rows, at least 1] (default 3), static\n" in text
    assert "    spring: inside (default Spring), traced" in text
