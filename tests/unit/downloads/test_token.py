"""The token comes from where people keep it, and is never shown."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import keyring
import keyring.backend
import pytest
from keyring.errors import PasswordDeleteError

from engine.downloads.errors import BadTokenText, NoKeyring
from engine.downloads.token import find_token, keep_token


class MemoryKeyring(keyring.backend.KeyringBackend):
    priority = 1  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        if self.kept.pop((service, username), None) is None:
            raise PasswordDeleteError("none")


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "token"))


@pytest.fixture
def ring() -> Generator[MemoryKeyring]:
    before = keyring.get_keyring()
    made = MemoryKeyring()
    keyring.set_keyring(made)
    yield made
    keyring.set_keyring(before)


def test_the_environment_counts_before_the_keyring(
    ring: MemoryKeyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_token() == (None, "none")
    keep_token(" hf_kept \n")
    assert find_token() == ("hf_kept", "keyring")
    monkeypatch.setenv("HF_TOKEN", "hf_mine")
    assert find_token() == ("hf_mine", "environment")
    monkeypatch.delenv("HF_TOKEN")
    keep_token(None)
    keep_token(None)
    assert (find_token().source, ring.kept) == ("none", {})


@pytest.mark.parametrize("text", ["", "   ", "hf_a\nHost: evil", "hf_ü", "a b"])
def test_what_cannot_be_a_token_is_refused(ring: MemoryKeyring, text: str) -> None:
    with pytest.raises(BadTokenText):
        keep_token(text)
    assert ring.kept == {}


def test_without_a_keyring_the_environment_is_named() -> None:
    import keyring.backends.fail

    before = keyring.get_keyring()
    keyring.set_keyring(keyring.backends.fail.Keyring())
    try:
        assert find_token() == (None, "none")
        with pytest.raises(NoKeyring):
            keep_token("hf_token")
    finally:
        keyring.set_keyring(before)
