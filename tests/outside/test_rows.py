import numpy as np

from spjax.outside.rows import Ledger, Row, from_named, stacked, unstacked

BLANK = Row(
    context=np.zeros(2, np.float32),
    episode_return=np.zeros((), np.float32),
    success=np.zeros((), bool),
    ticket=(np.zeros((), np.int32),),
)


def row(context, ticket):
    return BLANK._replace(
        context=np.float32(context), ticket=(np.asarray(ticket, np.int32),)
    )


def test_the_oldest_row_of_a_context_is_taken_first():
    ledger = Ledger(10, [row([1, 2], 7), row([3, 4], 8), row([1, 2], 9)])
    taken = [int(ledger.take(np.float32([1, 2])).ticket[0]) for _ in range(2)]
    assert taken == [7, 9]
    assert [int(one.ticket[0]) for one in ledger] == [8]
    assert ledger.unknown(np.float32([[3, 4], [1, 2]])) == 1


def test_a_context_is_known_as_often_as_it_was_handed_out():
    ledger = Ledger(10, [row([1, 2], 7), row([1, 2], 8)])
    assert ledger.unknown(np.float32([[1, 2], [1, 2]])) is None
    assert ledger.unknown(np.float32([[1, 2], [1, 2], [1, 2]])) == 2


def test_the_sign_of_zero_does_not_matter():
    assert Ledger(10, [row([0.0, -0.0], 7)]).unknown(np.float32([[-0.0, 0.0]])) is None


def test_the_oldest_are_forgotten_where_there_are_too_many():
    ledger = Ledger(2, [row([1, 1], 1), row([2, 2], 2), row([1, 1], 3)])
    assert [int(one.ticket[0]) for one in ledger] == [2, 3]
    assert ledger.unknown(np.float32([[1, 1], [1, 1]])) == 1


def test_rows_survive_as_arrays_also_where_there_are_none():
    rows = [row([1, 2], 7), row([3, 4], 8)]
    again = from_named(stacked(rows, BLANK).named(), BLANK)
    for one, other in zip(rows, again, strict=True):
        np.testing.assert_equal(one.named(), other.named())
    assert unstacked(stacked([], BLANK)) == []
    assert {
        name: array.dtype for name, array in stacked([], BLANK).named().items()
    } == {
        "context": np.float32,
        "episode_return": np.float32,
        "success": bool,
        "ticket/0": np.int32,
    }
