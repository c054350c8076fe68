from spjax.analysis.paper import PAPER, Estimate, Method, published


def test_a_run_of_another_length_is_not_compared_with_print() -> None:
    method = Method("point-mass-3d", "ppo", "self-paced", "bound")
    assert published(method, 400) == PAPER[method]
    assert published(method, 300) is published(method, 500) is None


def test_every_method_of_both_point_masses_is_there() -> None:
    for env in ("point-mass-3d", "point-mass-2d"):
        for agent in ("trpo", "ppo", "sac"):
            for schedule in ("proportion", "bound"):
                assert PAPER[Method(env, agent, "self-paced", schedule)].iterations is not None
        for agent in ("ppo", "sac"):
            for teacher in ("alp-gmm", "goal-gan", "random", "default"):
                assert PAPER[Method(env, agent, teacher)].iterations is None
    assert sum(method.env != "ball-catching" for method in PAPER) == 2 * (3 * 2 + 2 * 4)


def test_ball_catching_has_self_paced_curricula_of_every_learner_and_others_of_two() -> None:
    printed = {method[1:]: published for method, published in PAPER.items() if method.env == "ball-catching"}
    for starred in (False, True):
        for agent in ("trpo", "ppo", "sac"):
            for schedule in ("proportion", "bound"):
                assert printed[agent, "self-paced", schedule, starred].iterations is not None
        for agent in ("trpo", "ppo"):
            for teacher in ("goal-gan", "default"):
                assert printed[agent, teacher, None, starred].iterations is None
    assert printed["ppo", "self-paced", "proportion", False].final == Estimate(53.9, 0.4)
    assert len(printed) == 3 * 4 + 2 * 5


def test_the_headline_numbers_are_those_of_tables_1_and_2() -> None:
    best = PAPER[Method("point-mass-3d", "ppo", "self-paced", "bound")]
    assert (best.final, best.iterations) == (Estimate(8.66, 0.07), Estimate(120, 10))
    assert PAPER[Method("point-mass-2d", "sac", "random")].final == Estimate(4.99, 0.8)


def test_the_self_paced_curriculum_beats_every_other_in_print() -> None:
    for method, printed in PAPER.items():
        if method.schedule is None:
            ours = PAPER[Method(method.env, method.agent, "self-paced", "proportion")]
            assert ours.final.mean > printed.final.mean
