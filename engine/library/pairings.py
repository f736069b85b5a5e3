"""The verdicts on which prefiller or drafter belongs to which decoder, each worked out once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from engine.api.models import (
    AttachedDrafter,
    AttachedPrefiller,
    AttachedProjector,
    PairingVerdict,
)
from engine.api.plan import Remark
from engine.drafts.pairing import check_draft, open_draft
from engine.errors import TwofoldError
from engine.gguf.splits import open_model
from engine.library.database import Database
from engine.library.groups import Group, failure_of
from engine.prefiller.formats import open_prefiller
from engine.prefiller.pairing import check_pairing


@dataclass(frozen=True, slots=True)
class Verdict:
    verdict: PairingVerdict
    remarks: tuple[Remark, ...]


_VERDICT: TypeAdapter[Verdict] = TypeAdapter(Verdict)


class Pairings:
    """Cached by the files' sizes and times."""

    def __init__(self, database: Database) -> None:
        self._database = database
        rows = database.rows("SELECT prefiller, decoder, pairing FROM pairings")
        self._known = {(prefiller, decoder): text for prefiller, decoder, text in rows}

    def attached(
        self, decoder: Group, prefillers: Sequence[Group]
    ) -> tuple[AttachedPrefiller, ...]:
        """Those that could be meant for it, best verdict first: of its architecture and depth."""
        found: list[AttachedPrefiller] = []
        for prefiller in prefillers:
            if not _could_belong(prefiller, decoder):
                continue
            verdict = self._verdict(prefiller, decoder)
            found.append(
                AttachedPrefiller(
                    id=prefiller.id,
                    path=prefiller.path,
                    bytes=prefiller.nbytes,
                    verdict=verdict.verdict,
                    reasons=verdict.remarks,
                    choosable=verdict.verdict in ("matched_by_hash", "matched_by_name"),
                )
            )
        return tuple(sorted(found, key=lambda one: (one.verdict, one.path)))

    def drafters(self, decoder: Group, drafters: Sequence[Group]) -> tuple[AttachedDrafter, ...]:
        """Those that fit it, best verdict first."""
        found: list[AttachedDrafter] = []
        for drafter in drafters:
            if drafter.state != "ready" or decoder.state != "ready":
                continue
            verdict = self._verdict(drafter, decoder)
            if verdict.verdict != "wrong":
                found.append(
                    AttachedDrafter(
                        path=drafter.path,
                        bytes=drafter.nbytes,
                        method=str(drafter.facts.architecture),
                        verdict=verdict.verdict,
                        reasons=verdict.remarks,
                    )
                )
        return tuple(sorted(found, key=lambda one: (one.verdict, one.path)))

    def _verdict(self, prefiller: Group, decoder: Group) -> Verdict:
        key = prefiller.signature, decoder.signature
        text = self._known.get(key)
        try:
            return _VERDICT.validate_json(text or "")
        except ValidationError:  # not worked out yet, or written by another version
            verdict = _worked_out(prefiller, decoder)
        text = _VERDICT.dump_json(verdict).decode()
        self._known[key] = text
        self._database.run("INSERT OR REPLACE INTO pairings VALUES (?, ?, ?)", (*key, text))
        return verdict


def _could_belong(prefiller: Group, decoder: Group) -> bool:
    theirs, facts = prefiller.facts, decoder.facts
    ready = prefiller.state == decoder.state == "ready"
    return (
        ready
        and theirs.architecture in (None, facts.architecture)
        and (theirs.blocks in (None, facts.blocks))
    )


def _worked_out(prefiller: Group, decoder: Group) -> Verdict:
    try:
        if prefiller.kind == "drafter":
            pairing = check_draft(open_draft(prefiller.path), open_model(decoder.path))
        else:
            pairing = check_pairing(open_prefiller(prefiller.path), open_model(decoder.path))
    except TwofoldError as error:  # a mixture of experts, or a file that just changed
        failure = failure_of(error)
        remark = Remark(code=failure.code, sentence=failure.sentence, data=failure.data)
        return Verdict("wrong", (remark,))
    return Verdict(pairing.verdict.value, pairing.remarks)


def projectors_of(decoder: Group, projectors: Sequence[Group]) -> tuple[AttachedProjector, ...]:
    """The vision projectors in the decoder's folder; one of another width would crash it."""
    found: list[AttachedProjector] = []
    for projector in projectors:
        if projector.path.parent != decoder.path.parent or projector.state != "ready":
            continue
        fits, reason = _width(decoder, projector)
        found.append(
            AttachedProjector(path=projector.path, bytes=projector.nbytes, fits=fits, reason=reason)
        )
    return tuple(sorted(found, key=lambda one: (one.fits is not True, one.bytes)))


def _width(decoder: Group, projector: Group) -> tuple[bool | None, str]:
    theirs, ours = projector.facts.projection, decoder.facts.width
    if theirs is None or ours is None:
        return None, "it does not say how wide its output is"
    if theirs == ours:
        return True, f"its output is {theirs} wide, as the decoder's tokens are"
    return False, f"its output is {theirs} wide, the decoder's tokens are {ours}"
