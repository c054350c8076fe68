"""What a task asks of the simulator: its MJCF, the contacts it looks for, and what differs between instances.

A scene is plain data, checked when it is compiled; every complaint is one sentence that names the culprit.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator

import mujoco
import numpy as np
from jaxtyping import Bool, Float, Int

_GEOM, _BODY = mujoco.mjtObj.mjOBJ_GEOM, mujoco.mjtObj.mjOBJ_BODY
_SITE = mujoco.mjtObj.mjOBJ_SITE
_FIELDS = {  # what may differ between instances: all that needs no derived constants beside bounding volumes
    "mocap_pos": _BODY,
    "mocap_quat": _BODY,
    "body_pos": _BODY,
    "geom_pos": _GEOM,
    "geom_quat": _GEOM,
    "geom_size": _GEOM,
    "site_pos": _SITE,
}
_UNBOUNDED = 1e4  # m, bounding radius of geoms whose extent is not known beforehand


@dataclasses.dataclass(frozen=True)
class Contact:
    """Contacts between two groups of geoms, by name; the first contact that a scene asks for ends the motion."""

    geoms: tuple[str, ...]
    others: tuple[
        str, ...
    ] = ()  # empty: all that can touch `geoms` and that no other contact of the scene asks for


@dataclasses.dataclass(frozen=True)
class Field:
    """A quantity that each instance has its own values of.

    "mocap_pos" [m] and "mocap_quat" of mocap bodies, "geom_pos" [m], "geom_quat" and "geom_size" [m] of geoms, "site_pos" [m] of
    sites, or "body_pos" [m] of bodies without a joint. Masses and inertias stay as compiled.
    """

    name: str
    objects: tuple[str, ...]
    most: tuple[
        tuple[float, float, float], ...
    ] = ()  # of "geom_size", one an object: without it collision detection looks at these geoms in every step


@dataclasses.dataclass(frozen=True)
class Scene:
    """A model and what is wanted from it. Hashable: one engine is built for each scene."""

    mjcf: str
    substeps: int  # of the MJCF's timestep, a control step
    contacts: tuple[Contact, ...] = ()
    fields: tuple[Field, ...] = ()


@dataclasses.dataclass(frozen=True, eq=False)
class CompiledScene:
    """A scene that engines can run."""

    scene: Scene
    model: mujoco.MjModel  # with a contact sensor for each pair of geoms
    columns: Int[np.ndarray, " pair"]  # of the sensor data
    groups: Bool[np.ndarray, "pair contact"]  # which pairs belong to which contact
    # Of each field in the model's array of this name:
    rows: tuple[Int[np.ndarray, " _"], ...]

    def field_values(self) -> tuple[Float[np.ndarray, "_ _"], ...]:
        """Returns the fields' values in the MJCF."""
        data = mujoco.MjData(self.model)
        pairs = zip(self.scene.fields, self.rows, strict=True)
        return tuple(
            getattr(data if _is_state(f.name) else self.model, f.name)[rows]
            for f, rows in pairs
        )

    def mocap_poses(
        self,
    ) -> tuple[Float[np.ndarray, "mocap 3"], Float[np.ndarray, "mocap 4"]]:
        """Returns positions and quaternions of the mocap bodies in the MJCF."""
        data = mujoco.MjData(self.model)
        return data.mocap_pos, data.mocap_quat

    def split_fields(
        self, values: Iterable
    ) -> Iterator[tuple[str, Int[np.ndarray, " _"], bool, object]]:
        """Yields name, rows, whether it is a field of the state (or else of the model), and value of each field."""
        for field, rows, value in zip(
            self.scene.fields, self.rows, values, strict=True
        ):
            yield field.name, rows, _is_state(field.name), value


def compile_scene(scene: Scene) -> CompiledScene:
    """Compiles and checks a scene.

    Raises:
        ValueError: the MJCF does not compile, uses what only one engine can do, or lacks something that is asked for.
    """
    if scene.substeps < 1:
        raise ValueError(
            f"a control step needs at least 1 substep, got {scene.substeps}"
        )
    model = _compiled(scene.mjcf)
    _refuse_what_engines_do_differently(model)
    pairs = _contact_pairs(model, scene.contacts)
    if pairs:
        model = _compiled(scene.mjcf, lambda spec: _add_contact_sensors(spec, pairs))
    columns = [model.sensor(_sensor_name(pair)).adr[0] for pair in pairs]
    groups = np.asarray(
        [
            [index == group for group in range(len(scene.contacts))]
            for index in pairs.values()
        ],
        bool,
    )
    rows = tuple(_field_rows(model, field) for field in scene.fields)
    _loosen_bounds(model, scene.fields, rows)
    return CompiledScene(
        scene,
        model,
        np.asarray(columns, np.int32),
        groups.reshape(len(pairs), len(scene.contacts)),
        rows,
    )


