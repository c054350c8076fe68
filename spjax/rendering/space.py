"""Films of MuJoCo scenes: where every geom is at every moment, from where to look, and what stands around.

Poses come from MuJoCo's own kinematics of the recorded positions; videos and web pages are drawn from the same numbers.
"""

import dataclasses
from collections.abc import Iterator

import mujoco
import numpy as np
from jaxtyping import Float

from spjax.envs.physics import PhysicsState
from spjax.envs.physics.scene import CompiledScene, compile_scene
from spjax.rendering.film import Film
from spjax.rendering.record import Episode
from spjax.rendering.strings import String, add_strings, hang, strings

MARK = "spjax mark"  # the geom that shows the env's `mark`
MARK_SIZE = 0.035  # m
MARK_COLOR = (0.90, 0.62, 0.0, 0.45)
VIEW = (125.0, -20.0)  # azimuth and elevation where the scene has no camera, degrees
SUN = np.array(
    [0.3, -0.4, 1.2]
)  # where the light is, from the middle of the picture, in distances of the camera
ENDLESS = 20.0  # m, half of a side that no picture can show
CLOSENESS = 1.08  # of the camera: how much larger than the motion the picture is
_DRAWN = {  # kinds of geoms that films show, and how many numbers their size has
    "plane": 2,
    "sphere": 1,
    "capsule": 2,
    "ellipsoid": 3,
    "cylinder": 2,
    "box": 3,
}


@dataclasses.dataclass(frozen=True)
class Motion:
    """All geoms of a scene at a number of moments."""

    positions: Float[np.ndarray, "frame geom 3"]  # m
    quaternions: Float[np.ndarray, "frame geom 4"]  # w, x, y, z
    sizes: Float[np.ndarray, "geom 3"]  # m, as MuJoCo has them

    def at(self, moments: Float[np.ndarray, " moment"]) -> "Motion":
        """Returns the motion at (fractional) frame numbers; between frames it is straight."""
        before = moments.astype(int)
        after = np.minimum(before + 1, len(self.positions) - 1)
        part = (moments - before)[:, None, None]
        first, second = self.quaternions[before], self.quaternions[after]
        turned = first + part * (
            np.where((first * second).sum(-1, keepdims=True) < 0, -second, second)
            - first
        )
        return Motion(
            positions=(1 - part) * self.positions[before]
            + part * self.positions[after],
            quaternions=turned / np.linalg.norm(turned, axis=-1, keepdims=True),
            sizes=self.sizes,
        )


@dataclasses.dataclass(frozen=True)
class Camera:
    """A camera that stands upright, in MuJoCo's terms."""

    lookat: tuple[float, float, float]  # m
    distance: float  # m, from there
    azimuth: float  # degrees; 90 looks along y
    elevation: float  # degrees; negative looks down
    fovy: float  # degrees, vertical

    def axes(self) -> Float[np.ndarray, "3 3"]:
        """Returns the directions right, up and forward as rows."""
        return _axes(self.azimuth, self.elevation)


@dataclasses.dataclass(frozen=True)
class Stage:
    """A film in space, ready to be drawn."""

    model: mujoco.MjModel
    motions: tuple[Motion, ...]  # of each episode, a frame each control step
    camera: Camera
    trail: int | None  # the geom that leaves a trail


def stage(film: Film, size: tuple[int, int], view: tuple[float, ...] = ()) -> Stage:
    """Returns the stage of a film whose env has a scene, seen so that everything that moves is in the picture.

    Args:
        film: what to show.
        size: (width, height) of the picture in pixels.
        view: azimuth and elevation of the camera in degrees, and its distance in metres; what is missing is that of the scene's
            first camera, or of `VIEW`, and the distance that fits.

    Raises:
        ValueError: the scene has a geom that films cannot show.
    """
    scene = film.env.physics_scene()
    assert scene is not None
    compiled = compile_scene(dataclasses.replace(scene, mjcf=decorated(scene.mjcf)))
    motions = tuple(motion(compiled, film, episode) for episode in film.episodes)
    model = compiled.model
    trail = None if film.env.trail is None else model.geom(film.env.trail).id
    camera = _camera(model, motions, size[0] / size[1], view)
    model.light_dir[0] = -SUN / np.linalg.norm(SUN)
    model.light_pos[0] = camera.lookat + camera.distance * SUN
    return Stage(model, motions, camera, trail)


