"""The engine for accelerators: MuJoCo in JAX (MJX), or in Warp.

On CPU it is for comparison: its constraint solver factorises matrices inside a loop, which batches of 2,048 on two cores bring to
a standstill.
"""

import contextlib
import dataclasses
import importlib.util
import io
from importlib import metadata

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from spjax.envs.physics import kinematics
from spjax.envs.physics.base import Advanced, Physics
from spjax.envs.physics.simulations import LIMIT
from spjax.promotion import lenient

with contextlib.redirect_stdout(
    io.StringIO()
):  # it tells every user that Warp is not installed
    from mujoco import mjx

WARP_CONTACTS = 2**17  # Warp reserves room for the contacts of all instances together
WARP_CONSTRAINTS = 128  # and for the constraint rows of one


@dataclasses.dataclass(frozen=True, eq=False)
class Mjx(Physics):
    """A scene that MJX runs."""

    implementation: str  # "jax" or "warp"
    model: PyTree = dataclasses.field(init=False)
    blank: PyTree = dataclasses.field(
        init=False
    )  # the MJX data that states are put into

    def __post_init__(self) -> None:
        _check_versions(metadata.version("mujoco"), metadata.version("mujoco-mjx"))
        sizes = {}
        if self.implementation == "warp":
            self._check_warp()
            sizes = {"naconmax": WARP_CONTACTS, "njmax": WARP_CONSTRAINTS}
        try:
            with jax.ensure_compile_time_eval():
                model = mjx.put_model(self.compiled.model, impl=self.implementation)
                blank = mjx.make_data(
                    self.compiled.model, impl=self.implementation, **sizes
                )
        except NotImplementedError as error:
            raise ValueError(
                f"MJX cannot run this scene: {' '.join(str(error).split())}"
            ) from error
        # On no device: the engine outlives a change of devices and of precision.
        object.__setattr__(self, "model", jax.tree.map(np.asarray, model))
        object.__setattr__(self, "blank", jax.tree.map(np.asarray, blank))

    @property
    def compiler_options(self) -> dict[str, bool]:
        """Those for long chains of bodies: arms of seven joints become a thousand times slower without them."""
        return kinematics.compiler_options()

    def _check_warp(self) -> None:
        if importlib.util.find_spec("warp") is None:
            raise ValueError(
                "the physics engine 'warp' needs warp-lang: pip install 'spjax[warp]'"
            )
        for name, _, is_state, _ in self.compiled.split_fields(
            self.compiled.field_values()
        ):
            if not is_state:
                raise ValueError(
                    f"the physics engine 'warp' has no {name!r} of an instance's own; use 'mjx' or 'native'"
                )

    def _advance(
        self,
        core: Float[Array, " core"],
        control: Float[Array, " nu"],
        fields: tuple[Float[Array, "_ _"], ...],
        ended: Bool[Array, ""],
    ) -> Advanced:
        model, data = jax.tree.map(jnp.asarray, (self.model, self.blank))
        for name, rows, is_state, value in self.compiled.split_fields(fields):
            if is_state:
                data = data.replace(**{name: getattr(data, name).at[rows].set(value)})
            else:
                model = model.replace(
                    **{name: getattr(model, name).at[rows].set(value)}
                )
        data = data.replace(ctrl=control)
        names = ("qpos", "qvel", "act", "qacc_warmstart")
        ends = np.cumsum(self._sizes())[:-1]

        def substep(
            carry: tuple[Array, Array], _: None
        ) -> tuple[tuple[Array, Array], None]:
            core, contacts = carry
            parts = dict(zip(names, jnp.split(core, ends), strict=True))
            with lenient():
                after = mjx.step(model, data.replace(**parts))
            touched = after.sensordata[self.compiled.columns] > 0
            moved = jnp.concatenate([getattr(after, name) for name in names])
            still = contacts.any()
            found = (touched[:, None] & self.compiled.groups).any(axis=0)
            return (
                jnp.where(still, core, moved),
                jnp.where(still, contacts, found),
            ), None

        none = jnp.zeros(len(self.compiled.scene.contacts), bool)
        (core, contacts), _ = jax.lax.scan(
            substep, (core, none), length=self.compiled.scene.substeps
        )
        return core, contacts, ~(jnp.abs(core) < LIMIT).all()


def _check_versions(mujoco: str, mjx: str) -> None:
    """Raises ValueError where the two are not of one minor version: MJX reads the fields of MuJoCo's models."""
    minor, minor_of_mjx = (".".join(one.split(".")[:2]) for one in (mujoco, mjx))
    if minor != minor_of_mjx:
        raise ValueError(
            f"mujoco is {mujoco} and mujoco-mjx {mjx}, they must be of the same minor version: "
            f"pip install 'mujoco-mjx=={minor}.*'"
        )