def _compiled(
    mjcf: str, change: Callable[[mujoco.MjSpec], None] | None = None
) -> mujoco.MjModel:
    try:
        spec = mujoco.MjSpec.from_string(mjcf)
        if change:
            change(spec)
        return spec.compile()
    except ValueError as error:
        raise ValueError(
            f"the MJCF does not compile: {' '.join(str(error).split())}"
        ) from error


def _refuse_what_engines_do_differently(model: mujoco.MjModel) -> None:
    if model.actuator_actearly.any():
        name = model.actuator(int(model.actuator_actearly.argmax())).name
        raise ValueError(
            f"actuator {name!r} has actearly, which MJX ignores; add an actuator with the gain times the timestep instead"
        )
    for what in ("plugin", "flex", "history"):
        if getattr(model, f"n{what}"):
            raise ValueError(f"the MJCF uses what not every engine can do: {what}")


Pair = tuple[str, str]


def _contact_pairs(
    model: mujoco.MjModel, contacts: tuple[Contact, ...]
) -> dict[Pair, int]:
    """Returns the contact that each pair of geoms belongs to; explicit ones come before "anything else".

    Raises:
        ValueError: an unknown geom, a pair that cannot touch or belongs to two contacts, or a contact without pairs.
    """
    pairs: dict[Pair, int] = {}
    for index in sorted(
        range(len(contacts)), key=lambda index: not contacts[index].others
    ):
        contact = contacts[index]
        others = contact.others or [model.geom(i).name for i in range(model.ngeom)]
        found = [
            pair
            for pair in _pairs(model, contact.geoms, others)
            if contact.others or _can_be_else(model, pair, pairs)
        ]
        if not found:
            raise ValueError(
                f"nothing can touch the geoms {', '.join(contact.geoms)} of contact {index}"
            )
        for one, two in found:
            if not _can_touch(model, one, two):
                raise ValueError(
                    f"the geoms {one!r} and {two!r} can never touch, yet contact {index} asks for it"
                )
            if (one, two) in pairs or (two, one) in pairs:
                raise ValueError(
                    f"the geoms {one!r} and {two!r} are in more than one contact"
                )
            pairs[one, two] = index
    return pairs


def _pairs(
    model: mujoco.MjModel, geoms: Iterable[str], others: Iterable[str]
) -> list[Pair]:
    for name in (*geoms, *others):
        _identifier(model, _GEOM, name)
    return [(one, two) for one in geoms for two in others]


def _can_be_else(model: mujoco.MjModel, pair: Pair, taken: dict[Pair, int]) -> bool:
    return pair not in taken and pair[::-1] not in taken and _can_touch(model, *pair)


def _can_touch(model: mujoco.MjModel, one: str, two: str) -> bool:
    """Returns whether MuJoCo looks for contacts between these geoms."""
    first, second = model.geom(one), model.geom(two)
    pairs = zip(model.pair_geom1, model.pair_geom2, strict=True)
    if any({first.id, second.id} == {a, b} for a, b in pairs):
        return True
    bodies = first.bodyid[0], second.bodyid[0]
    welds = [model.body_weldid[body] for body in bodies]
    parents = [model.body_weldid[model.body_parentid[weld]] for weld in welds]
    filters = not model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_FILTERPARENT
    related = 0 not in welds and (parents[0] == welds[1] or parents[1] == welds[0])
    excluded = (min(bodies) << 16) + max(bodies) in model.exclude_signature
    excluded |= (max(bodies) << 16) + min(bodies) in model.exclude_signature
    types = (
        first.contype[0] & second.conaffinity[0]
        | second.contype[0] & first.conaffinity[0]
    )
    return bool(
        types and welds[0] != welds[1] and not (filters and related) and not excluded
    )


def _add_contact_sensors(spec: mujoco.MjSpec, pairs: Iterable[Pair]) -> None:
    for one, two in pairs:
        spec.add_sensor(
            name=_sensor_name((one, two)),
            type=mujoco.mjtSensor.mjSENS_CONTACT,
            objtype=_GEOM,
            objname=one,
            reftype=_GEOM,
            refname=two,
            intprm=[1, 0, 1],  # how many were found, no reduction, one slot
        )