def decorated(mjcf: str) -> str:
    """Returns the scene with a floor pattern, a sky, light without glare, its strings, and a geom for the env's `mark`.

    Raises:
        ValueError: it has a geom that films cannot show.
    """
    spec = mujoco.MjSpec.from_string(mjcf)
    kinds = {geom.name: kind_of(int(geom.type)) for geom in spec.geoms}
    for name, kind in kinds.items():
        if kind not in _DRAWN:
            raise ValueError(
                f"films show {', '.join(_DRAWN)}; the geom {name!r} is a {kind}"
            )
    _furnish(spec)
    add_strings(spec)
    spec.worldbody.add_geom(
        name=MARK,
        type=mujoco.mjtGeom.mjGEOM_SPHERE,
        size=[MARK_SIZE, 0, 0],
        rgba=MARK_COLOR,
        contype=0,
        conaffinity=0,
    )
    return spec.to_xml()


def motion(compiled: CompiledScene, film: Film, episode: Episode) -> Motion:
    """Returns where the geoms are at every control step of an episode."""
    states: PhysicsState = episode.states.physics
    model, data = compiled.model, mujoco.MjData(compiled.model)
    drawn = strings(model)
    poses = [
        _pose(compiled, data, states, time, drawn) for time in range(episode.length + 1)
    ]
    positions, quaternions = (np.array(part) for part in zip(*poses, strict=True))
    sizes, mark = model.geom_size.copy(), film.env.mark(episode.context)
    if mark is None:
        sizes[model.geom(MARK).id] = 0.0
    else:
        positions[:, model.geom(MARK).id] = mark
    return Motion(positions, quaternions, sizes)


def kind_of(kind: int) -> str:
    """Returns the MJCF's word for a type of geom."""
    return mujoco.mjtGeom(kind).name.removeprefix("mjGEOM_").lower()


def size_of(kind: str, size: Float[np.ndarray, "3"]) -> list[float]:
    """Returns the numbers of a geom's size that mean something."""
    return [float(number) for number in size[: _DRAWN[kind]]]


def _furnish(spec: mujoco.MjSpec) -> None:
    textures, builtins = mujoco.mjtTexture, mujoco.mjtBuiltin
    spec.add_texture(
        name="spjax sky",
        type=textures.mjTEXTURE_SKYBOX,
        builtin=builtins.mjBUILTIN_GRADIENT,
        rgb1=[0.98, 0.99, 1.0],
        rgb2=[0.72, 0.80, 0.88],
        width=256,
        height=256,
    )
    spec.add_texture(
        name="spjax floor",
        type=textures.mjTEXTURE_2D,
        builtin=builtins.mjBUILTIN_CHECKER,
        rgb1=[0.94, 0.95, 0.96],
        rgb2=[0.84, 0.86, 0.88],
        width=256,
        height=256,
    )
    floor = spec.add_material(name="spjax floor", texuniform=True, texrepeat=[1, 1])
    floor.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "spjax floor"
    for geom in spec.geoms:
        if geom.type == mujoco.mjtGeom.mjGEOM_PLANE:
            geom.size = [0, 0, 1]  # as endless as it is for contacts
            geom.material, geom.rgba = floor.name, [1, 1, 1, 1]
    for light in list(spec.lights):
        spec.delete(light)
    sun = spec.worldbody.add_light(castshadow=True, cutoff=75, exponent=0)
    sun.ambient, sun.diffuse, sun.specular = [0.0] * 3, [0.5] * 3, [0.15] * 3
    head = spec.visual.headlight
    head.ambient, head.diffuse, head.specular = [0.5] * 3, [0.25] * 3, [0.05] * 3
    spec.visual.rgba.haze = [0.86, 0.89, 0.92, 1]
    spec.visual.quality.shadowsize, spec.visual.quality.offsamples = 4096, 8
    spec.visual.map.znear = 0.01


