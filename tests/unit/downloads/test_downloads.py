"""Downloads end with every file whole, verified and in the library, or with nothing there."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.downloading import Downloading
from tests.support.hub import LocalHub

Make = Callable[..., Downloading]

REPO, FILE = "somebody/Model-GGUF", "Model-Q4_0.gguf"
DATA = random.Random(0).randbytes(300_000)


def test_a_download_arrives_verified_and_under_its_name(
    hub: LocalHub, downloading: Downloading
) -> None:
    hub.add(REPO, {FILE: DATA, "README.md": b"text"})
    job = downloading.pull(f"{REPO}:Q4_0")
    assert (job.state, job.failure) == ("done", None)
    assert downloading.files() == {f"{REPO}/{FILE}": DATA}
    known = downloading.library.origins.of(downloading.main / REPO / FILE)
    assert known is not None and known.verified_at and known.origin.repo == REPO
    assert job.result == str(downloading.main / REPO / FILE)


def test_the_content_network_gets_no_token(hub: LocalHub, make: Make) -> None:
    # The content server asserts it; a failed assertion there would end the download.
    hub.add(REPO, {FILE: DATA}, gated=True)
    assert make(token=hub.token).pull(REPO).state == "done"


@pytest.mark.parametrize(
    "fault",
    [
        {"cut_after": 1},
        {"cut_after": 123_457, "times": 3},
        {"cut_after": 299_999},
        {"stall_after": 0, "stall_s": 5},
        {"stall_after": 70_001, "stall_s": 5},
        {"expired": True, "times": 4},
        {"ignore_range": True},
        {"wrong_range": True},
        {"length": 1000},
        {"length": 999_999},
        {"status": 503},
        {"status": 500, "times": 3},
        {"status": 429, "headers": {"Retry-After": "0"}},
    ],
    ids=str,
)
def test_a_passing_fault_delays_and_nothing_more(
    hub: LocalHub, downloading: Downloading, fault: dict[str, object]
) -> None:
    hub.add(REPO, {FILE: DATA})
    hub.fail(FILE, **fault)
    job = downloading.pull(REPO)
    assert (job.state, job.failure) == ("done", None)
    assert downloading.files() == {f"{REPO}/{FILE}": DATA}


def test_a_cut_connection_resumes_where_it_ended(hub: LocalHub, downloading: Downloading) -> None:
    hub.add(REPO, {FILE: DATA})
    hub.fail(FILE, cut_after=100_000)
    assert downloading.pull(REPO).state == "done"
    first, second = (one for one in hub.served if one.path == FILE)
    assert first.start == 0
    assert second.start > 0
    assert second.start + second.sent == len(DATA)


def test_a_connection_that_drips_is_given_up_for_a_better_one(
    hub: LocalHub, downloading: Downloading
) -> None:
    hub.add(REPO, {FILE: DATA})
    hub.fail(FILE, drip_s=0.1)
    assert downloading.pull(REPO).state == "done"
    assert any(one.start > 0 for one in hub.served)


def test_wrong_bytes_are_fetched_again_once(hub: LocalHub, downloading: Downloading) -> None:
    hub.add(REPO, {FILE: DATA})
    hub.fail(FILE, flip=4321)
    job = downloading.pull(REPO)
    assert job.state == "done"
    (notice,) = job.notices
    assert notice.sentence == f"{FILE} came with wrong bytes and was fetched again."
    assert (notice.code, notice.data) == ("fetched_again", {"file": FILE})
    assert downloading.files() == {f"{REPO}/{FILE}": DATA}


def test_wrong_bytes_twice_are_explained_and_never_look_usable(
    hub: LocalHub, downloading: Downloading
) -> None:
    hub.add(REPO, {FILE: DATA})
    hub.fail(FILE, flip=4321, times=2)
    job = downloading.pull(REPO)
    assert job.state == "failed"
    assert job.failure is not None and job.failure.code == "download.wrong_bytes"
    assert "twice" in job.failure.sentence
    assert [name for name in downloading.files() if not name.startswith(".incoming/")] == []
    assert downloading.library.entries()[0].state != "ready" or all(
        entry.origin.way == "demo" for entry in downloading.library.entries()
    )
    downloading.queue.act(job.id, "retry")  # on another network
    assert downloading.run(job)[0].state == "done"
    assert downloading.files() == {f"{REPO}/{FILE}": DATA}


@pytest.mark.parametrize("fault", [{"extra": b"more", "length": 300_004}, {"status": 502}])
def test_a_lasting_fault_ends_with_a_sentence_and_what_came_is_kept(
    hub: LocalHub, downloading: Downloading, fault: dict[str, object]
) -> None:
    hub.add(REPO, {FILE: DATA})
    hub.fail(FILE, times=1000, **fault)
    job = downloading.pull(REPO)
    assert job.state == "failed"
    assert job.failure is not None
    assert job.failure.code in ("download.wrong_length", "download.gave_up")
    hub.faults.clear()
    downloading.queue.act(job.id, "resume")
    assert downloading.run(job)[0].state == "done"


def test_a_download_that_gave_up_goes_on_by_itself_when_the_network_is_back(
    hub: LocalHub, make: Make
) -> None:
    downloading = make(attempts=1, again_s=0.5)
    hub.add(REPO, {FILE: DATA})
    hub.fail(FILE, cut_after=150_000)
    hub.fail(FILE, times=1000, cut_after=0)
    job = downloading.pull(REPO)
    assert job.failure is not None and job.failure.code == "download.gave_up"
    assert "by itself" in job.failure.sentence
    assert job.info().retry_at is not None
    assert (job.progress.step, job.progress.rate) == (None, None)
    hub.faults.clear()  # nobody touches the queue
    downloading.runner.start()
    downloading.wait(lambda: downloading.queue.get(job.id).state == "done")
    assert downloading.files() == {f"{REPO}/{FILE}": DATA}
    assert hub.served[-1].start > 0
    assert downloading.queue.get(job.id).failure is None


def test_it_is_tried_again_ever_more_rarely_until_something_comes(
    hub: LocalHub, make: Make
) -> None:
    downloading = make(attempts=1, again_s=100.0, longest_again_s=300.0)
    hub.add(REPO, {FILE: DATA})
    hub.fail(FILE, times=1000, status=503)

    def waits() -> float:
        began = time.time()
        job = downloading.run(downloading.queue.jobs()[0])[0]
        assert job.retry_at is not None
        downloading.queue.try_again(job)
        return round((job.retry_at - began) / 100)

    downloading.order(REPO)
    assert [waits() for _ in range(4)] == [1, 2, 3, 3]
    hub.faults.clear()
    hub.fail(FILE, cut_after=150_000)
    hub.fail(FILE, times=1000, cut_after=0)
    assert waits() == 1


def test_what_no_waiting_mends_is_not_tried_again(hub: LocalHub, make: Make) -> None:
    downloading = make(again_s=0.0)
    hub.add(REPO, {FILE: DATA}, gated=True)
    job = downloading.pull(REPO)
    assert (job.state, job.retry_at) == ("failed", None)


def test_a_failed_download_that_is_paused_or_cancelled_stays_so(hub: LocalHub, make: Make) -> None:
    downloading = make(attempts=1, again_s=0.0)
    hub.add(REPO, {FILE: DATA})
    hub.fail(FILE, times=1000, status=503)
    job = downloading.pull(REPO)
    assert job.retry_at is not None
    assert downloading.queue.act(job.id, "pause").retry_at is None
    downloading.runner.start()
    other = downloading.order(REPO)
    hub.faults.clear()
    downloading.wait(lambda: downloading.queue.get(other.id).state == "done")
    assert downloading.queue.get(job.id).state == "paused"
    assert downloading.queue.act(job.id, "cancel").state == "cancelled"


def test_offline_mode_holds_downloads_until_it_ends(
    hub: LocalHub, downloading: Downloading, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add(REPO, {FILE: DATA})
    job = downloading.order(REPO)
    asked = len(hub.requests)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    job = downloading.run(job)[0]
    assert job.failure is not None and job.failure.code == "hub.offline"
    downloading.runner.start()
    time.sleep(0.5)
    assert (downloading.queue.get(job.id).state, len(hub.requests)) == ("failed", asked)
    monkeypatch.delenv("HF_HUB_OFFLINE")
    downloading.wait(lambda: downloading.queue.get(job.id).state == "done")


def test_all_parts_come_or_none_is_seen(hub: LocalHub, make: Make) -> None:
    downloading = make(parallel=1)
    names = [f"Q4_0/Model-Q4_0-{no:05d}-of-00005.gguf" for no in range(1, 6)]
    hub.add(REPO, {name: DATA[no:] for no, name in enumerate(names)})
    hub.fail(names[3], flip=5, times=2)
    job = downloading.pull(f"{REPO}:Q4_0")
    assert job.state == "failed"
    assert [name for name in downloading.files() if not name.startswith(".incoming/")] == []
    downloading.queue.act(job.id, "retry")
    assert downloading.run(job)[0].state == "done"
    assert sorted(downloading.files()) == [f"{REPO}/{name}" for name in names]
    # Only the wrong one was fetched again.
    for name in (*names[:3], names[4]):
        assert hub.sent_bytes(name) == len(hub.repos[REPO].files[name])


def test_what_is_there_is_not_fetched_again(hub: LocalHub, downloading: Downloading) -> None:
    hub.add(REPO, {FILE: DATA})
    assert downloading.pull(REPO).state == "done"
    sent = hub.sent_bytes(FILE)
    assert downloading.pull(REPO).state == "done"
    hub.add("other/Copy-GGUF", {"Copy-Q4_0.gguf": DATA})
    assert downloading.pull("other/Copy-GGUF").state == "done"
    assert hub.sent_bytes(FILE) == sent
    assert hub.sent_bytes("Copy-Q4_0.gguf") == 0
    assert downloading.files()["other/Copy-GGUF/Copy-Q4_0.gguf"] == DATA


def test_the_users_own_file_is_never_overwritten(hub: LocalHub, downloading: Downloading) -> None:
    hub.add(REPO, {FILE: DATA})
    own = downloading.main / REPO / FILE
    own.parent.mkdir(parents=True)
    own.write_bytes(b"mine")
    job = downloading.pull(REPO)
    assert job.failure is not None and job.failure.code == "models.name_taken"
    assert own.read_bytes() == b"mine"


def test_the_same_file_put_there_by_hand_is_taken_as_it_is(
    hub: LocalHub, downloading: Downloading
) -> None:
    hub.add(REPO, {FILE: DATA})
    own = downloading.main / REPO / FILE
    own.parent.mkdir(parents=True)
    own.write_bytes(DATA)
    assert downloading.pull(REPO).state == "done"
    assert hub.sent_bytes(FILE) == 0


def test_a_newer_version_replaces_the_older_when_it_is_whole(
    hub: LocalHub, downloading: Downloading
) -> None:
    hub.add(REPO, {FILE: DATA})
    assert downloading.pull(REPO).state == "done"
    newer = DATA[::-1]
    hub.add(REPO, {FILE: newer})
    hub.fail(FILE, flip=1, times=2)
    assert downloading.pull(REPO).state == "failed"
    assert downloading.files()[f"{REPO}/{FILE}"] == DATA
    job = downloading.queue.jobs()[-1]
    downloading.queue.act(job.id, "cancel")
    assert downloading.pull(REPO).state == "done"
    assert downloading.files() == {f"{REPO}/{FILE}": newer}


def test_a_file_that_changes_on_the_hub_meanwhile_is_noticed_and_fetched_anew(
    hub: LocalHub, downloading: Downloading
) -> None:
    hub.add(REPO, {FILE: DATA})
    job = downloading.order(REPO)
    newer = hub.add(REPO, {FILE: DATA[::-1]})  # its history rewritten: the commit is gone
    job = downloading.run(job)[0]
    assert job.state == "done"
    assert "changed on the hub" in job.notices[0].sentence
    assert downloading.files() == {f"{REPO}/{FILE}": newer.files[FILE]}


def test_another_content_under_the_same_commit_is_told_by_its_etag(
    hub: LocalHub, downloading: Downloading
) -> None:
    hub.add(REPO, {FILE: DATA})
    job = downloading.order(REPO)
    hub.repos[REPO].files[FILE] = DATA[::-1]  # a mirror that does not keep commits
    job = downloading.run(job)[0]
    assert job.state == "done"
    assert "changed on the hub" in job.notices[0].sentence
    assert downloading.files() == {f"{REPO}/{FILE}": DATA[::-1]}


def test_a_full_disk_stops_before_it_is_full_and_goes_on_when_there_is_room(
    hub: LocalHub, make: Make
) -> None:
    free = 10**9

    def look(folder: Path) -> int:
        del folder
        return free

    downloading = make(free=look, margin=1000, parallel=1)
    hub.add(REPO, {FILE: DATA})
    free = 300_999
    job = downloading.pull(REPO)
    assert job.failure is not None and job.failure.code == "download.disk_full"
    assert hub.sent_bytes(FILE) == 0, "looked at first"
    free = 301_000

    def shrinking(path: str) -> None:
        nonlocal free
        del path
        free = 999  # another program took the rest while the bytes came

    hub.chance = shrinking
    downloading.queue.act(job.id, "resume")
    job = downloading.run(job)[0]
    assert job.failure is not None and job.failure.code == "download.disk_full"
    hub.chance = lambda _: None
    free = 10**9
    downloading.queue.act(job.id, "resume")
    assert downloading.run(job)[0].state == "done"
    assert downloading.files() == {f"{REPO}/{FILE}": DATA}


def test_pausing_keeps_and_cancelling_removes(hub: LocalHub, downloading: Downloading) -> None:
    hub.add(REPO, {FILE: DATA})
    hub.fail(FILE, drip_s=0.02, times=2)
    downloading.runner.start()
    job = downloading.order(REPO)
    downloading.runner.wake()
    downloading.wait(lambda: any(downloading.files().values()))
    downloading.queue.act(job.id, "pause")
    downloading.runner.wake()
    downloading.wait(lambda: not downloading.runner.busy)
    kept = sum(map(len, downloading.files().values()))
    assert 0 < kept < len(DATA)
    downloading.queue.act(job.id, "resume")
    downloading.wait(lambda: sum(map(len, downloading.files().values())) > kept)
    downloading.queue.act(job.id, "cancel")
    downloading.runner.wake()
    downloading.wait(lambda: downloading.files() == {})
    assert downloading.queue.get(job.id).state == "cancelled"


def test_priorities_decide_and_may_be_changed_while_it_runs(hub: LocalHub, make: Make) -> None:
    downloading = make(parallel=1)
    for name in "abc":
        hub.add(f"x/{name}", {f"{name}-Q4_0.gguf": DATA + name.encode()})
    low = downloading.order("x/a", priority=-1)
    middle = downloading.order("x/b")
    high = downloading.order("x/c", priority=5)
    downloading.queue.set_priority(low.id, 9)
    downloading.run(low, middle, high)
    assert [one.path[0] for one in hub.served] == ["a", "c", "b"]


def test_another_process_takes_up_what_one_left(hub: LocalHub, make: Make) -> None:
    hub.add(REPO, {FILE: DATA})
    hub.fail(FILE, drip_s=0.02)
    first = make()
    job = first.order(REPO)
    first.runner.start()
    first.wait(lambda: any(first.files().values()))
    first.close()
    second = make()
    assert second.queue.get(job.id).state == "queued"
    assert second.run(job)[0].state == "done"
    assert hub.served[1].start > 0


def test_what_a_dead_process_was_at_is_not_shown_as_running(hub: LocalHub, make: Make) -> None:
    hub.add(REPO, {FILE: DATA})
    program, other = make(), make()
    job = program.order(REPO)
    assert program.queue.claim(job.id)  # and died
    other.runner.tidy()
    assert other.queue.get(job.id).state == "queued"
    hub.fail(FILE, drip_s=0.01)
    program.runner.start()
    program.wait(lambda: program.queue.get(job.id).progress.done > 0)
    other.runner.tidy()
    assert other.queue.get(job.id).state == "running"


def test_a_queue_that_an_earlier_version_left_is_worked_off(hub: LocalHub, make: Make) -> None:
    hub.add(REPO, {FILE: DATA})
    old = make()
    job = old.order(REPO)
    (text,) = old.library.database.rows("SELECT work FROM jobs")[0]
    work = json.loads(text)
    known = ("kind", "repo", "revision", "commit", "variants", "files", "origin")
    first = {name: work[name] for name in known}  # as version 0.1.0 wrote it
    old.library.database.run(
        "UPDATE jobs SET work = ?, progress = ?", (json.dumps(first), '{"done": 0, "total": 9}')
    )
    old.close()
    new = make()
    assert new.run(job)[0].state == "done"
    assert new.files() == {f"{REPO}/{FILE}": DATA}


def test_several_downloads_run_at_once_and_the_others_wait(hub: LocalHub, make: Make) -> None:
    downloading = make(parallel=2)
    names = "abc"
    for name in names:
        hub.add(f"x/{name}", {f"{name}-Q4_0.gguf": DATA + name.encode()})
        hub.fail(f"{name}-Q4_0.gguf", drip_s=0.005)
    jobs = [downloading.order(f"x/{name}") for name in names]
    downloading.runner.start()

    def done() -> list[bool]:
        return [downloading.queue.get(job.id).progress.done > 0 for job in jobs]

    downloading.wait(lambda: done()[:2] == [True, True])
    states = [downloading.queue.get(job.id).state for job in jobs]
    assert states == ["running", "running", "queued"]
    downloading.wait(lambda: all(downloading.queue.get(job.id).state == "done" for job in jobs))


def test_only_one_process_works_the_queue(hub: LocalHub, make: Make) -> None:
    hub.add(REPO, {FILE: DATA})
    first, second = make(), make()
    first.runner.start()
    second.runner.start()
    jobs = [first.order(REPO), second.order(REPO)]
    first.wait(lambda: all(first.queue.get(job.id).state == "done" for job in jobs))
    assert hub.sent_bytes(FILE) == len(DATA)


def test_a_bandwidth_limit_holds_for_all_downloads_together(hub: LocalHub, make: Make) -> None:
    downloading = make(bandwidth_mb=0.5)
    for name in "ab":
        hub.add(f"x/{name}", {f"{name}-Q4_0.gguf": DATA + name.encode()})
    jobs = [downloading.order("x/a"), downloading.order("x/b")]
    began = time.monotonic()
    assert [job.state for job in downloading.run(*jobs)] == ["done", "done"]
    assert time.monotonic() - began > 0.9 * (2 * len(DATA) / (0.5 * 1_000_000) - 0.25)


def test_a_file_larger_than_one_request_may_ask_for_comes_in_ranges(
    hub: LocalHub, make: Make
) -> None:
    downloading = make(range_bytes=65_536)
    hub.add(REPO, {FILE: DATA})
    assert downloading.pull(REPO).state == "done"
    assert [one.start for one in hub.served] == [0, 65_536, 131_072, 196_608, 262_144]
    assert downloading.files() == {f"{REPO}/{FILE}": DATA}


def test_a_projector_comes_along_unless_it_is_not_wanted(
    hub: LocalHub, downloading: Downloading
) -> None:
    hub.add(REPO, {FILE: DATA, "mmproj-F16.gguf": DATA[:1000], "mmproj-F32.gguf": DATA[:2000]})
    assert downloading.pull(f"{REPO}:Q4_0", projector=False).state == "done"
    assert sorted(downloading.files()) == [f"{REPO}/{FILE}"]
    assert downloading.pull(f"{REPO}:Q4_0").state == "done"
    assert sorted(downloading.files()) == [f"{REPO}/{FILE}", f"{REPO}/mmproj-F16.gguf"]
    assert hub.sent_bytes(FILE) == len(DATA)
