"""Jobs that need no network: built, verified, imported, moved, and stopped within a second."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from engine.downloads.errors import NoSuchJob, WrongState
from engine.downloads.jobs import Build, Export, Import, Move, Verify
from engine.prefiller.formats import open_prefiller
from tests.support.downloading import Downloading
from tests.support.hub import LocalHub
from tests.support.published_models import write_sparse
from tests.support.tiny_models import tiny_model, write_tiny

Make = Callable[..., Downloading]


def test_a_prefiller_is_built_as_a_job_and_knows_its_source(downloading: Downloading) -> None:
    decoder = write_tiny(downloading.main / "d-Q4_0.gguf", "llama", blocks=2, weight_type="Q4_0")
    source = write_tiny(downloading.folder / "s.gguf", "llama", blocks=2, weight_type="F16")
    out = downloading.main / "built" / "d-Q4_0.prefiller.gguf"
    job = downloading.queue.add(Build(decoder=decoder, source=source, out=out), "build")
    job = downloading.run(job)[0]
    assert (job.state, job.failure, job.result) == ("done", None, str(out))
    assert job.progress.done == job.progress.total > 0
    assert open_prefiller(out).decoder_hash
    entry = downloading.library.find("d-Q4_0.prefiller")
    assert (entry.origin.way, entry.origin.source) == ("build", str(source))


def test_what_cannot_be_built_says_why(downloading: Downloading) -> None:
    decoder = write_tiny(downloading.main / "d.gguf", "llama", blocks=2)
    source = write_tiny(downloading.folder / "s.gguf", "llama", blocks=1)
    out = downloading.main / "p.gguf"
    job = downloading.queue.add(Build(decoder=decoder, source=source, out=out), "build")
    job = downloading.run(job)[0]
    assert job.failure is not None and job.failure.code.startswith("prefiller.")
    assert not out.exists()


@pytest.fixture
def one_core() -> Generator[None]:
    """For this thread and what it starts: so that work takes long on large machines too."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    yield
    os.sched_setaffinity(0, cores)


@pytest.mark.usefixtures("one_core")
def test_a_build_is_cancelled_in_its_middle_within_a_second_and_leaves_nothing(
    downloading: Downloading,
) -> None:
    decoder = write_sparse(downloading.main / "d.gguf", "qwen3", "4b", "Q8_0")
    out = downloading.main / "p.gguf"
    job = downloading.queue.add(Build(decoder=decoder, source=None, out=out), "build")
    downloading.runner.start()
    downloading.wait(lambda: downloading.queue.get(job.id).progress.done > 0, 60)
    downloading.wait(lambda: len(list(downloading.main.iterdir())) > 1)  # what it writes to
    began = time.monotonic()
    downloading.queue.act(job.id, "cancel")
    downloading.runner.wake()
    downloading.wait(lambda: not downloading.runner.busy)
    assert time.monotonic() - began < 3.0  # a second, on a machine that has nothing else to do
    ended = downloading.queue.get(job.id)
    assert ended.state == "cancelled"
    assert 0 < ended.progress.done < ended.progress.total / 2
    assert [path.name for path in downloading.main.rglob("*")] == ["d.gguf"]


def test_local_jobs_run_one_by_one_beside_downloads_but_not_beside_a_move(
    hub: LocalHub, downloading: Downloading
) -> None:
    write_tiny(downloading.folder / "a.gguf", "llama", blocks=1)
    data = tiny_model("llama", blocks=1).encode()
    hub.add("x/y", {"m-Q4_0.gguf": data})
    queue, target = downloading.queue, downloading.folder / "out"
    done = downloading.run(
        queue.add(Import(path=downloading.folder / "a.gguf", way="copy"), "import"),
        downloading.order("x/y"),
    )
    assert [job.state for job in done] == ["done", "done"]
    entry = downloading.library.find("m-Q4_0")
    jobs = [
        queue.add(Verify(entry=entry.id), "verify"),
        queue.add(Export(entry=entry.id, folder=target), "export"),
        queue.add(Move(folder=downloading.folder / "new"), "move"),
    ]
    assert [job.state for job in downloading.run(*jobs)] == ["done", "done", "done"]
    assert (target / "m-Q4_0.gguf").read_bytes() == data
    assert downloading.main == downloading.folder / "new"
    assert downloading.library.find("m-Q4_0").verification == "verified"


def test_a_download_that_a_move_interrupts_goes_on_in_the_new_folder(
    hub: LocalHub, downloading: Downloading
) -> None:
    hub.add("x/y", {"m-Q4_0.gguf": b"xy" * 100_000})
    hub.fail("m-Q4_0.gguf", drip_s=0.01)
    job = downloading.order("x/y")
    downloading.runner.start()
    downloading.wait(lambda: any(downloading.files().values()))
    move = downloading.queue.add(Move(folder=downloading.folder / "new"), "move")
    downloading.runner.wake()
    downloading.wait(lambda: downloading.queue.get(move.id).state == "done")
    downloading.wait(lambda: downloading.queue.get(job.id).state == "done")
    assert downloading.files() == {"x/y/m-Q4_0.gguf": b"xy" * 100_000}
    assert hub.served[-1].start > 0


def test_impossible_changes_of_a_job_are_refused(hub: LocalHub, downloading: Downloading) -> None:
    hub.add("x/y", {"m-Q4_0.gguf": b"x"})
    job = downloading.pull("x/y")
    with pytest.raises(WrongState):
        downloading.queue.act(job.id, "pause")
    downloading.queue.act(job.id, "remove")
    with pytest.raises(NoSuchJob):
        downloading.queue.get(job.id)


def test_the_queue_survives_a_database_that_cannot_be_written_for_a_while(
    hub: LocalHub, downloading: Downloading, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.library.errors import WriteFailed

    hub.add("x/y", {"m-Q4_0.gguf": b"x" * 1000})
    job = downloading.order("x/y")
    finish, refused = downloading.queue.finish, 0

    def failing(job_id: str, result: str | None) -> None:
        nonlocal refused
        refused += 1
        if refused == 1:
            raise WriteFailed(path="models.sqlite", reason="database or disk is full")
        finish(job_id, result)

    monkeypatch.setattr(downloading.queue, "finish", failing)
    assert downloading.run(job)[0].state == "done"
    assert refused == 2
    assert Path(str(downloading.queue.get(job.id).result)).read_bytes() == b"x" * 1000
