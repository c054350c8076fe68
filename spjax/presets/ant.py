"""The ant experiments (Klink et al., 2021, Section 7.2 and the appendix "Experimental Details").

Neither environment nor scripts were released, so "published" is our completion of the printed text ("article"):

    minibatches, epochs     library defaults 4, 4       16, 6
    learning rate           library default 2.5e-4      3e-4
    value coefficient       library default 0.5         1.0
    gradient clipping       library default 0.5         none
    time limit              an end                      its state's value counts
    rewards in training     as they are                 divided by the running spread of the return
    armature of the joints  0                           0.03 kg m^2
    observation             as it is                    all entries of the order of 1
    trust region            KL(new || old)              KL(old || new)
    alpha is zero for       K_alpha updates             K_alpha - 1 updates

"article" does what is printed and is not expected to learn: 16 gradient steps an update hardly move a policy's spread or take
the critic from 0 to returns of hundreds, and without armature the noise of the policy turns the ant on its back. `python -m
benchmarks.ant ablation` takes the differences one by one.

Not printed at all: the epsilon of the context update, the number of iterations and the success rule of GoalGAN; here 0.05 as in
the other tasks, 400, and whether the ant is behind the wall at the end. The values of contexts are sample returns, as printed.
Nothing but PPO was run in the paper; TRPO and SAC have their defaults, in as many slots.

"fast" is "published" for accelerators, where thousands of slots cost hardly more than forty: 2,048 of them for a whole
episode an iteration, 19 published iterations of experience, so half as many iterations. Fewer control steps would leave
iterations in which no episode ends: the slots run in step.
"""

from spjax.presets.table import BOUNDED, VARIANTS, Names, Settings, Table

NUM_ITERATIONS = 400
K_ALPHA, ZETA, V_LB = 15, 1.6, 600.0
K_OFFSET = 10
STD_FLOOR = (1.0, 0.5)  # m
FLOOR_KL = 11_000.0
ALP_GMM = (0.1, 50, 500)  # p_RAND, n_ROLLOUT, s_BUFFER
GOAL_GAN = (0.05, 125, 0.2)  # delta_NOISE, n_ROLLOUT, p_SUCCESS
BUFFER_SIZE = 1000  # episodes of an update at most
SLOTS, SLOT_STEPS = 40, 2048  # of an iteration
FAST_SLOTS, FAST_SLOT_STEPS, FAST_ITERATIONS = 2048, 750, 200


def settings(names: Names) -> dict[str, Settings]:
    """Returns what differs from the defaults of the parts."""
    printed: Settings = {"armature": 0.0, "scaled_observation": False}
    return {
        "task": printed if names.article else {},
        "agent": _agent(names),
        "teacher": _teacher(names),
        "run": {
            "num_iterations": FAST_ITERATIONS if _fast(names) else NUM_ITERATIONS,
            "evaluation_episodes": 50,
        },
    }


def _fast(names: Names) -> bool:
    """Says whether there are thousands of slots; SAC has as many gradient steps as control steps, and gains nothing."""
    return names.variant == "fast" and names.agent != "sac"


def _agent(names: Names) -> Settings:
    envs, steps = (FAST_SLOTS, FAST_SLOT_STEPS) if _fast(names) else (SLOTS, SLOT_STEPS)
    shared: Settings = {
        "hidden": (64, 64),
        "discount": 0.995,
        "num_envs": envs,
        "num_steps": steps,
        "bootstrap_time_limit": not names.article,
    }
    if names.agent == "sac":
        memory = {"batch_size": 512, "replay_size": 500_000, "learning_starts": 10_000}
        return {**shared, **memory}
    traced: Settings = {"gae_lambda": 0.95, "normalize_rewards": not names.article}
    if names.agent == "trpo":
        return {**shared, **traced}
    return {**shared, **traced, **_ppo(names)}


def _ppo(names: Names) -> Settings:
    if names.article:
        return {
            "num_minibatches": 4,
            "num_epochs": 4,
            "value_coefficient": 0.5,
            "max_grad_norm": 0.5,
        }
    return {
        "num_minibatches": 64 if _fast(names) else 16,
        "num_epochs": 6,
        "learning_rate": 3e-4,
    }


def _teacher(names: Names) -> Settings:
    if names.teacher == "alp-gmm":
        settings = ("random_fraction", "num_rollouts", "buffer_size")
        return dict(zip(settings, ALP_GMM, strict=True))
    if names.teacher == "goal-gan":
        settings = ("noise", "num_rollouts", "success_fraction")
        return dict(zip(settings, GOAL_GAN, strict=True))
    if names.teacher not in ("self-paced", "spgl"):
        return {}
    moving: dict[str, object] = {
        "buffer_size": FAST_SLOTS if _fast(names) else BUFFER_SIZE,
        "warmup": K_OFFSET,
        "std_floor": STD_FLOOR,
        "floor_kl": FLOOR_KL,
        "value_source": "return",
    }
    if names.teacher == "spgl":
        return {**moving, "performance_bound": V_LB}
    if names.article:
        moving["kl_direction"] = "new-old"
    if names.schedule in BOUNDED:
        moving["schedule.performance_bound"] = V_LB
    if names.schedule == "proportion":
        moving["schedule.zeta"] = ZETA
        moving["schedule.offset"] = K_ALPHA - (not names.article)
    return moving


_TEACHERS = (
    "self-paced",
    "spgl",
    "alp-gmm",
    "goal-gan",
    "sagg-riac",
    "default",
    "random",
)
TABLE = Table(
    agents={"ppo": _TEACHERS, "trpo": _TEACHERS, "sac": _TEACHERS},
    settings=settings,
    variants=(*VARIANTS, "fast"),
)
