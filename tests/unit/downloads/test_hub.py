"""The real client library against a local hub: what it finds, and what refusals mean."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.downloads import hub as hub_module
from engine.downloads.errors import (
    BadToken,
    Gated,
    HubFailed,
    HubOffline,
    HubStrange,
    HubUnreachable,
    RateLimited,
    RepoNotFound,
    RevisionNotFound,
    TooManyFiles,
)
from engine.downloads.hub import Hub
from engine.downloads.token import Token
from engine.words import sentence
from tests.support.downloading import Downloading
from tests.support.hub import Flood, LocalHub

REPO = "somebody/Model-GGUF"


def client(token: str | None = None) -> Hub:
    return Hub(find=lambda: Token(token, "environment" if token else "none"))


def test_a_search_gives_gguf_repos_the_most_downloaded_first(hub: LocalHub) -> None:
    hub.add("a/Llama-GGUF", {}, downloads=5)
    hub.add("b/Llama-GGUF", {}, downloads=50, gated=True)
    hub.add("c/Llama", {}, tags=("safetensors",))
    hub.add("d/Other-GGUF", {})
    found = client().search("llama")
    assert [(one.repo, one.downloads, one.gated) for one in found] == [
        ("b/Llama-GGUF", 50, True),
        ("a/Llama-GGUF", 5, False),
    ]
    assert (found[0].licence, found[0].updated) == ("apache-2.0", "2026-10-01")
    assert len(client().search("llama", limit=1)) == 1


def test_a_repo_lists_its_files_with_sizes_and_hashes_over_several_pages(hub: LocalHub) -> None:
    repo = hub.add(REPO, {f"m{no}-Q4_0.gguf": b"x" * no for no in range(2100)})
    found = client().repo(REPO)
    assert (found.commit, found.licence, found.gated) == (repo.commit, "apache-2.0", False)
    assert len(found.files) == 2100
    assert all(file.sha256 and len(file.sha256) == 64 for file in found.files)
    assert {file.bytes for file in found.files} == set(range(2100))


def test_requests_name_the_program_and_send_the_token(hub: LocalHub) -> None:
    hub.add(REPO, {})
    client(hub.token).repo(REPO)
    _, _, headers = hub.requests[0]
    assert headers["user-agent"].startswith("twofold/")
    assert headers["authorization"] == f"Bearer {hub.token}"


@pytest.mark.parametrize(
    ("token", "facts", "error", "words"),
    [
        (None, None, RepoNotFound, "there is no token"),
        ("hf_wrong", {}, BadToken, "HF_TOKEN"),
        (None, {"private": True}, RepoNotFound, "private"),
    ],
)
def test_a_refused_repo_is_explained(
    hub: LocalHub,
    token: str | None,
    facts: dict[str, bool] | None,
    error: type[Exception],
    words: str,
) -> None:
    if facts is not None:
        hub.add(REPO, {"m-Q4_0.gguf": b"x"}, **facts)
    with pytest.raises(error) as caught:
        client(token).repo(REPO)
    assert words in sentence(caught.value)  # type: ignore[arg-type]


def test_a_gated_repo_says_where_to_accept_and_what_else_is_missing(
    hub: LocalHub, make: Callable[..., Downloading]
) -> None:
    hub.add(REPO, {"m-Q4_0.gguf": b"x" * 100}, gated=True)
    hub.add("x/y-refused", {"m-Q4_0.gguf": b"x" * 100}, gated=True)
    without = make().pull(REPO)
    refused = make(token=hub.token).pull("x/y-refused")
    for job, page, advice in (
        (without, f"{hub.url}/{REPO}", "make a token"),
        (refused, f"{hub.url}/x/y-refused", "with the account of your token"),
    ):
        assert job.failure is not None
        assert job.failure.code == Gated.code
        assert page in job.failure.sentence and advice in job.failure.sentence


def test_faults_of_the_hub_are_told_apart(hub: LocalHub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add(REPO, {})
    with pytest.raises(RevisionNotFound):
        client().repo(REPO, "no-such-branch")
    hub.api_status = [(500, {})]
    with pytest.raises(HubFailed):
        client().repo(REPO)
    hub.api_status = [(429, {"Retry_After": "7"})]
    with pytest.raises(RateLimited) as limited:
        client().repo(REPO)
    assert limited.value.data["wait_s"] == 7
    hub.api_status = [(200, {"Content_Type": "text/html"})]  # a network's sign-in page
    with pytest.raises(HubStrange):
        client().repo(REPO)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(HubUnreachable) as unreachable:
        client().repo(REPO)
    assert "HTTPS_PROXY" in sentence(unreachable.value)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_search_waits_for_no_second_try(
    hub: LocalHub, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    # huggingface-hub alone would sleep for an hour here.
    monkeypatch.setattr("time.sleep", pytest.fail)
    hub.api_status = [(status, {"Retry_After": "3600"})] * 9
    with pytest.raises((HubFailed, RateLimited)):
        client().search("llama")
    assert len(hub.requests) == 1
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(HubUnreachable, match="refused"):
        client().search("llama")


def test_nothing_is_asked_but_what_was_wanted(
    hub: LocalHub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # huggingface-hub alone also asks for a list of programs that it might run under.
    monkeypatch.setattr("huggingface_hub.constants.AGENT_HARNESSES_PATH", str(tmp_path / "none"))
    monkeypatch.setattr("huggingface_hub.utils._detect_agent._registry", None)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.url)
    hub.add(REPO, {"m-Q4_0.gguf": b"x"})
    client().search("model")
    client().repo(REPO)
    assert [path.partition("?")[0] for _, path, _ in hub.requests] == [
        "/api/models",
        f"/api/models/{REPO}",
        f"/api/models/{REPO}/tree/{hub.repos[REPO].commit}",
    ]


def test_a_listing_without_end_is_given_up(hub: LocalHub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add(REPO, {})
    hub.endless.add(REPO)
    monkeypatch.setattr(hub_module, "MAX_FILES", 2500)
    with pytest.raises(TooManyFiles):
        client().repo(REPO)
    assert len(hub.requests) < 6


def test_an_answer_that_is_far_too_large_is_not_read(
    hub: LocalHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add(REPO, {f"m{no}.gguf": b"" for no in range(500)})
    monkeypatch.setattr("engine.downloads.network.MAX_ANSWER_BYTES", 10_000)
    with pytest.raises(HubStrange):
        client().repo(REPO)


@pytest.mark.parametrize("how", ["plain", "packed", "slow"])
def test_an_answer_without_end_is_given_up(
    hub: LocalHub, monkeypatch: pytest.MonkeyPatch, how: Flood
) -> None:
    monkeypatch.setattr("engine.downloads.network.MAX_ANSWER_BYTES", 1_000_000)
    monkeypatch.setattr("engine.downloads.network.WHOLE_S", 0.3 if how == "slow" else 60.0)
    hub.flood = how
    with pytest.raises(HubUnreachable if how == "slow" else HubStrange):
        client().search("llama")
    hub.flood = None


@pytest.mark.parametrize("name", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", None])
def test_offline_mode_asks_nothing(
    hub: LocalHub, monkeypatch: pytest.MonkeyPatch, name: str | None
) -> None:
    hub.add(REPO, {})
    if name:
        monkeypatch.setenv(name, "1")
    with pytest.raises(HubOffline) as caught:
        Hub(offline=lambda: name is None).search("model")
    assert (name or "downloads.offline") in sentence(caught.value)
    assert hub.requests == []


def test_a_proxy_is_used_and_named_when_it_fails(
    hub: LocalHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add(REPO, {})
    monkeypatch.setenv("HTTP_PROXY", "http://me:secret@127.0.0.1:9")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:8")  # for others
    monkeypatch.setenv("NO_PROXY", "")
    with pytest.raises(HubUnreachable) as caught:
        client().repo(REPO)
    assert "The proxy in use is http://127.0.0.1:9." in sentence(caught.value)
    assert "secret" not in sentence(caught.value)
    assert hub.requests == []
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    assert client().repo(REPO).name == REPO
