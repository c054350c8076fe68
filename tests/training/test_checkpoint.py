"""Checkpoints: what is saved comes back, and what is damaged does not."""

import random

import numpy as np
import pytest

from spjax.runs.checkpoint import Checkpoints

STATE = {
    "weights/0": np.arange(6, dtype=np.float32).reshape(2, 3),
    "weights/1": np.asarray([[np.nan, -0.0, np.inf]] * 2, np.float32),
    "step": np.asarray([7, 7], np.int32),
}
KINDS = {name: (array.shape[1:], array.dtype) for name, array in STATE.items()}


@pytest.fixture
def checkpoints(tmp_path):
    return Checkpoints(tmp_path / "checkpoints")


def assert_same_bits(one, other):
    assert list(one) == list(other)
    for a, b in zip(one.values(), other.values(), strict=True):
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())


def test_a_state_comes_back_with_every_bit_dtype_and_shape(checkpoints):
    checkpoints.save(3, STATE)
    assert_same_bits(checkpoints.restore(3, KINDS), STATE)


def test_the_newest_two_stay(checkpoints, tmp_path):
    assert checkpoints.iterations() == []
    for iteration in (0, 5, 10, 15):
        checkpoints.save(iteration, STATE)
    assert checkpoints.iterations() == [10, 15]
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == [
        "000010.npz",
        "000015.npz",
    ]


def test_a_save_that_fails_leaves_the_earlier_ones_and_no_rest(
    checkpoints, tmp_path, monkeypatch
):
    checkpoints.save(0, STATE)
    checkpoints.save(5, STATE)

    def fill_the_disk(part, array, **options):
        part.write(b"half of")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", fill_the_disk)
    with pytest.raises(OSError, match="No space left on device"):
        checkpoints.save(10, STATE)
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == [
        "000000.npz",
        "000005.npz",
    ]


def test_wherever_a_byte_is_wrong_or_the_rest_is_missing_no_other_state_comes_back(
    checkpoints, tmp_path
):
    checkpoints.save(1, STATE)
    path = tmp_path / "checkpoints" / "000001.npz"
    whole = path.read_bytes()
    places = random.Random(3)
    refused = 0
    for _ in range(400):
        place = places.randrange(len(whole))
        wrong = bytes([whole[place] ^ places.randrange(1, 256)])
        damaged = [whole[:place] + wrong + whole[place + 1 :], whole[:place]]
        path.write_bytes(places.choice(damaged))
        try:
            found = checkpoints.restore(1, KINDS)
        except ValueError:
            refused += 1
        else:  # a byte that says nothing of the state, such as the date
            assert_same_bits(found, STATE)
    assert refused > 200


@pytest.mark.parametrize(
    ("name", "kind", "sentence"),
    [
        (
            "step",
            ((3,), np.dtype(np.int32)),
            r"step is int32\[\] and should be int32\[3\]",
        ),
        (
            "step",
            ((), np.dtype(np.float32)),
            r"step is int32\[\] and should be float32\[\]",
        ),
        (
            "bias",
            ((2,), np.dtype(np.int32)),
            r"bias is missing and should be int32\[2\]",
        ),
        ("weights/1", None, r"weights/1 is float32\[3\] and should be missing"),
    ],
)
def test_a_checkpoint_of_another_program_is_one_sentence(
    checkpoints, name, kind, sentence
):
    checkpoints.save(2, STATE)
    kinds = (
        {**KINDS, name: kind}
        if kind
        else {other: KINDS[other] for other in KINDS if other != name}
    )
    with pytest.raises(
        ValueError, match=f"000002.npz is of another program: {sentence}$"
    ):
        checkpoints.restore(2, kinds)


def rows(*lanes):
    """Returns what these lanes of a run of four would save."""
    whole = {"step": np.arange(4, dtype=np.int32), "weights": np.eye(4)}
    return {name: array[list(lanes)] for name, array in whole.items()}


OF_A_LANE = {"step": ((), np.dtype(np.int32)), "weights": ((4,), np.dtype(float))}


def test_lanes_come_back_from_whatever_blocks_they_were_saved_in(checkpoints):
    checkpoints.save(2, rows(0, 1, 2, 3))
    checkpoints.save_block(4, [0, 2], rows(0, 2) | {"beside": np.asarray([5, 7])})
    checkpoints.save_block(4, [1, 3], rows(1, 3) | {"beside": np.asarray([6, 8])})
    for iteration in (2, 4):
        assert_same_bits(checkpoints.restore(iteration, OF_A_LANE), rows(0, 1, 2, 3))
        assert_same_bits(checkpoints.restore(iteration, OF_A_LANE, [3, 0]), rows(3, 0))
    lanes, found = checkpoints.beside(4, ["beside"])
    assert lanes == [0, 1, 2, 3]
    assert found["beside"].tolist() == [5, 6, 7, 8]
    with pytest.raises(ValueError, match=r"000004.npz has no lane 4$"):
        checkpoints.restore(4, OF_A_LANE, [4])


def test_a_damaged_block_is_no_block_and_the_others_stay(checkpoints, tmp_path):
    checkpoints.save_block(4, [0, 1], rows(0, 1))
    checkpoints.save_block(4, [2, 3], rows(2, 3))
    (tmp_path / "checkpoints" / "000004" / "000002.npz").write_bytes(b"half")
    with pytest.raises(ValueError, match=r"000002.npz cannot be read"):
        checkpoints.restore(4, OF_A_LANE)
    (file,) = checkpoints.unreadable(4, OF_A_LANE)
    assert file.name == "000002.npz"
    checkpoints.discard_unreadable(4, OF_A_LANE)
    assert checkpoints.unreadable(4, OF_A_LANE) == {}
    assert sorted(checkpoints.lanes(4)) == [0, 1]


def test_files_with_lanes_that_stopped_stay_as_long_as_the_run(checkpoints, tmp_path):
    for iteration, pairs in ((5, [(0, 1), (2, 3)]), (10, [(0, 1)]), (15, [(0, 1)])):
        for pair in pairs:
            checkpoints.save_block(iteration, pair, rows(*pair))
    checkpoints.prune({5: {3}})
    files = (tmp_path / "checkpoints").rglob("*.npz")
    assert sorted(
        str(file.relative_to(tmp_path / "checkpoints")) for file in files
    ) == [
        "000005/000002.npz",
        "000010/000000.npz",
        "000015/000000.npz",
    ]
