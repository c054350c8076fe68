import io
import multiprocessing
import pickle

import jax
import numpy as np
import pytest

import spjax
from spjax.contexts import Gaussian
from spjax.envs.point_mass import PointMass
from spjax.outside import checks, programs
from spjax.teachers import (
    ALPGMM,
    SAGGRIAC,
    EpisodicGoalGAN,
    GoalGAN,
    Random,
    SelfPaced,
    SelfPacedJoint,
    Target,
    TargetMean,
)
from tests.outside.compilations import counts_something, no_compilation
from tests.outside.tasks import INITIAL, SELF_PACED, SPACE, TARGET, Notebook


def made(teacher=SELF_PACED, seed=0):
    return spjax.NumpyTeacher(teacher, SPACE, INITIAL, TARGET, seed)


def told(teacher, count, rng):
    """One round: contexts, and returns that are best at the target."""
    contexts = teacher.sample(count)
    returns = 2.0 - np.abs(contexts - 1.5).sum(axis=1)
    return contexts, teacher.tell(contexts, returns, rng.random(count) < 0.5)


def same(left, right):
    assert left.keys() == right.keys()
    for name in left:
        assert left[name].dtype == right[name].dtype, name
        np.testing.assert_array_equal(left[name], right[name], err_msg=name)


def test_contexts_are_writable_numbers_of_single_precision_inside_the_bounds():
    contexts = made(Random()).sample(200)
    assert type(contexts) is np.ndarray
    assert contexts.dtype == np.float32
    assert contexts.shape == (200, 2)
    assert (contexts >= np.float32(SPACE.lower)).all()
    assert (contexts <= np.float32(SPACE.upper)).all()
    assert len(np.unique(contexts, axis=0)) == 200
    contexts[:] = 0


def test_what_is_drawn_depends_on_the_seed_and_not_on_how_many_are_asked_for_at_once():
    whole = made(Random()).sample(150)
    teacher = made(Random())
    parts = [teacher.sample(count) for count in (1, 70, 64, 15)]
    np.testing.assert_array_equal(whole, np.concatenate(parts))
    assert (made(Random(), seed=1).sample(150) != whole).all()


@pytest.mark.parametrize(("teacher", "blocks"), [(Random(), 2), (Notebook(), 70)])
def test_contexts_asked_for_one_by_one_are_drawn_in_blocks_where_they_follow_on_nothing(
    teacher, blocks, monkeypatch
):
    drawn = []
    draw = programs.draw
    counted = lambda *args, **fixed: drawn.append(1) or draw(*args, **fixed)  # noqa: E731
    teacher = made(teacher)
    monkeypatch.setattr(programs, "draw", counted)
    for _ in range(70):
        teacher.sample()
    assert len(drawn) == blocks


@pytest.mark.slow
def test_what_was_drawn_ahead_is_forgotten_when_the_teacher_learns():
    teacher, rng = made(), np.random.default_rng(0)
    told(teacher, 5, rng)
    reader = made()
    reader.load_state_dict(teacher.state_dict())
    after = teacher.sample(20)
    np.testing.assert_array_equal(after, reader.sample(20))
    assert (after != made().sample(25)[5:]).any(axis=1).all()


@pytest.mark.slow
def test_a_self_paced_teacher_moves_towards_the_target_within_its_trust_region():
    teacher, rng = made(), np.random.default_rng(0)
    distances = []
    for _ in range(60):
        _, metrics = told(teacher, 32, rng)
        assert metrics["step_kl"] <= 0.05 * (1 + 1e-6)
        distances.append(metrics["kl_to_target"])
    assert distances[-1] < 0.2 * distances[0]
    assert metrics["context_mean"].shape == (2,)
    assert isinstance(metrics["solver_iterations"], int)


@pytest.mark.slow
def test_nothing_compiles_again_for_another_number_of_contexts_and_episodes():
    assert counts_something()
    teacher, rng = made(), np.random.default_rng(0)
    told(teacher, 5, rng)
    with no_compilation():
        for count in (1, 2, 63, 64, 65, 300):
            told(teacher, count, rng)
        other = made(SELF_PACED.changed(max_kl=0.1), seed=3)  # traced settings
        told(other, 7, rng)


