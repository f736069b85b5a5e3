"""Models, what the hub answers, and a queue of work, for the screenshots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.api.failure import Failure
from engine.api.models import (
    AttachedPrefiller,
    AttachedProjector,
    Fit,
    JobInfo,
    LibraryAnswer,
    LibraryFolder,
    ModelEntry,
    ModelFile,
    Offers,
    Origin,
    PairingVerdict,
    PrefillerOffer,
    Progress,
    Recommendation,
    Recommended,
    Removal,
    RepoListing,
    RepoSummary,
    SearchAnswer,
    Variant,
    VariantFile,
)
from engine.api.plan import Remark

GB = 1_000_000_000
FOLDER = Path("/home/ada/.local/share/twofold/models")
REPO = "unsloth/Qwen3.8-27B-GGUF"
PREFILLERS = "ISTA-DASLab/Qwen3.8-27B-NVFP4-prefiller"
OFFLINE = Failure(
    code="hub.unreachable",
    sentence="https://huggingface.co cannot be reached: [Errno -2] Name or service not known. "
    "Check the network, the proxy (HTTPS_PROXY) and the mirror (HF_ENDPOINT).",
    data={
        "endpoint": "https://huggingface.co",
        "reason": "[Errno -2] Name or service not known",
        "hint": "",
    },
)


def _trained() -> PrefillerOffer:
    return PrefillerOffer(
        way="published",
        repo=PREFILLERS,
        variant="IQ2_XXS",
        bytes=round(13.7 * GB),
        expect="Trained for this decoder.",
        scores={"MMLU-Pro": (70.5, 77.93), "MMMU-Pro": (59.6, 65.9)},
    )


def _variant(label: str, size: float, fit: Fit | None = None, **facts: Any) -> Variant:
    path = f"Qwen3.8-27B-{label}.gguf"
    return Variant(
        name=facts.pop("name", path.removesuffix(".gguf")),
        kind=facts.pop("kind", "decoder"),
        label=label,
        files=(VariantFile(path=path, bytes=round(size * GB), sha256="0" * 64),),
        bytes=round(size * GB),
        fit=fit,
        **facts,
    )


def _fits(**facts: Any) -> Fit:
    return Fit(
        verdict="fits", sentence="It fits.", device="CUDA0", blocks=64, device_blocks=64,
        context=16_384, **facts,
    )  # fmt: skip


def recommended() -> Recommended:
    return Recommended(
        best=Recommendation(
            pull=f"{REPO}:IQ2_XXS",
            name="Qwen3.8-27B",
            variant=_variant("IQ2_XXS", 8.9, _fits(decode_tps=31.4)),
            licence="apache-2.0",
            prefiller=_trained(),
        )
    )


def found() -> SearchAnswer:
    return SearchAnswer(
        query="qwen",
        repos=(
            RepoSummary(
                repo=REPO, downloads=1_204_311, updated="2026-11-02", licence="apache-2.0",
            ),
            RepoSummary(
                repo="somebody-with-a-long-name/Qwen3.8-27B-Instruct-Abliterated-and-Merged-GGUF",
                downloads=8_112, updated="2026-10-11", licence="other", gated=True,
            ),
            RepoSummary(repo="Qwen/Qwen3-8B-GGUF", downloads=402_118, updated="2025-05-21"),
        ),
    )  # fmt: skip


def listing() -> SearchAnswer:
    partly = Fit(
        verdict="partly", sentence="Partly.", estimated=True, device="CUDA0", blocks=64,
        device_blocks=52, context=8192,
    )  # fmt: skip
    large = Fit(
        verdict="too_large", sentence="Too large.", estimated=True, missing=round(31.4 * GB)
    )
    return SearchAnswer(
        query=REPO,
        listing=RepoListing(
            repo=REPO,
            commit="0" * 40,
            gated=False,
            licence="apache-2.0",
            variants=(
                _variant("IQ1_S", 7.2, _fits(estimated=True)),
                _variant("IQ2_XXS", 8.9, _fits(), installed=True),
                _variant("Q4_K_M", 16.8, _fits(estimated=True), recommended=True),
                _variant("Q8_0", 29.1, partly),
                _variant("BF16", 54.7, large, complete=False),
                _variant("F16", 0.9, kind="projector", name="mmproj-F16"),
            ),
            refused=("../../autostart.gguf",),
            prefillers={"Qwen3.8-27B-IQ1_S": (_trained(),), "Qwen3.8-27B-IQ2_XXS": (_trained(),)},
        ),
    )


def _entry(name: str, size: float, **facts: Any) -> ModelEntry:
    path = FOLDER / facts.pop("folder", REPO) / f"{name}.gguf"
    values: dict[str, Any] = {
        "id": f"{abs(hash(name)):012x}"[:12],
        "kind": "decoder",
        "state": "ready",
        "name": name,
        "path": path,
        "files": (ModelFile(path=path, bytes=round(size * GB)),),
        "bytes": round(size * GB),
        "architecture": "qwen35",
        "licence": "apache-2.0",
        "origin": Origin(way="download", repo=REPO),
        "verification": "verified",
        "verified_at": "2026-11-24T09:12:00Z",
        **facts,
    }
    return ModelEntry.model_validate(values)


def library() -> LibraryAnswer:
    decoder_prefiller = _entry(
        "Qwen3.8-27B-NVFP4-prefiller-IQ2_XXS", 13.7, kind="prefiller", folder=PREFILLERS,
        origin=Origin(way="download", repo=PREFILLERS),
    )  # fmt: skip
    other = _entry("Qwen3.8-27B-NVFP4-prefiller-IQ1_S", 13.7, kind="prefiller", folder=PREFILLERS)
    name = Remark(code="name", sentence="It is for it.", data={"label": "IQ2_XXS"})
    facts = {"theirs": "IQ1_S", "ours": "IQ2_XXS"}
    label = Remark(code="label", sentence="It is for another.", data=facts)
    verdicts: list[tuple[ModelEntry, PairingVerdict, tuple[Remark, ...]]] = [
        (decoder_prefiller, "matched_by_name", (name,)),
        (other, "wrong", (label,)),
    ]
    attached = tuple(
        AttachedPrefiller(
            id=one.id, path=one.path, bytes=one.bytes, verdict=verdict, reasons=reasons,
            choosable=verdict == "matched_by_name",
        )
        for one, verdict, reasons in verdicts
    )  # fmt: skip
    projector = AttachedProjector(
        path=FOLDER / REPO / "mmproj-F16.gguf", bytes=927_000_000, fits=True, reason="same width"
    )
    return LibraryAnswer(
        folders=(
            LibraryFolder(path=FOLDER, main=True, online=True, writable=True, free=442 * GB),
            LibraryFolder(
                path=Path("/media/ada/Models"), main=False, online=False, writable=False, free=None
            ),
        ),
        entries=(
            _entry(
                "Qwen3.8-27B-IQ2_XXS", 8.9, quantisation="IQ2_XXS", context=262_144,
                parameters=27_400_000_000, prefillers=attached, projectors=(projector,),
            ),
            _entry(
                "Llama-4-Scout-17B-Q4_K_M", 61.2, quantisation="Q4_K_M", architecture="llama4",
                state="offline", verification="not_verified", verified_at=None,
                folder="/media/ada/Models",
                failure=Failure(
                    code="models.offline", sentence="Its drive is not connected.",
                    data={"path": "/media/ada/Models/Llama-4-Scout-17B-Q4_K_M.gguf"},
                ),
            ),
            _entry(
                "Qwen3-8B-Q4_K_M", 5.0, quantisation="Q4_K_M", architecture="qwen3",
                origin=Origin(way="reference", source="/home/ada/Downloads/Qwen3-8B-Q4_K_M.gguf"),
                verification="not_verified", verified_at=None,
            ),
            _entry(
                "SmolLM2 135M Instruct (demo)", 0.1, quantisation="Q4_1", architecture="llama",
                origin=Origin(way="demo"), verification="not_verified", verified_at=None,
            ),
            decoder_prefiller,
            other,
            _entry("gemma-4-12b-prefiller", 6.1, kind="prefiller", architecture="gemma4"),
        ),
    )  # fmt: skip


def empty_library() -> LibraryAnswer:
    full = library()
    demo = tuple(entry for entry in full.entries if entry.origin.way == "demo")
    return full.model_copy(update={"folders": full.folders[:1], "entries": demo})


def removal() -> Removal:
    entry = library().entries[0]
    return Removal(
        id=entry.id,
        name=entry.name,
        goes=(entry.path,),
        stays=(FOLDER / REPO / "mmproj-F16.gguf",),
        shared={str(FOLDER / REPO / "mmproj-F16.gguf"): ("Qwen3.8-27B-IQ1_S",)},
        bytes=entry.bytes,
        left_behind=(str(entry.prefillers[0].path),),
    )


def offers() -> Offers:
    return Offers(offers=(PrefillerOffer(way="build", expect="It helps less."),))


def _job(key: str, title: str, **facts: Any) -> JobInfo:
    values: dict[str, Any] = {
        "id": key, "kind": "download", "title": title, "state": "running", "priority": 0,
        "created": 1.0, **facts,
    }  # fmt: skip
    return JobInfo.model_validate(values)


def jobs() -> tuple[JobInfo, ...]:
    size = round(8.9 * GB)
    half = Progress(done=round(3.1 * GB), total=size, rate=52_400_000.0, remaining_s=111.0)
    checking = Progress(done=round(2.2 * GB), total=round(13.7 * GB), step="checking")
    full = Failure(
        code="download.disk_full", sentence="The disk is full.",
        data={"folder": str(FOLDER), "free": 900_000_000, "needed": 4_100_000_000},
    )  # fmt: skip
    return (
        _job("1", f"{REPO}:IQ2_XXS", progress=half),
        _job("2", f"{PREFILLERS}:IQ2_XXS", progress=checking),
        _job("3", "Qwen3-8B-Q4_K_M", kind="build", state="queued"),
        _job("4", "Qwen/Qwen3-4B-GGUF:Q4_K_M", state="paused",
             progress=Progress(done=GB, total=round(2.5 * GB))),
        _job("5", "Qwen/Qwen3-14B-GGUF:Q4_K_M", state="failed", failure=full,
             progress=Progress(done=5 * GB, total=9 * GB)),
        _job("6", "SmolLM2 135M Instruct (demo)", kind="verify", state="done",
             progress=Progress(done=10**8, total=10**8)),
        _job("7", "Qwen/Qwen3-8B-GGUF:Q4_K_M", state="done",
             notices=(Remark(code="fetched_again", sentence="It was fetched again.",
                             data={"file": "Qwen3-8B-Q4_K_M.gguf"}),),
             progress=Progress(done=5 * GB, total=5 * GB)),
    )  # fmt: skip


def answer(path: str, body: Any) -> Any:
    """What the engine would answer, or None."""
    route = path.removeprefix("/twofold/models")
    asks_for_repo = isinstance(body, dict) and "/" in str(body.get("query"))  # pyright: ignore
    made = {
        "": library,
        "/recommended": recommended,
        "/search": listing if asks_for_repo else found,
        "/offers": offers,
        "/remove": removal,
    }.get(route)
    return made().model_dump(mode="json") if made is not None else None
