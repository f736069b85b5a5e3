"""Asks the hub, through huggingface-hub: searching, describing repos, addresses of files."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from itertools import islice

import httpx2
from huggingface_hub import HfApi, hf_hub_url
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    OfflineModeIsEnabled,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.hf_api import ModelInfo, RepoFile

from engine.api.models import RepoSummary, VariantFile
from engine.downloads import network
from engine.downloads.errors import (
    BadReference,
    BadToken,
    Forbidden,
    Gated,
    HubFailed,
    HubOffline,
    HubStrange,
    RateLimited,
    RemoteFileNotFound,
    RepoNotFound,
    RevisionNotFound,
    TooManyFiles,
)
from engine.downloads.safe_names import is_repo
from engine.downloads.token import Token, find_token
from engine.errors import TwofoldError
from engine.program import called

DEFAULT_ENDPOINT = "https://huggingface.co"
MAX_FILES = 20_000
_ANSWER_S = 30.0
_TOKEN_S = 15.0
_TRUE = ("1", "ON", "YES", "TRUE")


@dataclass(frozen=True, slots=True)
class Repo:
    """`files` are all of the repo's, as of `commit`."""

    name: str
    commit: str
    gated: bool
    licence: str | None
    files: tuple[VariantFile, ...]


class Hub:
    """One endpoint, from HF_ENDPOINT or the hub's own. `offline` is the user's setting."""

    def __init__(
        self, *, offline: Callable[[], bool] = lambda: False, find: Callable[[], Token] = find_token
    ) -> None:
        network.use_for_hub()
        self._offline = offline
        self._find = find
        self._token: tuple[float, Token] | None = None

    @property
    def endpoint(self) -> str:
        return (os.environ.get("HF_ENDPOINT") or DEFAULT_ENDPOINT).rstrip("/")

    def token(self) -> Token:
        """Looked for now and then: a keyring may take its time."""
        now = time.monotonic()
        if self._token is None or now - self._token[0] > _TOKEN_S:
            self._token = now, self._find()
        return self._token[1]

    def forget_token(self) -> None:
        """It has been changed."""
        self._token = None

    @property
    def offline_by(self) -> str | None:
        """What keeps it offline: a variable, or the setting."""
        for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
            if os.environ.get(name, "").upper() in _TRUE:
                return f"the variable {name}"
        return "the setting downloads.offline" if self._offline() else None

    def require_online(self) -> None:
        """Raises HubOffline."""
        if (cause := self.offline_by) is not None:
            raise HubOffline(cause=cause)

    def search(self, words: str, limit: int = 20) -> list[RepoSummary]:
        """Repos with GGUF files, the most downloaded first. Raises the errors of `asking`."""
        with self.asking(words) as api:
            found = api.list_models(
                search=words,
                filter="gguf",
                sort="downloads",
                limit=limit,
                expand=["downloads", "likes", "lastModified", "gated", "tags", "pipeline_tag"],
            )
            return [_summary(model) for model in islice(found, limit) if is_repo(model.id)]

    def repo(self, name: str, revision: str | None = None) -> Repo:
        """The repo with all its files. Raises TooManyFiles and the errors of `asking`."""
        with self.asking(name, revision) as api:
            info = api.model_info(name, revision=revision, timeout=_ANSWER_S)
            commit = info.sha or revision or "main"
            tree = api.list_repo_tree(name, revision=commit, recursive=True)
            entries = list(islice(tree, MAX_FILES + 1))
        if len(entries) > MAX_FILES:
            raise TooManyFiles(repo=name, limit=MAX_FILES)
        card = info.card_data
        licence = getattr(card, "license", None) if card else None
        return Repo(
            name=name,
            commit=commit,
            gated=bool(info.gated),
            licence=licence if isinstance(licence, str) else _tagged(info, "license:"),
            files=tuple(_file(entry) for entry in entries if isinstance(entry, RepoFile)),
        )

    def file_url(self, repo: str, file: str, commit: str) -> str:
        return hf_hub_url(repo, file, revision=commit, endpoint=self.endpoint)

    def headers(self) -> dict[str, str]:
        """For requests of files; the token goes to the hub alone, never along a redirect."""
        token = self.token().value
        return {
            "user-agent": f"twofold/{version('twofold')}",
            "accept-encoding": "identity",
            **({"authorization": f"Bearer {token}"} if token else {}),
        }

    def refusal(self, response: httpx2.Response, repo: str, file: str = "") -> TwofoldError:
        """What an answer that is an error stands for."""
        token = self.token()
        status, code = response.status_code, response.headers.get("x-error-code")
        message = response.headers.get("x-error-message", "")
        if code == "GatedRepo":
            return self._gated(repo, token)
        if status == 401 and (token.value is not None or "credentials" in message.lower()):
            return BadToken(source=_source(token))
        if code == "RevisionNotFound":
            return RevisionNotFound(repo=repo, revision="that was asked for")
        if code == "EntryNotFound" or (status == 404 and file):
            return RemoteFileNotFound(repo=repo, file=file)
        if status in (401, 404):
            hint = ", and there is no token" if token.value is None else " and not for this token"
            return RepoNotFound(repo=repo, token=hint)
        if status == 403:
            return Forbidden(repo=repo, reason=message or "it is forbidden")
        if status == 429:
            return RateLimited(endpoint=self.endpoint, wait_s=wait_of(response) or 60.0)
        return HubFailed(endpoint=self.endpoint, status=status)

    def _gated(self, repo: str, token: Token) -> Gated:
        advice = (
            "Accept them there with the account of your token, then try again."
            if token.value is not None
            else called(
                "Accept them there, make a token at https://huggingface.co/settings/tokens and "
                "give it to ./twofold models token."
            )
        )
        return Gated(repo=repo, page=f"{self.endpoint}/{repo}", advice=advice)

    @contextmanager
    def asking(self, repo: str, revision: str | None = None) -> Generator[HfApi]:
        """Turns whatever may go wrong into a TwofoldError: HubOffline, HubUnreachable,
        CertificateRefused, RepoNotFound, Gated, BadToken, Forbidden, RevisionNotFound,
        RateLimited, HubFailed, HubStrange."""
        self.require_online()
        token = self.token().value
        api = HfApi(
            endpoint=self.endpoint,
            token=token if token is not None else False,
            library_name="twofold",
            library_version=version("twofold"),
        )
        try:
            yield api
        except OfflineModeIsEnabled as error:
            raise HubOffline(cause="the variable HF_HUB_OFFLINE") from error
        except RevisionNotFoundError as error:
            raise RevisionNotFound(repo=repo, revision=revision or "main") from error
        except GatedRepoError as error:
            raise self._gated(repo, self.token()) from error
        except (RepositoryNotFoundError, RemoteEntryNotFoundError, HfHubHTTPError) as error:
            raise self.refusal(error.response, repo) from error
        except HFValidationError as error:
            raise BadReference(text=repo[:200]) from error
        except network.AnswerTooLarge as error:
            raise HubStrange(endpoint=self.endpoint, reason=str(error)) from error
        except network.Refused as error:
            raise self.refusal(error.response, repo) from error
        except httpx2.HTTPError as error:
            raise network.network_error(error, self.endpoint) from error
        except TwofoldError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            reason = f"{type(error).__name__}: {error}"[:200]
            raise HubStrange(endpoint=self.endpoint, reason=reason) from error


