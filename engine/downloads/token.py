"""The hub's token: found in the environment, the system's keyring or huggingface-hub's own file."""

from __future__ import annotations

import os
from typing import Literal, NamedTuple

from huggingface_hub import get_token

from engine.downloads.errors import BadTokenText, NoKeyring

Source = Literal["environment", "keyring", "huggingface", "none"]

SERVICE, USER = "twofold", "huggingface"
_VARIABLES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")


class Token(NamedTuple):
    """`value` is None where there is none."""

    value: str | None
    source: Source


def find_token() -> Token:
    """Never raises: without a token, most of the hub can be read."""
    if any(os.environ.get(name, "").strip() for name in _VARIABLES):
        return Token(get_token(), "environment")
    if kept := _from_keyring():
        return Token(kept, "keyring")
    if stored := get_token():
        return Token(stored, "huggingface")
    return Token(None, "none")


def keep_token(value: str | None) -> None:
    """Puts the token into the system's keyring; None takes it out.

    Raises BadTokenText or NoKeyring.
    """
    import keyring
    from keyring.errors import KeyringError, PasswordDeleteError

    text = (value or "").strip()
    if value is not None and not text:
        raise BadTokenText(reason="it is empty")
    if not text.isascii() or not all(
        character.isalnum() or character in "_-." for character in text
    ):
        raise BadTokenText(reason="it has characters that no token has")
    try:
        if value is None:
            keyring.delete_password(SERVICE, USER)
        else:
            keyring.set_password(SERVICE, USER, text)
    except PasswordDeleteError:
        return  # there was none
    except (KeyringError, OSError, RuntimeError) as error:
        # What follows is advice for programmers.
        reason = str(error).splitlines()[0].partition(". ")[0] if str(error) else "none found"
        raise NoKeyring(reason=reason) from error


def _from_keyring() -> str | None:
    import keyring  # looks for the system's services, so only when it is needed
    from keyring.errors import KeyringError

    try:
        return keyring.get_password(SERVICE, USER)
    except (KeyringError, OSError, RuntimeError):
        return None
