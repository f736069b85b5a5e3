"""Which rows a stored message is shown in."""

from __future__ import annotations

import json
from collections.abc import Sequence

from app.chat.rows import Foot, Head, Kind, Problem, Row, Thought
from app.engine_client.failures import sentence
from app.i18n import tr
from app.store.records import MessageRow
from app.text.markdown import render, render_typed
from app.text.segments import Code, Plain, Segment
from engine.api.failure import Failure

BETWEEN_MESSAGES = 28
BETWEEN_CARDS = 36  # a card reaches over its rows
BETWEEN_SEGMENTS = 8


def parsed(message: MessageRow) -> tuple[list[Segment], list[Segment]]:
    """The message's segments, and those of its reasoning. Slow for long messages."""
    content = render_typed(message.content) if message.role == "user" else render(message.content)
    return content, render(message.reasoning) if message.reasoning else []


def segment_row(message: int, segment: Segment, *, card: bool, thought: bool = False) -> Row:
    """Pieces of one code block touch each other; other segments have space between."""
    kind: Kind = "thought" if thought else "prose"
    gap = 2
    if isinstance(segment, Code):
        kind = "code"
        gap = BETWEEN_SEGMENTS if segment.source is not None else 0
    elif isinstance(segment, Plain):
        kind = "plain"
    return Row(message, kind, segment, gap=gap, card=card)


def head_row(message: MessageRow, *, busy: bool) -> Row:
    is_user = message.role == "user"
    head = Head(message.role, message.version, message.versions, busy)
    gap = BETWEEN_CARDS if is_user else BETWEEN_MESSAGES
    return Row(message.id, "head", head, gap=gap, card=is_user)


def foot_row(message: MessageRow, *, last: bool, busy: bool) -> Row:
    foot = Foot(
        report=message.report,
        status=message.status,
        version=message.version,
        versions=message.versions,
        last=last,
        busy=busy,
    )
    return Row(message.id, "foot", foot, gap=4)


def problem_row(message: int, failure: Failure) -> Row:
    problem = Problem(
        sentence=sentence(failure),
        code=failure.code,
        help=help_for(failure),
        details=details(failure),
    )
    return Row(message, "error", problem, gap=4)


def help_for(failure: Failure) -> str:
    """The one thing that helps."""
    code = failure.code
    if code.startswith(("window.engine_", "worker.")):
        return "restart"
    if code == "chat.context_overflow":
        return "shorten"
    if code in ("engine.nothing_loaded", "engine.replaced", "model_not_found"):
        return "choose_model"
    return "try_again"


def details(failure: Failure) -> str:
    facts = [f"{name}: {json.dumps(value)}" for name, value in failure.data.items()]
    return "\n".join([*facts, *failure.log])


def thought_of(message: MessageRow, *, is_open: bool) -> Thought:
    seconds = message.report.get("reasoning_s") if message.report else None
    return Thought(open=is_open, running=False, seconds=seconds)


def segment_rows(
    message: int,
    segments: Sequence[Segment],
    before: Sequence[Row] = (),
    *,
    card: bool = False,
    thought: bool = False,
) -> list[Row]:
    """Rows for `segments`; a row of `before` that shows the same stays, with its widget."""
    rows: list[Row] = []
    for number, segment in enumerate(segments):
        old = before[number] if number < len(before) else None
        if old is not None and old.data == segment:
            rows.append(old)
        else:
            rows.append(segment_row(message, segment, card=card, thought=thought))
    return rows


def left_out_row(message: MessageRow) -> Row | None:
    count = (message.report or {}).get("left_out", 0)
    if not count:
        return None
    return Row(message.id, "notice", tr("chat.left_out", count=count))
