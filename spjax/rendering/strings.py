"""Strings in films: a tendon between two sites is drawn as a row of short capsules that hang as a string of its length would.

MuJoCo's tendon is a limit on the distance of its ends and has no shape of its own where it is slack. At rest a string
hangs in a catenary; films show that, whatever accelerations the ends have.
"""

import dataclasses

import mujoco
import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq

PIECES = 16
STRAIGHT = 1e-4  # of the length: with less slack, and with ends above each other by less, no curve is drawn


@dataclasses.dataclass(frozen=True)
class String:
    """A tendon and the capsules that show it."""

    ends: tuple[int, int]  # sites
    pieces: tuple[int, ...]  # geoms
    length: float  # m, of the string when it is taut


def add_strings(spec: mujoco.MjSpec) -> None:
    """Adds the capsules of every tendon that has a largest length and runs straight between two sites."""
    model = spec.compile()
    for index in _hanging_tendons(model):
        for part in range(PIECES):
            spec.worldbody.add_geom(
                name=_name(index, part),
                type=mujoco.mjtGeom.mjGEOM_CAPSULE,
                size=[
                    model.tendon_width[index],
                    model.tendon_range[index, 1] / (2 * PIECES),
                    0,
                ],
                rgba=model.tendon_rgba[index],
                contype=0,
                conaffinity=0,
            )


def strings(model: mujoco.MjModel) -> tuple[String, ...]:
    """Returns the strings of a model whose specification `add_strings` has seen."""
    found = []
    for index in _hanging_tendons(model):
        start = int(model.tendon_adr[index])
        ends = (int(model.wrap_objid[start]), int(model.wrap_objid[start + 1]))
        pieces = tuple(model.geom(_name(index, part)).id for part in range(PIECES))
        found.append(String(ends, pieces, float(model.tendon_range[index, 1])))
    return tuple(found)


def hang(
    string: String,
    data: mujoco.MjData,
    positions: Float[np.ndarray, "geom 3"],
    quaternions: Float[np.ndarray, "geom 4"],
) -> None:
    """Puts the pieces of a string between its ends."""
    one, two = data.site_xpos[list(string.ends)]
    joints = hanging(one, two, string.length, PIECES + 1)
    positions[list(string.pieces)] = (joints[1:] + joints[:-1]) / 2
    for piece, along in zip(string.pieces, np.diff(joints, axis=0), strict=True):
        mujoco.mju_quatZ2Vec(quaternions[piece], along)


def hanging(
    one: Float[np.ndarray, "3"], two: Float[np.ndarray, "3"], length: float, count: int
) -> Float[np.ndarray, "count 3"]:
    """Returns equally distant points along a string of this length at rest, z up; a straight line where it is taut."""
    shares = np.linspace(0.0, 1.0, count)
    across, rise = two[:2] - one[:2], float(two[2] - one[2])
    width = float(np.linalg.norm(across))
    slack = length - np.hypot(width, rise)
    if slack <= STRAIGHT * length:
        return one + shares[:, None] * (two - one)
    if width <= STRAIGHT * length:
        return _folded(one, rise, length, shares)
    # y = a cosh(x / a) between u0 = x0 / a and u1: rise = a (cosh u1 - cosh u0), length = a (sinh u1 - sinh u0)
    ratio = np.sqrt(length**2 - rise**2) / width
    half = brentq(lambda w: np.sinh(w) - ratio * w, 1e-6, 3 * np.log(2 + 2 * ratio))
    scale = width / (2 * half)
    start = np.arctanh(rise / length) - half
    u = np.arcsinh(np.sinh(start) + shares * length / scale)
    away = scale * (u - start) / width
    up = scale * (np.cosh(u) - np.cosh(start))
    return one + np.column_stack([away[:, None] * across, up])


def _folded(
    one: np.ndarray, rise: float, length: float, shares: np.ndarray
) -> np.ndarray:
    """Returns the points of a string that hangs straight down and up again."""
    lowest = (length - rise) / 2  # below the first end
    down = np.minimum(shares * length, 2 * lowest - shares * length)
    return one - down[:, None] * np.array([0.0, 0.0, 1.0])


def _hanging_tendons(model: mujoco.MjModel) -> list[int]:
    """Returns the tendons that have a largest length and run straight between two sites."""
    site = mujoco.mjtWrap.mjWRAP_SITE
    return [
        index
        for index in range(model.ntendon)
        if model.tendon_limited[index]
        and model.tendon_num[index] == 2
        and (model.wrap_type[model.tendon_adr[index] :][:2] == site).all()
    ]


def _name(tendon: int, part: int) -> str:
    return f"spjax string {tendon} {part}"