def _sensor_name(pair: Pair) -> str:
    return f"contact of {pair[0]} and {pair[1]}"


def _field_rows(model: mujoco.MjModel, field: Field) -> Int[np.ndarray, " _"]:
    if field.name not in _FIELDS:
        raise ValueError(
            f"{field.name!r} cannot differ between instances; {', '.join(_FIELDS)} can"
        )
    if not field.objects:
        raise ValueError(f"the field {field.name!r} names no objects")
    if field.most and field.name != "geom_size":
        raise ValueError(f"the field {field.name!r} has no largest values, got `most`")
    if field.most and len(field.most) != len(field.objects):
        raise ValueError(
            f"the field {field.name!r} needs one largest size for each of its {len(field.objects)} geoms, "
            f"got {len(field.most)}"
        )
    identifiers = [
        _identifier(model, _FIELDS[field.name], name) for name in field.objects
    ]
    for body in identifiers if field.name == "body_pos" else ():
        if model.body_jntnum[body] or model.body_mocapid[body] >= 0:
            raise ValueError(
                f"the body {model.body(body).name!r} moves by itself, so its place cannot be a field"
            )
    if not _is_state(field.name):
        return np.asarray(identifiers)
    rows = model.body_mocapid[identifiers]
    if (rows < 0).any():
        raise ValueError(
            f"the body {field.objects[int((rows < 0).argmax())]!r} is not a mocap body"
        )
    return rows


def _loosen_bounds(
    model: mujoco.MjModel,
    fields: tuple[Field, ...],
    rows: tuple[Int[np.ndarray, " _"], ...],
) -> None:
    """Makes the compiled shortcuts hold for whatever values the fields take.

    Bounding volumes become so large that they exclude no contact, and nothing is taken to share its body's frame.
    """
    radii: dict[int, float] = {}
    for field, identifiers in zip(fields, rows, strict=True):
        if field.name == "site_pos":
            model.site_sameframe[identifiers] = mujoco.mjtSameFrame.mjSAMEFRAME_NONE
        elif field.name.startswith("geom"):
            for index, geom in enumerate(identifiers.tolist()):
                _loosen_geom(model, geom)
                if field.name == "geom_size":
                    radii[geom] = (
                        _bounding_radius(
                            mujoco.mjtGeom(model.geom_type[geom]), field.most[index]
                        )
                        if field.most
                        else _UNBOUNDED
                    )
    for geom, radius in radii.items():
        model.geom_rbound[geom] = max(radius, model.geom_rbound[geom])


def _loosen_geom(model: mujoco.MjModel, geom: int) -> None:
    """Lets a geom be anywhere in its body's frame."""
    if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_PLANE:
        raise ValueError(
            f"the plane {model.geom(geom).name!r} cannot differ between instances"
        )
    body, box = model.geom_bodyid[geom], np.repeat([0.0, _UNBOUNDED], 3)
    first = model.body_bvhadr[body]
    model.bvh_aabb[first : first + model.body_bvhnum[body]] = box
    model.geom_aabb[geom] = box
    model.geom_sameframe[geom] = mujoco.mjtSameFrame.mjSAMEFRAME_NONE


def _bounding_radius(kind: mujoco.mjtGeom, size: tuple[float, float, float]) -> float:
    """Returns the radius of the sphere around a geom of this size [m]."""
    if kind == mujoco.mjtGeom.mjGEOM_SPHERE:
        return size[0]
    if kind == mujoco.mjtGeom.mjGEOM_CAPSULE:
        return size[0] + size[1]
    if kind == mujoco.mjtGeom.mjGEOM_CYLINDER:
        return math.hypot(size[0], size[1])
    if kind == mujoco.mjtGeom.mjGEOM_ELLIPSOID:
        return max(size)
    return math.hypot(*size)


def _is_state(name: str) -> bool:
    return name.startswith("mocap")


def _identifier(model: mujoco.MjModel, kind: mujoco.mjtObj, name: str) -> int:
    identifier = mujoco.mj_name2id(model, kind, name)
    if identifier < 0:
        what = kind.name.removeprefix("mjOBJ_").lower()
        count = {_GEOM: model.ngeom, _BODY: model.nbody, _SITE: model.nsite}[kind]
        known = ", ".join(
            mujoco.mj_id2name(model, kind, i) or "(unnamed)" for i in range(count)
        )
        raise ValueError(f"the MJCF has no {what} {name!r}; it has {known}")
    return identifier
