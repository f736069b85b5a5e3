"""Starts the process that looks at the machine, and passes on what it says."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator, Sequence

from pydantic import TypeAdapter

from engine.api.survey import SurveyEvent, SurveyFailed
from engine.errors import NativeError, TwofoldError
from engine.survey.questions import AskDoctor, AskPlan, AskProbe

COMMAND_LINE = (sys.executable, "-P", "-m", "engine.survey")
MAX_LINE = 4 << 20
_event: TypeAdapter[SurveyEvent] = TypeAdapter(SurveyEvent)


class SurveyEnded(TwofoldError):
    """The process ended without an answer. Data: `exit_status`."""

    code = "survey.ended"


async def asked(
    question: AskPlan | AskProbe | AskDoctor, command: Sequence[str] = COMMAND_LINE
) -> AsyncGenerator[SurveyEvent]:
    """Its events, the answer last. Leaving early ends the process. Raises SurveyEnded, or the
    failure that it tells, by that one's own code."""
    process = await asyncio.create_subprocess_exec(
        *command,
        question.model_dump_json(),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=MAX_LINE,
    )
    assert process.stdout is not None
    answered = False
    try:
        async for line in process.stdout:
            if not line.startswith(b"{"):
                continue  # a driver's own words
            event = _event.validate_json(line)
            if isinstance(event, SurveyFailed):
                raise NativeError(event.failure.code, event.failure.data)
            answered = event.type != "step"
            yield event
        if not answered:
            raise SurveyEnded(exit_status=await process.wait())
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
