"""Answers one question about the machine, as JSON lines on standard output.

A process of its own: it loads the library and the graphics drivers, which may end it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pydantic import TypeAdapter

from engine.api.failure import Failure
from engine.api.hardware import Profile
from engine.api.survey import (
    Examined,
    Planned,
    Probed,
    ProbeStep,
    SurveyEvent,
    SurveyFailed,
)
from engine.doctor.bundle import write_bundle
from engine.doctor.report import report
from engine.errors import TwofoldError
from engine.gguf.splits import GgufModel
from engine.gguf.validate import validated_model
from engine.planner.facts import model_facts, prefiller_facts
from engine.planner.memory import MeasuredMemory
from engine.planner.plan import DEFAULT_CONTEXT, make_plan
from engine.planner.request import PlanRequest
from engine.prefiller.formats import open_prefiller
from engine.probe.memory import measured_memory
from engine.probe.probe import known_profile, measure_folder, probe
from engine.survey.questions import AskDoctor, AskPlan, AskProbe, Question
from engine.words import sentence

_KV_TYPE = "f16"
_question: TypeAdapter[AskPlan | AskProbe | AskDoctor] = TypeAdapter(Question)


def main(text: str) -> None:
    try:
        asked = _question.validate_json(text)
        match asked:
            case AskPlan():
                _tell(planned(asked))
            case AskProbe():
                _tell(Probed(profile=_probed(asked)))
            case AskDoctor():
                _tell(_examined(asked))
    except TwofoldError as error:
        failure = Failure(code=error.code, sentence=sentence(error), data=error.data)
        _tell(SurveyFailed(failure=failure))


def planned(asked: AskPlan) -> Planned:
    """Raises whatever is wrong with the files."""
    query, defaults = asked.query, asked.defaults
    model = Path(query.model).expanduser()
    prefiller = Path(query.prefiller).expanduser() if query.prefiller else None
    weights = (prefiller or model).absolute()
    profile = known_profile([weights.parent])
    decoder = validated_model(model)
    facts = model_facts(decoder)
    found = prefiller_facts(open_prefiller(prefiller), decoder, facts) if prefiller else None
    usual = min(facts.trained_context or DEFAULT_CONTEXT, DEFAULT_CONTEXT)
    context = query.context or defaults.context or usual
    request = PlanRequest(
        context=context,
        kv_type=_KV_TYPE,
        mode=query.mode,
        policy=defaults.policy,
        disk=str(weights),
        force_pairing=query.force_pairing,
        replaced=asked.replaced,
        micro_batch=defaults.micro_batch,
        slots=defaults.slots,
        carve_out=defaults.carve_out,
    )
    plan = make_plan(profile, facts, found, request, _measured(decoder, context))
    return Planned(plan=plan, profile=profile)


def _measured(decoder: GgufModel, context: int) -> MeasuredMemory | None:
    """The library's own count, or None where it cannot give one: the formula then serves."""
    try:
        return measured_memory(decoder, context, _KV_TYPE)
    except TwofoldError:
        return None


def _examined(asked: AskDoctor) -> Examined:
    found = report()
    written = None
    if asked.bundle is not None:
        written = str(write_bundle(Path(asked.bundle).expanduser(), found))
    return Examined(report=found.model_dump(mode="json"), bundle=written)


def _probed(asked: AskProbe) -> Profile:
    folders = [Path(name) for name in asked.folders] or None
    query = asked.query
    if not asked.measure:
        return known_profile(folders)
    if query.folder is None:
        return probe(folders, again=query.again, on_step=_step)
    folder = Path(query.folder).expanduser().absolute()
    measure_folder(
        folder,
        on_progress=lambda share, gbps: _tell(ProbeStep(what=str(folder), share=share, gbps=gbps)),
    )
    return known_profile([folder])


def _step(what: str, share: float | None, rate: str) -> None:
    """The probe gives its rates in words."""
    number = rate.removesuffix(" GB/s")
    _tell(ProbeStep(what=what, share=share, gbps=float(number) if number else None))


def _tell(event: SurveyEvent) -> None:
    print(event.model_dump_json(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
