"""Turns what a person asks for into a download: which files, and where they go."""

from __future__ import annotations

from engine.api.models import Origin, Variant
from engine.downloads.errors import NoHash, UnsafeName, VariantNeeded
from engine.downloads.hub import Hub, Repo
from engine.downloads.jobs import Download, WantedFile
from engine.downloads.reference import Reference, parse_reference
from engine.downloads.safe_names import is_safe_path
from engine.downloads.variants import choose, known_labels, projector_for, sort_files


def order(hub: Hub, text: str, *, projector: bool = True) -> tuple[Download, str]:
    """The download, and its title. Raises BadReference, NoVariant, VariantNeeded and the like,
    and what the hub refuses with."""
    reference = parse_reference(text, hub.endpoint)
    repo = hub.repo(reference.repo, reference.revision)
    return order_from(repo, reference, projector=projector)


def order_from(repo: Repo, reference: Reference, *, projector: bool = True) -> tuple[Download, str]:
    found = sort_files(repo.name, repo.files)
    if not found.variants and found.refused:
        raise UnsafeName(repo=repo.name, file=found.refused[0][:200])
    variant = choose(repo.name, found.variants, reference.wanted)
    chosen = [variant]
    eye = projector_for(found.variants) if projector and variant.kind == "decoder" else None
    if eye is not None:
        chosen.append(eye)
    label = variant.label or variant.name
    return _download(repo, reference.revision, chosen), f"{repo.name}:{label}"


def renew(hub: Hub, work: Download) -> Download:
    """The same models as the hub has them now. Raises VariantNeeded where they are gone."""
    repo = hub.repo(work.repo, work.revision)
    variants = {one.name: one for one in sort_files(repo.name, repo.files).variants}
    chosen = [variants[name] for name in work.variants if name in variants]
    if len(chosen) < len(work.variants):
        raise VariantNeeded(repo=repo.name, known=known_labels(list(variants.values())))
    return _download(repo, work.revision, chosen)


def _download(repo: Repo, revision: str | None, chosen: list[Variant]) -> Download:
    files: list[WantedFile] = []
    for file in (file for variant in chosen for file in variant.files):
        if file.sha256 is None:
            raise NoHash(repo=repo.name, file=file.path)
        target = f"{repo.name}/{file.path}"
        if not is_safe_path(target):
            raise UnsafeName(repo=repo.name, file=file.path[:200])
        wanted = WantedFile(path=file.path, bytes=file.bytes, sha256=file.sha256, target=target)
        files.append(wanted)
    return Download(
        repo=repo.name,
        revision=revision,
        commit=repo.commit,
        variants=tuple(variant.name for variant in chosen),
        files=tuple(files),
        origin=Origin(way="download", repo=repo.name, commit=repo.commit, licence=repo.licence),
    )
