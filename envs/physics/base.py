"""The interface of the engines: states in, states out, pure, for one instance; vmap, scan and shard it as you like.

A scene is stepped by C MuJoCo on CPU and by MJX on accelerators; both see the same neutral state. A motion ends at the first
contact that the scene asks for, looked for at every substep, and at the first sign of trouble: the state then stays as it
is, for ever, and says why in `contacts` and `failed`.
"""

import abc
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from spjax.envs.physics import kinematics
from spjax.envs.physics.scene import CompiledScene
from spjax.envs.physics.servo import Feedback, Servo, SetPoints, feedback, torques

Advanced = tuple[Float[Array, " core"], Bool[Array, " contact"], Bool[Array, ""]]


@struct.dataclass
class PhysicsState:
    """One instance between control steps; positions, velocities and activations in the order of the MJCF."""

    qpos: Float[Array, " nq"]  # m, rad, quaternions
    qvel: Float[Array, " nv"]  # m/s, rad/s
    act: Float[Array, " na"]
    warmstart: Float[
        Array, " nv"
    ]  # the last acceleration, where the constraint solver starts
    fields: tuple[
        Float[Array, "_ _"], ...
    ]  # the values of this instance, as the scene lists them
    contacts: Bool[Array, " contact"]  # which of the scene's contacts ended the motion
    failed: Bool[
        Array, ""
    ]  # a non-finite number or a warning of the simulator ended the motion

    @property
    def ended(self) -> Bool[Array, ""]:
        """Whether the motion has ended; the state then stays as it is."""
        return self.failed | self.contacts.any()


@struct.dataclass
class Tracked:
    """A motion that a servo drove."""

    state: PhysicsState  # after the last control step that was taken
    before: PhysicsState  # before the control step that ended the motion; the same as `state` where none did
    num_steps: Int[Array, ""]  # that were taken, with the one that ended the motion
    path: PhysicsState | None  # [step] after each control step, where it was asked for