def _pose(
    compiled: CompiledScene,
    data: mujoco.MjData,
    states: PhysicsState,
    time: int,
    drawn: tuple[String, ...],
) -> tuple[np.ndarray, np.ndarray]:
    """Returns positions [m] and quaternions of all geoms."""
    model = compiled.model
    for name, rows, is_state, value in compiled.split_fields(
        field[time] for field in states.fields
    ):
        getattr(data if is_state else model, name)[rows] = value
    data.qpos[:] = states.qpos[time]
    mujoco.mj_kinematics(model, data)
    quaternions = np.empty((model.ngeom, 4))
    for quaternion, matrix in zip(quaternions, data.geom_xmat, strict=True):
        mujoco.mju_mat2Quat(quaternion, matrix)
    positions = data.geom_xpos.copy()
    for string in drawn:
        hang(string, data, positions, quaternions)
    return positions, quaternions


def _camera(
    model: mujoco.MjModel,
    motions: tuple[Motion, ...],
    aspect: float,
    view: tuple[float, ...],
) -> Camera:
    """Returns the camera that looks in the wanted direction and has all geoms, except planes, in the picture."""
    azimuth, elevation, fovy = _direction(model)
    azimuth, elevation = (*view[:2], *(azimuth, elevation)[len(view) :])
    axes = _axes(azimuth, elevation)
    corners = np.concatenate(list(_extents(model, motions))) @ axes.T
    middle = (corners.min(axis=0) + corners.max(axis=0)) / 2
    slopes = np.tan(np.radians(fovy) / 2) * np.array([aspect, 1.0])
    right_up, depth = np.abs(corners - middle)[:, :2], (corners - middle)[:, 2]
    needed = CLOSENESS * float((right_up / slopes - depth[:, None]).max())
    distance = view[2] if len(view) > 2 else needed
    return Camera(tuple((middle @ axes).tolist()), distance, azimuth, elevation, fovy)


def _direction(model: mujoco.MjModel) -> tuple[float, float, float]:
    """Returns azimuth, elevation and vertical field of view of the scene's first camera, in degrees."""
    if not model.ncam:
        return *VIEW, float(model.vis.global_.fovy)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    forward = -data.cam_xmat[0].reshape(3, 3)[:, 2]
    azimuth = np.degrees(np.arctan2(forward[1], forward[0]))
    return (
        float(azimuth),
        float(np.degrees(np.arcsin(forward[2]))),
        float(model.cam_fovy[0]),
    )


def _axes(azimuth: float, elevation: float) -> Float[np.ndarray, "3 3"]:
    a, e = np.radians([azimuth, elevation])
    forward = np.array([np.cos(e) * np.cos(a), np.cos(e) * np.sin(a), np.sin(e)])
    right = np.array([np.sin(a), -np.cos(a), 0.0])
    return np.array([right, np.cross(right, forward), forward])


def _extents(
    model: mujoco.MjModel, motions: tuple[Motion, ...]
) -> Iterator[Float[np.ndarray, "corner 3"]]:
    """Yields the corners of cubes around every geom at every frame, and of a box as good as endless what is nearest to them."""
    geoms = mujoco.mjtGeom
    endless = (model.geom_type == geoms.mjGEOM_BOX) & (model.geom_size > ENDLESS).any(
        axis=1
    )
    solid = np.flatnonzero((model.geom_type != geoms.mjGEOM_PLANE) & ~endless)
    walls = np.flatnonzero(endless)
    signs = np.array(np.meshgrid(*[(-1, 1)] * 3)).reshape(3, -1).T
    for part in motions:
        shown = solid[part.sizes[solid].any(axis=1)]
        reach = (
            np.linalg.norm(part.sizes[shown], axis=1)[:, None, None]
            * signs
            / np.sqrt(3)
        )
        corners = (part.positions[:, shown, None] + reach).reshape(-1, 3)
        yield corners
        middle = (corners.min(axis=0) + corners.max(axis=0)) / 2
        half = part.sizes[walls]  # as if it were not turned
        places = part.positions[:, walls]
        yield np.clip(middle, places - half, places + half).reshape(-1, 3)
