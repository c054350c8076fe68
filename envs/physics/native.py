"""The engine for CPU: C MuJoCo on all cores, behind one callback for a control step, or for many, of a whole batch.

State rows go in and come out, so it is a pure function like any other. A callback must wait for no thread of XLA's pool, since
callbacks of all lanes may hold every one of them: it touches NumPy and MuJoCo only, and takes its rows in small pieces.
"""

import ctypes
import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import mujoco
import mujoco.batch
import numpy as np
from jaxtyping import Array, Bool, Float

from spjax.envs.physics import kinematics
from spjax.envs.physics.base import Advanced, Physics, PhysicsState, Tracked
from spjax.envs.physics.servo import Feedback, SetPoints
from spjax.envs.physics.simulations import Pool

_SHORT_CHAIN = 9  # bodies, as of an arm of seven joints with a hand
_STEPS = 150  # control steps of a motion in one callback, at most
_PIECE = (
    2**16
)  # bytes; from 100 KiB on, JAX has the pool copy an argument and the callback waits for that


@dataclasses.dataclass(frozen=True, eq=False)
class Native(Physics):
    """A scene that C MuJoCo runs."""

    pool: Pool = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        _silence_warnings()
        object.__setattr__(self, "pool", Pool(self.compiled))

    @property
    def compiler_options(self) -> dict[str, bool]:
        """Those for long chains of bodies, where the scene has one."""
        depth = [0]
        for parent in self.compiled.model.body_parentid[1:]:
            depth.append(depth[parent] + 1)
        return kinematics.compiler_options() if max(depth) > _SHORT_CHAIN else {}

    def _advance(
        self,
        core: Float[Array, " core"],
        control: Float[Array, " nu"],
        fields: tuple[Float[Array, "_ _"], ...],
        ended: Bool[Array, ""],
    ) -> Advanced:
        row = self._row(core, control, fields, ended)
        out_row = _in_one_callback(self.pool.advance, self.pool.out_size, row[None])[0]
        after, contacts, failed = jnp.split(out_row, [core.size, out_row.size - 1])
        return after, contacts > 0, failed[0] > 0

    def _track(
        self, state: PhysicsState, feedback: Feedback, set_points: SetPoints, path: bool
    ) -> Tracked:
        """Hundreds of control steps a callback; in double precision within each."""
        rows = jnp.concatenate([set_points.positions, set_points.velocities], axis=1)
        size = min(_STEPS, len(rows))
        whole = len(rows) // size * size
        chunk = functools.partial(self._track_chunk, feedback, path)
        start = Tracked(state, state, jnp.zeros((), jnp.int32), None)
        tracked, states = jax.lax.scan(
            chunk, start, rows[:whole].reshape(-1, size, rows.shape[1])
        )
        last, more = (
            chunk(tracked, rows[whole:]) if whole < len(rows) else (tracked, None)
        )
        if not path:
            return last
        flat = jax.tree.map(lambda leaf: leaf.reshape(whole, *leaf.shape[2:]), states)
        if more is not None:
            flat = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), flat, more)
        return dataclasses.replace(last, path=flat)

    def _track_chunk(
        self,
        feedback: Feedback,
        path: bool,
        tracked: Tracked,
        set_points: Float[Array, "step two_joints"],
    ) -> tuple[Tracked, PhysicsState | None]:
        state, dtype = tracked.state, tracked.state.qpos.dtype
        ended = state.ended
        core, steps = self._core(state), len(set_points)
        control = jnp.zeros(self.compiled.model.nu, dtype)
        row = self._row(core, control, state.fields, ended)
        row = jnp.concatenate([set_points.astype(dtype).reshape(-1), row])
        follow = functools.partial(self.pool.track, feedback, steps, path)
        width = 2 * core.size + len(self.compiled.scene.contacts) + 2
        length = steps if path else 0
        out = _in_one_callback(follow, width + length * (core.size + 1), row[None])[0]

        ends = np.cumsum([core.size, core.size, state.contacts.size, 1, 1])
        after, before, contacts, failed, taken, rest = jnp.split(out, ends)
        now = dataclasses.replace(
            self._with_core(state, after),
            contacts=jnp.where(ended, state.contacts, contacts > 0),
            failed=state.failed | (failed[0] > 0),
        )
        previous = self._with_core(tracked.before, before)
        previous = jax.tree.map(
            lambda old, new: jnp.where(ended, old, new), tracked.before, previous
        )
        num_steps = tracked.num_steps + taken[0].astype(jnp.int32)
        return Tracked(now, previous, num_steps, None), (
            self._path(state, now, rest.reshape(length, core.size + 1))
            if path
            else None
        )

    def _path(
        self,
        before: PhysicsState,
        after: PhysicsState,
        rows: Float[Array, "step core_and_end"],
    ) -> PhysicsState:
        """Returns the states [step] from their cores and whether the motion had ended."""
        states = jax.tree.map(
            lambda leaf: jnp.broadcast_to(leaf, (len(rows), *leaf.shape)), before
        )
        ended = rows[:, -1] > 0
        return dataclasses.replace(
            self._with_core(states, rows[:, :-1]),
            contacts=jnp.where(ended[:, None], after.contacts, before.contacts),
            failed=jnp.where(ended, after.failed, before.failed),
        )

    def _row(
        self,
        core: Float[Array, " core"],
        control: Float[Array, " nu"],
        fields: tuple[Float[Array, "_ _"], ...],
        ended: Bool[Array, ""],
    ) -> Float[Array, " row"]:
        flags = ended.astype(core.dtype)[None]
        values = (value.reshape(-1) for value in fields)
        return jnp.concatenate([core, control, *values, flags])


def _in_one_callback(
    function: Callable[..., np.ndarray], size: int, rows: Float[Array, "instance row"]
) -> Float[Array, "instance out"]:
    """Returns what the function makes of the rows, in one callback whatever number of vmaps is around it."""

    @jax.custom_batching.custom_vmap
    def called(rows: Array) -> Array:
        count, width = rows.shape
        height = max(1, _PIECE // (width * rows.dtype.itemsize))
        out = jax.ShapeDtypeStruct((count, size), rows.dtype)
        return jax.pure_callback(
            function, out, *jnp.split(rows, np.arange(height, count, height))
        )

    @called.def_vmap
    def together(
        axis_size: int, in_batched: list[bool], rows: Array
    ) -> tuple[Array, bool]:
        flat = _in_one_callback(function, size, rows.reshape(-1, rows.shape[-1]))
        return flat.reshape(*rows.shape[:-1], -1), True

    return called(rows)


@ctypes.CFUNCTYPE(None, ctypes.c_char_p)
def _ignore(text: bytes) -> None:
    """Takes MuJoCo's warnings in place of the terminal and MUJOCO_LOG.TXT; the state's `failed` tells of them."""


def _silence_warnings() -> None:
    if mujoco.get_mju_user_warning() is None:
        mujoco.set_mju_user_warning(_ignore)
