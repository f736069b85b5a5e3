"""Models over HTTP: a real server, a local hub, and downloads that outlive the server."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from engine.api.client import EngineError
from engine.api.engine import LoadRequest
from engine.api.models import JobInfo, JobList
from engine.api.models_client import ModelsClient
from tests.support.hub import LocalHub
from tests.support.running_server import RunningServer, running_server
from tests.support.tiny_models import tiny_model

REPO = "somebody/Tiny-GGUF"
SMALL = tiny_model("llama", blocks=2, weight_type="Q8_0", context=512).encode()
LARGE = tiny_model("llama", blocks=4, width=256, ffn=1024, weight_type="F16").encode()

Serve = Callable[[], AbstractContextManager[RunningServer]]


@pytest.fixture
def hub() -> Generator[LocalHub]:
    with LocalHub() as hub:
        hub.add(REPO, {"Tiny-Q8_0.gguf": SMALL, "Tiny-F16.gguf": LARGE})
        yield hub


@pytest.fixture
def serve(hub: LocalHub, tmp_path: Path) -> Serve:
    environment = {"HF_ENDPOINT": hub.url, "HF_TOKEN": "", "NO_PROXY": "*"}
    return lambda: running_server(tmp_path / "home", environment=environment)


def client_of(server: RunningServer) -> ModelsClient:
    return ModelsClient(server.url, server.token)


def follow(client: ModelsClient, job_id: str) -> list[JobInfo]:
    """What the stream says of a job, until it has ended."""
    told: list[JobInfo] = []
    with client.job_events() as events:
        for event in events:
            assert isinstance(event, JobList)
            told += [job for job in event.jobs if job.id == job_id]
            if told and told[-1].state not in ("queued", "running"):
                break
    assert told[-1].state == "done", told[-1].failure
    return told


def test_a_model_is_found_pulled_paired_verified_loaded_and_removed(
    serve: Serve, hub: LocalHub, tmp_path: Path
) -> None:
    with serve() as server, client_of(server) as client:
        assert [one.repo for one in client.search("tiny").repos] == [REPO]
        listing = client.search(f"{REPO}:Q8_0").listing
        assert listing is not None and listing.variants[0].fit is not None
        assert listing.variants[0].fit.verdict == "fits"
        hub.fail("Tiny-Q8_0.gguf", drip_s=0.003)
        (job,) = client.pull(f"{REPO}:Q8_0").jobs
        told = follow(client, job.id)
        assert any(0 < one.progress.done < len(SMALL) for one in told), "progress is told"
        entry = next(one for one in client.library().entries if one.origin.repo == REPO)
        assert (entry.state, entry.verification) == ("ready", "verified")
        assert client.offers(entry.id).offers[-1].way == "build"
        follow(client, client.build(entry.id).id)
        entry = next(one for one in client.library().entries if one.id == entry.id)
        assert entry.prefiller is not None and entry.prefiller.verdict == "matched_by_hash"
        follow(client, client.verify(entry.id).id)
        follow(client, client.export(entry.id, str(tmp_path / "out")).id)
        assert (tmp_path / "out" / entry.path.name).read_bytes() == SMALL
        client.load(LoadRequest(model=str(entry.path)))
        assert client.remove(entry.id).goes == (entry.path,)
        with pytest.raises(EngineError, match="in_use"):
            client.remove(entry.id, confirm=True)
        client.unload()
        client.remove(entry.id, confirm=True)
        assert not entry.path.exists()
        assert all(one.id != entry.id for one in client.library().entries)
        follow(client, client.move_library(str(tmp_path / "elsewhere")).id)
        assert [one.path for one in client.library().folders] == [tmp_path / "elsewhere"]


def test_what_fits_this_machine_is_recommended(serve: Serve, hub: LocalHub) -> None:
    hub.add("Qwen/Qwen3-0.6B-GGUF", {"Qwen3-0.6B-Q8_0.gguf": SMALL})
    with serve() as server, client_of(server) as client:
        best = client.recommended().best
    assert best is not None and best.pull == "Qwen/Qwen3-0.6B-GGUF:Q8_0"
    assert best.variant.fit is not None and best.variant.fit.verdict == "fits"
    assert best.bytes == len(SMALL)


def test_a_download_goes_on_after_the_server_was_killed(serve: Serve, hub: LocalHub) -> None:
    hub.fail("Tiny-F16.gguf", drip_s=0.005)
    with serve() as server, client_of(server) as client:
        (job,) = client.pull(f"{REPO}:F16").jobs
        with client.job_events() as events:
            for event in events:
                if event.jobs[0].progress.done > 100_000:
                    break
        server.process.kill()
        server.process.wait()
    with serve() as server, client_of(server) as client:
        follow(client, job.id)
        (entry,) = (one for one in client.library().entries if one.origin.repo == REPO)
        assert entry.path.read_bytes() == LARGE
    starts = [one.start for one in hub.served]
    assert min(starts[-1:]) > 0, "it was resumed"


def test_refusals_have_sentences_and_paths_must_be_whole(serve: Serve) -> None:
    with serve() as server, client_of(server) as client:
        for act, code in (
            (lambda: client.pull("nobody/nothing"), "hub.repo_not_found"),
            (lambda: client.pull(REPO), "hub.variant_needed"),
            (lambda: client.verify("nothing"), "models.no_such_model"),
            (lambda: client.change_job("nothing", "pause"), "jobs.no_such_job"),
            (lambda: client.import_model("relative.gguf"), "request.invalid"),
            (lambda: client.import_model("/nowhere/x.gguf"), "models.unreadable"),
            (lambda: client.move_library("/proc/nowhere"), "models.folder_unusable"),
        ):
            with pytest.raises(EngineError) as caught:
                act()
            assert caught.value.code == code
            assert caught.value.failure.sentence.endswith(".")