def wait_of(response: httpx2.Response) -> float | None:
    """Seconds that the server wants one to wait, within reason."""
    text = response.headers.get("retry-after", "")
    if text.isdecimal():
        return min(float(text), 3600.0)
    limit = response.headers.get("ratelimit", "")
    _, found, seconds = limit.partition("t=")
    digits = seconds.split(";")[0].strip()
    return min(float(digits), 3600.0) if found and digits.isdecimal() else None


def _source(token: Token) -> str:
    return {
        "environment": "HF_TOKEN",
        "keyring": "the system's keyring",
        "huggingface": "huggingface-cli's file",
        "none": "nowhere",
    }[token.source]


def _file(entry: RepoFile) -> VariantFile:
    return VariantFile(
        path=str(entry.path),
        bytes=int(entry.lfs.size if entry.lfs else entry.size),
        sha256=_sha256(entry.lfs.sha256) if entry.lfs else None,
    )


def _sha256(text: str) -> str | None:
    digest = str(text).removeprefix("sha256:").lower()
    return (
        digest if len(digest) == 64 and all(one in "0123456789abcdef" for one in digest) else None
    )


def _summary(model: ModelInfo) -> RepoSummary:
    return RepoSummary(
        repo=model.id,
        downloads=model.downloads,
        likes=model.likes,
        updated=model.last_modified.date().isoformat() if model.last_modified else None,
        gated=bool(model.gated),
        licence=_tagged(model, "license:"),
        pipeline=model.pipeline_tag,
    )


def _tagged(model: ModelInfo, prefix: str) -> str | None:
    tags = model.tags or []
    return next((tag.removeprefix(prefix) for tag in tags if tag.startswith(prefix)), None)
