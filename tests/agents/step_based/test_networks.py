"""The widths of networks."""

import re

import pytest

from spjax.agents.step_based.networks import check_hidden


@pytest.mark.parametrize("hidden", [(), (0,), (64, 0), (-3, 64)])
def test_a_network_without_a_hidden_layer_or_with_an_empty_one_is_refused(hidden):
    message = f"agent.hidden needs positive widths, got {hidden}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        check_hidden(hidden)


def test_one_hidden_unit_is_enough():
    check_hidden((1,))
    check_hidden((64, 1))