@pytest.mark.slow
def test_an_update_is_that_of_the_teacher_itself_whatever_fills_the_episodes_up():
    teacher, rng = made(ALPGMM(num_rollouts=12)), np.random.default_rng(0)
    contexts = teacher.sample(10)
    returns = rng.normal(size=10)
    metrics = teacher.tell(contexts, returns, np.zeros(10, bool))
    assert "aic" not in metrics  # there is no mixture yet
    distances = np.linalg.norm(contexts[:, None] - contexts[None], axis=2)
    total = 0.0
    for index in range(6, 10):  # learning progress begins with more than 5 stored
        nearest = np.argmin(distances[index, :index])
        total += abs(returns[index] - returns[nearest])
    assert metrics["mean_alp"] == pytest.approx(total / 10, rel=1e-5)
    state = teacher.state_dict()
    np.testing.assert_allclose(state["state/returns"][:10], returns, rtol=1e-6)
    assert not state["state/returns"][10:].any()
    assert state["state/episodes"] == 10


def test_every_episode_gets_its_own_ticket_back_in_whatever_order_it_is_told():
    teacher, rng = made(Notebook()), np.random.default_rng(0)
    contexts = teacher.sample(100)
    for order in np.split(rng.permutation(100), [30, 31, 80]):
        count = len(order)
        metrics = teacher.tell(contexts[order], np.arange(count), np.ones(count, bool))
        assert metrics == {"episodes": count, "all_match": True}


def test_the_next_context_follows_on_the_oldest_episode_that_was_told():
    teacher = made(Notebook())
    contexts = teacher.sample(3)
    teacher.record(contexts[[2, 0]], [0.0, 0.0], [False, False])
    teacher.record(contexts[[1]], [0.0], [True])
    again = teacher.sample(4)
    np.testing.assert_array_equal(again[:2], contexts[[2, 0]])
    assert not np.isin(again[2:], contexts).any()
    teacher.tell(again, np.zeros(4), np.ones(4, bool))
    state = teacher.state_dict()
    np.testing.assert_array_equal(
        state["state/attempt"][:7], [1, 1, 1, 2, 2, 1, 1]
    )  # three recorded before, four told now


@pytest.mark.slow
def test_goal_gan_plays_every_proposal_twice_and_labels_it():
    teacher = made(GoalGAN(pretrain_iterations=1, success_fraction=0.0))
    first = teacher.sample(6)
    metrics = teacher.tell(first, np.zeros(6), [True, False, True, False, True, False])
    assert metrics["labelled"] == 0
    second = teacher.sample(7)
    np.testing.assert_array_equal(second[:6], first)
    metrics = teacher.tell(second, np.zeros(7), [True] * 7)
    assert metrics["labelled"] == 6
    assert metrics["positive_fraction"] == pytest.approx(0.5)
    assert metrics["successes"] == 3


@pytest.mark.slow
def test_a_teacher_of_whole_batches_learns_from_them_whole():
    teacher = made(EpisodicGoalGAN(pretrain_iterations=1))
    contexts = teacher.sample(20)
    with pytest.raises(ValueError, match="makes one at a time, 20 episodes"):
        teacher.sample(20)
    teacher.record(contexts[:5], np.zeros(5), np.ones(5, bool))
    with pytest.raises(ValueError, match="learns from them whole, 15 episodes"):
        teacher.update()
    metrics = teacher.tell(contexts[5:], np.zeros(15), np.ones(15, bool))
    assert metrics["labelled"] > 0
    assert metrics["positive_fraction"] == 0
    with pytest.raises(ValueError, match="at least 3 rollouts an iteration, got 2"):
        teacher.sample(2)


def test_the_same_context_can_be_handed_out_many_times_and_told_as_often():
    teacher = made(TargetMean())
    contexts = teacher.sample(3)
    np.testing.assert_array_equal(contexts, np.full((3, 2), np.float32(1.5)))
    teacher.tell(contexts[:2], np.zeros(2), np.zeros(2, bool))
    with pytest.raises(ValueError, match=r"contexts\[1\] .* was not handed out"):
        teacher.record(contexts[:2], np.zeros(2), np.zeros(2, bool))
    teacher.tell(contexts[:1], [0.0], [False])