@dataclasses.dataclass(frozen=True, eq=False)
class Physics(abc.ABC):
    """A scene and the engine that runs it; see `spjax.envs.physics.make`."""

    compiled: CompiledScene

    @property
    def control_period(self) -> float:
        """Seconds of a control step."""
        return self.compiled.scene.substeps * float(self.compiled.model.opt.timestep)

    @property
    def compiler_options(self) -> dict[str, bool]:
        """Options for ``jax.jit`` that programs around this engine need to be fast."""
        return {}

    def reset(
        self,
        qpos: Float[Array, " nq"],
        qvel: Float[Array, " nv"] | None = None,
        act: Float[Array, " na"] | None = None,
        fields: tuple[Float[Array, "_ _"], ...] | None = None,
    ) -> PhysicsState:
        """Returns a state to start from; runs no physics.

        Args:
            qpos: positions; their dtype is that of the state.
            qvel: velocities, or all zero.
            act: activations, or all zero.
            fields: a value for each field of the scene, or those of the MJCF.

        Raises:
            ValueError: a wrong shape.
        """
        model = self.compiled.model
        defaults = self.compiled.field_values()
        state = PhysicsState(
            qpos=jnp.asarray(qpos),
            qvel=jnp.zeros(model.nv, qpos.dtype)
            if qvel is None
            else jnp.asarray(qvel, qpos.dtype),
            act=jnp.zeros(model.na, qpos.dtype)
            if act is None
            else jnp.asarray(act, qpos.dtype),
            warmstart=jnp.zeros(model.nv, qpos.dtype),
            fields=tuple(
                jnp.asarray(value, qpos.dtype)
                for value in (defaults if fields is None else fields)
            ),
            contacts=jnp.zeros(len(self.compiled.scene.contacts), bool),
            failed=jnp.asarray(False),
        )
        _check_shape("qpos", state.qpos, (model.nq,))
        _check_shape("qvel", state.qvel, (model.nv,))
        _check_shape("act", state.act, (model.na,))
        if len(state.fields) != len(defaults):
            raise ValueError(
                f"the scene has {len(defaults)} fields, got values for {len(state.fields)}"
            )
        for field, value, default in zip(
            self.compiled.scene.fields, state.fields, defaults, strict=True
        ):
            _check_shape(field.name, value, default.shape)
        return state

    def step(self, state: PhysicsState, control: Float[Array, " nu"]) -> PhysicsState:
        """Returns the state one control step later.

        Contacts are those of the positions before each substep, as the simulator reports them; the state that they end is
        the one after this substep. A failure keeps the state from before the control step. Ended motions stay as they are.

        Args:
            state: where the step starts.
            control: of all actuators, in the order of the MJCF, held during the step.

        Raises:
            ValueError: a wrong shape.
        """
        _check_shape("control", control, (self.compiled.model.nu,))
        ended = state.ended
        before = self._core(state)
        after, contacts, failed = self._advance(
            before, control.astype(before.dtype), state.fields, ended
        )
        return dataclasses.replace(
            self._with_core(state, jnp.where(ended | failed, before, after)),
            contacts=jnp.where(ended, state.contacts, contacts & ~failed),
            failed=state.failed | (failed & ~ended),
        )

    def track(
        self,
        state: PhysicsState,
        servo: Servo,
        set_points: SetPoints,
        path: bool = False,
    ) -> Tracked:
        """Returns what becomes of a state whose joints follow set-points for some control steps.

        Contacts and failures end the motion as they do in `step`. An engine may keep its own precision inside a motion, so the
        numbers need not be those of single steps.

        Args:
            state: where the motion starts.
            servo: the feedback, one actuator of the scene a joint.
            set_points: [step, joint].
            path: keep the state after each control step.

        Raises:
            ValueError: a wrong shape, no set-point, or a servo that does not fit the scene.
        """
        found = feedback(self.compiled, servo)
        shape = (max(1, set_points.positions.shape[0]), len(servo.joints))
        _check_shape("positions", set_points.positions, shape)
        _check_shape("velocities", set_points.velocities, shape)
        return self._track(state, found, set_points, path)

    def _track(
        self, state: PhysicsState, feedback: Feedback, set_points: SetPoints, path: bool
    ) -> Tracked:
        def control_step(
            carry: tuple[PhysicsState, PhysicsState, Array], set_point: SetPoints
        ) -> tuple[tuple[PhysicsState, PhysicsState, Array], PhysicsState | None]:
            state, before, num_steps = carry
            after = self.step(
                state, torques(feedback, state.qpos, state.qvel, set_point)
            )
            ends = after.ended & ~state.ended
            before = _where(state.ended, before, _where(ends, state, after))
            num_steps = num_steps + (~state.ended).astype(num_steps.dtype)
            return (after, before, num_steps), after if path else None

        start = (state, state, jnp.zeros((), jnp.int32))
        (state, before, num_steps), states = jax.lax.scan(
            control_step, start, set_points
        )
        return Tracked(state, before, num_steps, states)

    def body_pose(
        self, state: PhysicsState, name: str
    ) -> tuple[Float[Array, "3"], Float[Array, "3 3"]]:
        """Returns position [m] and rotation matrix (columns: the body's axes) of a body in this very state.

        Raises:
            ValueError: no such body.
        """
        model = self.compiled.model
        try:
            body = model.body(name).id
        except KeyError as error:
            known = ", ".join(model.body(i).name for i in range(model.nbody))
            raise ValueError(
                f"the MJCF has no body {name!r}; it has {known}"
            ) from error
        dtype = state.qpos.dtype
        mocap_pos, mocap_quat = self.compiled.mocap_poses()
        places = {
            name: jnp.asarray(value, dtype)
            for name, value in (
                ("body_pos", model.body_pos),
                ("mocap_pos", mocap_pos),
                ("mocap_quat", mocap_quat),
            )
        }
        for field, rows, _, value in self.compiled.split_fields(state.fields):
            if field in places:
                places[field] = places[field].at[rows].set(value)
        position, quaternion = kinematics.body_frame(model, body, state.qpos, **places)
        return position, kinematics.rotation_matrix(quaternion)

    @abc.abstractmethod
    def _advance(
        self,
        core: Float[Array, " core"],
        control: Float[Array, " nu"],
        fields: tuple[Float[Array, "_ _"], ...],
        ended: Bool[Array, ""],
    ) -> Advanced:
        """Returns (qpos, qvel, act, warmstart), contacts and failure one control step later; anything where `ended`."""

    def _core(self, state: PhysicsState) -> Float[Array, " core"]:
        return jnp.concatenate([state.qpos, state.qvel, state.act, state.warmstart])

    def _with_core(
        self, state: PhysicsState, core: Float[Array, "*batch core"]
    ) -> PhysicsState:
        """Returns the state with other positions, velocities, activations and warm start."""
        parts = jnp.split(core, np.cumsum(self._sizes())[:-1], axis=-1)
        qpos, qvel, act, warmstart = parts
        return dataclasses.replace(
            state, qpos=qpos, qvel=qvel, act=act, warmstart=warmstart
        )

    def _sizes(self) -> tuple[int, int, int, int]:
        model = self.compiled.model
        return model.nq, model.nv, model.na, model.nv


def _where(
    condition: Bool[Array, ""], one: PhysicsState, other: PhysicsState
) -> PhysicsState:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), one, other)


def _check_shape(what: str, value: Array, shape: tuple[int, ...]) -> None:
    if value.shape != shape:
        raise ValueError(f"{what} must have the shape {shape}, got {value.shape}")
