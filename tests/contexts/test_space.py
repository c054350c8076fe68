"""What a context space says of a context."""

import pytest

from spjax.contexts import ContextSpace

SPACE = ContextSpace(("place", "gravity"), ("m", "1"), (-1.0, 0.0), (1.0, 2.0))


def test_a_context_is_described_with_names_and_units():
    assert SPACE.describe([0.25, 2.0]) == "place 0.25 m, gravity 2"


@pytest.mark.parametrize("context", [[0.25], [0.25, 2.0, 1.0]])
def test_a_context_of_another_length_has_no_description(context):
    with pytest.raises(ValueError, match="argument"):
        SPACE.describe(context)