@pytest.mark.parametrize("through", ["npz", "pickle"])
def test_a_teacher_goes_on_from_its_state_with_the_same_bits(through):
    teacher, rng = made(Notebook()), np.random.default_rng(0)
    told(teacher, 9, rng)
    running = teacher.sample(5)
    teacher.record(running[:2], [1.0, 2.0], [False, True])
    teacher.sample(1)
    if through == "npz":
        file = io.BytesIO()
        np.savez(file, **teacher.state_dict())
        file.seek(0)
        saved = np.load(file)
    else:
        saved = pickle.loads(pickle.dumps(teacher.state_dict()))
    other = made(Notebook(), seed=7)
    told(other, 3, rng)
    other.load_state_dict(saved)
    same(teacher.state_dict(), other.state_dict())
    for one in (teacher, other):
        assert one.recorded == 2
        one.tell(running[2:], [3.0, 4.0, 5.0], [False] * 3)
    np.testing.assert_array_equal(teacher.sample(20), other.sample(20))
    same(teacher.state_dict(), other.state_dict())


@pytest.mark.slow
def test_a_state_dict_is_a_copy():
    teacher = made()
    before = teacher.state_dict()
    saved = {name: array.copy() for name, array in before.items()}
    told(teacher, 5, np.random.default_rng(0))
    same(before, saved)


@pytest.mark.slow
def test_double_precision_elsewhere_changes_nothing():
    def run():
        teacher = made(SAGGRIAC(sample_capacity=300))
        for _ in range(2):
            told(teacher, 20, np.random.default_rng(0))
        return teacher.state_dict()

    single = run()
    with jax.enable_x64(True):
        double = run()
    same(single, double)


def test_a_task_of_the_package_says_space_and_distributions():
    task = PointMass(dimensions=2)
    teacher = spjax.NumpyTeacher.for_task(SELF_PACED, task)
    assert teacher.space == task.context_space
    contexts = teacher.sample(500)
    np.testing.assert_allclose(contexts.mean(axis=0), (0.0, 4.25), atol=0.4)


BAD_TEACHERS = [
    (dict(teacher=PointMass()), "teacher must be a Teacher, got the task PointMass"),
    (dict(space=(0, 1)), r"space must be a ContextSpace, got \(0, 1\)"),
    (dict(teacher=SelfPaced()), "make it with value_source='return'"),
    (dict(teacher=SelfPacedJoint()), "take self-paced instead"),
    (dict(initial=None), "no distributions yet"),
    (dict(teacher=Target(), target=None), "default: .*no distributions yet"),
    (dict(target=Gaussian.from_std((1.0,), (1.0,))), "1"),
    (dict(teacher=SELF_PACED.changed(max_kl=-1.0)), "max_kl must be positive"),
    (dict(teacher=SELF_PACED.changed(max_kl=np.nan)), "max_kl must not be NaN"),
    (dict(seed=-1), r"seed must be a whole number in \[0, 2\^32\), got -1"),
    (dict(seed=0.5), "seed must be a whole number"),
]


@pytest.mark.parametrize(("change", "sentence"), BAD_TEACHERS)
def test_what_makes_no_teacher_is_one_sentence(change, sentence):
    good = dict(teacher=SELF_PACED, space=SPACE, initial=INITIAL, target=TARGET)
    with pytest.raises(ValueError, match=sentence) as caught:
        spjax.NumpyTeacher(**(good | change))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("count", [0, -3, True])
def test_a_number_of_contexts_is_whole_and_at_least_one(count):
    with pytest.raises(ValueError, match=f"whole number of at least 1, got {count}"):
        made(Random()).sample(count)
    with pytest.raises(ValueError, match=r"at least 1, got 1\.5"):
        checks.count_of(1.5)


