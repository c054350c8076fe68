"""The GAN: losses by hand, batches, the optimiser, and what it learns."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax.teachers.goal_gan.gan import BATCH, GAN, batch_rows

TINY = GAN(1, generator_hidden=(1,), discriminator_hidden=(1,))
PUBLISHED = GAN(2)
SMALL = GAN(2, generator_hidden=(16, 16), discriminator_hidden=(16, 16))


@jax.jit
def train_published(state, key, contexts, labels):
    return PUBLISHED.train(state, key, contexts, labels, 0, labels.size, 250, 1e-3)[0]


def layers(*weights_and_biases):
    """Returns the parameters of a network of width 1, of one input."""
    pairs = zip(weights_and_biases[::2], weights_and_biases[1::2], strict=True)
    return {
        "params": {
            f"Dense_{n}": {
                "kernel": jnp.array([[float(weight)]]),
                "bias": jnp.array([float(bias)]),
            }
            for n, (weight, bias) in enumerate(pairs)
        }
    }


def labelled(key, count, size=2):
    """Returns contexts over the box, with label 1 in its right half."""
    contexts = jax.random.uniform(key, (count, size), minval=-0.5, maxval=0.5)
    return contexts, (contexts[:, 0] > 0).astype(float)


def largest_difference(tree, other):
    return max(
        float(jnp.abs(a - b).max())
        for a, b in zip(jax.tree.leaves(tree), jax.tree.leaves(other), strict=True)
    )


def test_the_generator_is_relu_layers_and_a_tanh():
    made = TINY.generate(layers(2, 1, -3, 0.5), jnp.array([[1.0], [-4.0]]))
    np.testing.assert_allclose(made[:, 0], np.tanh([-3 * 3 + 0.5, 0.5]), rtol=1e-6)


def test_the_losses_agree_with_a_calculation_by_hand():
    discriminator = layers(2, 1, 3, -0.5)  # D(x) = 3 leaky(2 x + 1) - 0.5
    generated = jnp.array([[0.0], [-1.0]])  # D = 2.5, -0.8
    contexts = jnp.array(
        [[0.5], [-0.25], [7.0]]
    )  # D = 5.5, 1.0, and a row that does not count
    mask = jnp.array([True, True, False])
    loss = TINY.discriminator_loss(
        discriminator, contexts, jnp.array([1.0, 0.0, 1.0]), mask, generated
    )
    by_hand = ((1 - 5.5) ** 2 + (-1 - 1.0) ** 2 + (-1 - 2.5) ** 2 + (-1 + 0.8) ** 2) / 4
    assert float(loss) == pytest.approx(by_hand, rel=1e-6)
    assert float(TINY.generator_loss(discriminator, generated)) == pytest.approx(
        (1.5**2 + 1.8**2) / 2, rel=1e-6
    )


@pytest.mark.slow
def test_the_first_steps_are_those_of_rms_prop_with_a_mean_square_that_starts_at_one(
    key,
):
    key_init, key_data, key_train = jax.random.split(key, 3)
    state = jax.jit(SMALL.init)(key_init)
    contexts, labels = labelled(key_data, 40)
    trained, losses = jax.jit(SMALL.train)(
        state, key_train, contexts, labels, 0, 40, 1, 0.01
    )

    noise = jax.random.normal(jax.random.fold_in(key_train, 0), (BATCH, 2))
    generated = SMALL.generate(state.generator, noise)
    data = (contexts, labels, jnp.ones(40, bool), generated)
    loss, gradient = jax.jit(jax.value_and_grad(SMALL.discriminator_loss))(
        state.discriminator, *data
    )
    discriminator = jax.tree.map(
        lambda p, g: p - 0.01 * g / jnp.sqrt(0.9 + 0.1 * g**2),
        state.discriminator,
        gradient,
    )
    assert float(losses.discriminator) == pytest.approx(float(loss), rel=1e-5)
    assert largest_difference(trained.discriminator, discriminator) < 1e-6

    def loss_of_generator(
        generator,
    ):  # of the discriminator after its step, on the same noise
        return SMALL.generator_loss(discriminator, SMALL.generate(generator, noise))

    gradient = jax.jit(jax.grad(loss_of_generator))(state.generator)
    generator = jax.tree.map(
        lambda p, g: p - 0.01 * g / jnp.sqrt(0.9 + 0.1 * g**2),
        state.generator,
        gradient,
    )
    assert largest_difference(trained.generator, generator) < 1e-6
    assert largest_difference(trained.generator, state.generator) > 1e-4


def test_batches_run_cyclically_through_the_contexts():
    np.testing.assert_array_equal(batch_rows(0, 100), np.arange(64))
    np.testing.assert_array_equal(batch_rows(1, 100), [*range(64, 100), *range(28)])
    np.testing.assert_array_equal(batch_rows(2, 100), np.arange(28, 92))
    np.testing.assert_array_equal(batch_rows(3, 64), np.arange(64))
    np.testing.assert_array_equal(batch_rows(3, 25)[:25], np.arange(25))


def test_a_training_sees_its_contexts_only_wherever_they_lie_in_the_ring(key):
    key_init, key_data, key_other, key_train = jax.random.split(key, 4)
    state = jax.jit(SMALL.init)(key_init)
    train = jax.jit(
        lambda data, labels, first: SMALL.train(
            state, key_train, data, labels, first, 25, 6, 1e-2
        )[0]
    )
    ring, labels = labelled(key_data, 40)
    other, other_labels = labelled(key_other, 40)
    used = jnp.arange(40) < 25
    mixed, mixed_labels = (
        jnp.where(used[:, None], ring, other),
        jnp.where(used, labels, other_labels),
    )
    once = train(ring, labels, 0)
    assert largest_difference(train(mixed, mixed_labels, 0), once) == 0
    turned = train(
        jnp.roll(mixed, 30, axis=0), jnp.roll(mixed_labels, 30), 70
    )  # rows 30..39 and 0..14
    assert largest_difference(turned, once) == 0
    assert largest_difference(train(other, other_labels, 0), once) > 1e-3


def test_no_iteration_changes_no_bit_alone_or_in_a_batch(key):
    key_init, key_data, key_train = jax.random.split(key, 3)
    state = jax.jit(SMALL.init)(key_init)
    data = labelled(key_data, 80)
    train = jax.jit(
        jax.vmap(
            lambda iterations: SMALL.train(
                state, key_train, *data, 0, 80, iterations, 1e-2
            )
        )
    )
    trained, losses = train(jnp.array([0, 5]))
    lanes = [
        jax.tree.map(lambda leaf, lane=lane: leaf[lane], trained) for lane in (0, 1)
    ]
    assert largest_difference(lanes[0], state) == 0
    assert float(losses.generator[0]) == 0.0 != float(losses.generator[1])
    assert largest_difference(lanes[1].generator, state.generator) > 1e-3
    alone, _ = jax.jit(SMALL.train)(state, key_train, *data, 0, 80, 5, 1e-2)
    assert largest_difference(lanes[1], alone) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_both_modes_of_the_good_contexts_are_found_and_kept(seed):
    modes = jnp.array([[-0.3, -0.2], [0.25, 0.3]])
    key_init, key_data, key_spread, key_train, key_noise = jax.random.split(
        jax.random.key(seed), 5
    )
    contexts, _ = labelled(key_data, 200)
    near = modes[jnp.arange(100) % 2] + 0.03 * jax.random.normal(key_spread, (100, 2))
    contexts = contexts.at[::2].set(near)
    labels = (
        jnp.linalg.norm(contexts[:, None] - modes[None], axis=-1).min(1) < 0.1
    ).astype(float)
    state, shares = jax.jit(PUBLISHED.init)(key_init), []
    noise = jax.random.normal(key_noise, (1000, 2))
    for number in range(6):
        state = train_published(
            state, jax.random.fold_in(key_train, number), contexts, labels
        )
        distance = jnp.linalg.norm(
            PUBLISHED.generate(state.generator, noise)[:, None] - modes[None], axis=-1
        )
        shares.append((distance < 0.1).mean(0))
    assert (np.array(shares[3:]) > 0.2).all()
    assert (
        np.sum(shares[3:]) / 3 > 0.9
    )  # between the modes the generator, continuous, makes a few
