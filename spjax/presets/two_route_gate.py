"""The two-route gate: settings of ours, the same for every curriculum; nothing of it was published."""

from spjax.presets.table import BOUNDED, Names, Settings, Table

NUM_ITERATIONS = 80
NUM_SAMPLES = 100  # rollouts an iteration
EVALUATE_EVERY = 5
MAX_KL = 0.2  # epsilon of the contexts
V_LB = 0.4  # share of successes; with the pillar nobody has more than about 0.6 at the start
WARMUP = 20  # iterations before contexts move
BUFFER_SIZE = 3  # iterations of rollouts that an update sees


def settings(names: Names) -> dict[str, Settings]:
    """Returns what differs from the defaults of the parts."""
    from spjax.agents.episodic.features import RadialBasis

    along = RadialBasis((-5.0, 0.1), (5.0, 1.5), (6, 1), (0.5, 0.0))
    return {
        "agent": {
            "max_kl": 1.0,
            "value_features": along,
            "policy_features": along,
            "num_samples": NUM_SAMPLES,
            "buffer_size": BUFFER_SIZE,
            "mean_features_of": "target" if names.teacher == "default" else "buffer",
        },
        "teacher": _teacher(names),
        "run": {
            "num_iterations": NUM_ITERATIONS,
            "evaluate_every": EVALUATE_EVERY,
            "evaluation_episodes": 100,
        },
    }


def _teacher(names: Names) -> Settings:
    if names.teacher == "default":
        return {}
    found: dict[str, object] = {
        "value_source": "return",
        "warmup": WARMUP,
        "buffer_size": BUFFER_SIZE * NUM_SAMPLES,
        "sliding_window": names.teacher == "self-paced-particles",
        "max_kl": MAX_KL,
    }
    if names.schedule == "proportion":
        found["schedule.offset"] = 0
    if names.schedule in BOUNDED:
        found["schedule.performance_bound"] = V_LB
    return found


TABLE = Table(
    agents={"c-reps": ("self-paced", "self-paced-particles", "default")},
    settings=settings,
    schedules=("proportion", "bound"),
)