INSIDE = [[1.0, 1.0], [1.0, 1.5]]
BAD_EPISODES = [
    (INSIDE[0], [0.0], [True], r"contexts must have shape \(n, 2\).*got \(2,\)"),
    (np.ones((2, 3)), [0, 0], [0, 0], r"contexts must have shape .*got \(2, 3\)"),
    (np.ones((0, 2)), [], [], r"at least one episode, got \(0, 2\)"),
    ("many", [0, 0], [0, 0], "contexts must be an array of numbers, got str"),
    ([[1.0, np.nan]] * 2, [0, 0], [0, 0], r"contexts\[0\]: length = nan lies outside"),
    ([[1.0, 1.0], [3.0, 1.0]], [0, 0], [0, 0], r"contexts\[1\]: mass = 3 lies outside"),
    (INSIDE, [0.0], [True, True], r"returns must have shape \(2,\).*got \(1,\)"),
    (INSIDE, [[0.0, 0.0]], [True, True], r"returns .*got \(1, 2\)"),
    (INSIDE, [0.0, np.nan], [True, True], r"returns must be finite, .*\[1\] = nan"),
    (INSIDE, [np.inf, 0.0], [True, True], r"returns must be finite, .*\[0\] = inf"),
    (INSIDE, [0.0, 1e40], [True, True], r"returns must be finite, .*\[1\] = 1e\+40"),
    (INSIDE, [0.0, 0.0], [True], r"successes must have shape \(2,\).*got \(1,\)"),
    (INSIDE, [0.0, 0.0], [0.5, 1], r"successes must be True or False, .*\[0\] = 0.5"),
    (INSIDE, [0.0, 0.0], [True, np.nan], r"successes must be True or False"),
    (INSIDE, [0.0, 0.0], [True, True], r"contexts\[0\] \(mass 1 kg.* not handed out"),
]


@pytest.mark.parametrize(("contexts", "returns", "successes", "sentence"), BAD_EPISODES)
def test_what_is_told_wrong_is_one_sentence_and_changes_nothing(
    contexts, returns, successes, sentence
):
    teacher = made(Random())
    teacher.sample(2)
    before = teacher.state_dict()
    with pytest.raises(ValueError, match=sentence) as caught:
        teacher.tell(contexts, returns, successes)
    assert "\n" not in str(caught.value)
    same(before, teacher.state_dict())


def test_a_stranger_among_known_contexts_changes_nothing():
    teacher = made(Random())
    contexts = teacher.sample(3)
    contexts[1, 0] = np.nextafter(contexts[1, 0], np.float32(1.0))
    before = teacher.state_dict()
    with pytest.raises(ValueError, match=r"contexts\[1\] .* was not handed out"):
        teacher.record(contexts, np.zeros(3), np.zeros(3, bool))
    same(before, teacher.state_dict())


def test_there_is_nothing_to_learn_from_without_episodes():
    teacher = made(Random())
    teacher.sample(2)
    with pytest.raises(ValueError, match="no finished episode to learn from"):
        teacher.update()


def test_numbers_that_turn_infinite_are_refused_and_the_teacher_stays():
    teacher = made(SAGGRIAC(sample_capacity=300))
    contexts = teacher.sample(150)
    signs = np.where(np.arange(150) % 2, 3e38, -3e38)
    before = teacher.state_dict()
    with pytest.raises(FloatingPointError, match="sagg-riac gave numbers that are not"):
        teacher.tell(contexts, signs, np.zeros(150, bool))
    after = teacher.state_dict()
    same(
        *(
            {k: v for k, v in d.items() if k.startswith("state")}
            for d in (before, after)
        )
    )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"draws": None}, "draws is missing"),
        ({"more": np.zeros(2)}, "more is unknown"),
        ({"open/context": np.zeros((1, 3), np.float32)}, "open/context is float32"),
        ({"state/count": np.zeros(())}, "state/count is float64"),
        ({"state/context": np.full((8, 2), np.nan, np.float32)}, "is not finite"),
    ],
)
def test_the_state_of_another_teacher_is_refused(change, sentence):
    teacher = made(Notebook())
    arrays = teacher.state_dict() | change
    arrays = {name: array for name, array in arrays.items() if array is not None}
    with pytest.raises(ValueError, match=f"of another teacher: .*{sentence}"):
        teacher.load_state_dict(arrays)


def ask(teacher, answers):
    try:
        teacher.sample()
    except ValueError as problem:
        answers.put(str(problem))


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
def test_a_copy_of_the_teacher_in_another_process_says_so_instead_of_going_its_own_way():
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    process = context.Process(target=ask, args=(made(Random()), answers))
    process.start()
    assert "lives in the process that made it" in answers.get(timeout=60)
    process.join()
