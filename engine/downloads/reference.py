"""Understands what a person pastes: user/repo, user/repo:QUANT, or an address of the hub's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from engine.downloads.errors import BadReference
from engine.downloads.safe_names import is_repo

HUB_HOSTS = ("huggingface.co", "www.huggingface.co", "hf.co")
_VIEWS = ("blob", "resolve", "raw", "tree")


@dataclass(frozen=True, slots=True)
class Reference:
    """`wanted`: a quantisation, a folder or a file of the repo, if one was named."""

    repo: str
    revision: str | None = None
    wanted: str | None = None


def parse_reference(text: str, endpoint: str = "") -> Reference:
    """Raises BadReference for anything else, plain words among them."""
    found = _parsed(text.strip(), endpoint)
    if found is None or not is_repo(found.repo):
        raise BadReference(text=text[:200])
    return found


def _parsed(text: str, endpoint: str) -> Reference | None:
    hosts = [*HUB_HOSTS, urlsplit(endpoint).netloc.lower()]
    lower = text.lower()
    if lower.startswith(("http://", "https://")):
        parts = urlsplit(text)
        return _from_path(parts.path) if parts.netloc.lower() in hosts else None
    if lower.startswith("hf://"):
        return _from_path(text[5:])
    head, _, rest = text.partition("/")
    if head.lower() in hosts and rest:
        return _from_path(rest)
    return _from_path(text)


def _from_path(path: str) -> Reference | None:
    parts = [unquote(part) for part in path.strip("/").split("/")]
    if parts and parts[0] == "models":
        parts = parts[1:]
    if len(parts) < 2:
        return None
    name, colon, wanted = parts[1].partition(":")
    repo = f"{parts[0]}/{name}"
    rest: Sequence[str] = parts[2:]
    if not rest:
        return Reference(repo, wanted=wanted or None) if wanted or not colon else None
    if colon or rest[0] not in _VIEWS or len(rest) < 2:
        return None
    return Reference(repo, rest[1], "/".join(rest[2:]) or None)
