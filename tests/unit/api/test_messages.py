"""A message is text that a tokeniser can take."""

import pytest
from pydantic import ValidationError

from engine.api.messages import Message


def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(ValidationError):
        Message(role="user", content="\ud83e")


def test_an_unknown_role_is_refused() -> None:
    with pytest.raises(ValidationError):
        Message.model_validate({"role": "wizard", "content": "x"})
