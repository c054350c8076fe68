from typing import Any

from rich.console import Console

from spjax.analysis import tables
from spjax.analysis.records import record
from spjax.runs.results import Record


def a_record(**changes: Any) -> Record:
    method = {
        "env": "point-mass-3d",
        "agent": "ppo",
        "teacher": "self-paced",
        "schedule": "bound",
    }
    content = {
        "experiment": "table-2",
        "metric": "discounted_return",
        "seeds": [1, 2, 3],
        "values": [8.0, 9.0, 8.8],
    }
    paper = {"paper_mean": 8.66, "paper_standard_error": 0.07}
    return record(**(method | content | paper | changes))


def test_ours_stands_beside_the_papers() -> None:
    (row,) = tables.comparison([a_record()])
    assert row.cells[:6] == (
        "point-mass-3d",
        "ppo",
        "self-paced (bound)",
        "8.60 ± 0.25",
        "3",
        "8.66 ± 0.07",
    )
    assert not row.differs


def test_a_significant_difference_is_bold_in_markdown() -> None:
    records = [
        a_record(),
        a_record(values=[2.0, 2.1, 2.2], schedule=None, teacher="default"),
    ]
    lines = tables.markdown_table(records).splitlines()
    assert lines[0] == "| env | agent | teacher | ours | seeds | paper | Welch p |"
    assert len(lines) == 4
    assert "| 8.60 ± 0.25 |" in lines[2]
    assert (
        lines[3]
        == "| point-mass-3d | ppo | default | **2.10 ± 0.05** | 3 | 8.66 ± 0.07 | < 0.001 |"
    )


def test_the_terminal_table_holds_the_same_cells() -> None:
    console = Console(width=140, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(tables.terminal_table([a_record(values=[2.0, 2.1, 2.2])]))
    text = console.export_text(styles=True)
    assert "discounted return" in text
    assert "\x1b[1m2.10 ± 0.05\x1b[0m" in text


def test_a_bracket_in_a_name_is_no_markup() -> None:
    console = Console(width=140, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(tables.terminal_table([a_record(teacher="mine [red]")]))
    assert "mine [red]" in console.export_text()


def test_only_records_of_the_metric_are_shown() -> None:
    records = [
        a_record(),
        a_record(metric="success_rate", values=[1.0, 0.5, 0.6], paper_mean=None),
    ]
    (row,) = tables.comparison(records, metric="success_rate")
    assert (row.ours, row.paper, row.p_value, row.differs) == (
        "0.70 ± 0.12",
        "–",
        "–",
        False,
    )


def test_seeds_without_a_value_and_seeds_that_never_arrived_are_counted_in_sight() -> (
    None
):
    record = a_record(
        metric="iterations_to_threshold",
        values=[120.4, float("nan"), 400.0],
        never_reached=1,
        paper_mean=None,
    )
    (row,) = tables.comparison([record], metric="iterations_to_threshold")
    assert (row.ours, row.seeds) == ("260 ± 99 (1 never)", "2 of 3")


def test_one_seed_has_neither_a_standard_error_nor_a_test() -> None:
    (row,) = tables.comparison([a_record(seeds=[1], values=[8.0])])
    assert (row.ours, row.p_value, row.differs) == ("8.00", "–", False)


def test_swept_settings_are_part_of_the_teacher() -> None:
    settings = {"teacher.schedule.zeta": 0.8, "target_mean": (1.0, 0.5)}
    (row,) = tables.comparison([a_record(settings=settings)])
    assert (
        row.teacher
        == "self-paced (bound), teacher.schedule.zeta = 0.8, target_mean = (1, 0.5)"
    )
