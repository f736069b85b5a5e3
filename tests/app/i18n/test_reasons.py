"""A Korean screen has no English causes: what systems and the engine tell has Korean words."""

from __future__ import annotations

import ast
import errno
import os
import re
import string
from pathlib import Path

import pytest

import engine
from app.engine_client.failures import said
from app.i18n import set_language
from app.i18n.catalogue import catalogue, engine_sentences
from app.i18n.reasons import FIELDS, reason
from engine.words import SENTENCES
from tests.app.i18n.test_catalogue import NOT_IN_THE_WINDOW

OTHER = "알려지지 않은 오류"
# Two words of English in a row that are no name, option or address.
ENGLISH = re.compile(r"(?<![\w./-])[A-Za-z]+,? [a-z]{2,}(?![\w./-])")
NAMES = re.compile(r"\./twofold( \w+)*( --\w+)*|tool_choice auto|pip install [\w-]+")
# What the command line and the server's own clients are told stays in their language.
NOT_A_REASON = ("cli", "bench")


@pytest.fixture(autouse=True)
def korean(nothing_left_running: None) -> None:
    del nothing_left_running  # which begins in English
    set_language("ko")


def reasons_in_the_source() -> set[str]:
    """What the engine writes itself where a cause belongs; each value in it stands as 7."""
    found: set[str] = set()
    for path in Path(engine.__file__ or "").parent.rglob("*.py"):
        if set(NOT_A_REASON) & set(path.parts):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.keyword(arg=str(name), value=value) if name in FIELDS:
                    found |= _texts(value)
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in FIELDS:
                    found |= _texts(value)
                case _:
                    pass
    return {text for text in found if " " in text.strip()}


def _texts(node: ast.expr) -> set[str]:
    match node:
        case ast.Constant(value=str(text)):
            return {text}
        case ast.JoinedStr(values=values):
            return {"".join("7" if isinstance(v, ast.FormattedValue) else v.value for v in values)}  # type: ignore[attr-defined]
        case ast.IfExp(body=one, orelse=other):
            return _texts(one) | _texts(other)
        case _:
            return set()


def test_every_cause_that_the_engine_writes_has_korean_words() -> None:
    found = reasons_in_the_source()
    assert len(found) > 40
    assert [text for text in sorted(found) if reason(text) == OTHER] == []
    assert [text for text in sorted(found) if ENGLISH.search(reason(text))] == []


COMMON = (
    errno.EACCES, errno.ENOENT, errno.ENOSPC, errno.EROFS, errno.EIO, errno.ECONNREFUSED,
    errno.ECONNRESET, errno.ETIMEDOUT, errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRINUSE,
    errno.EISDIR, errno.ENOTDIR, errno.EPERM, errno.EMFILE, errno.ENOMEM, errno.EPIPE,
)  # fmt: skip


@pytest.mark.parametrize("number", COMMON)
def test_the_systems_errors_have_korean_words_however_they_are_told(number: int) -> None:
    told = reason(os.strerror(number))
    assert re.search(r"[가-힣]", told) and told != OTHER
    assert reason(f"[Errno {number}] {os.strerror(number)}") == told
    assert reason(f"[Errno {number}] {os.strerror(number)}: '/a folder/file'") == told


@pytest.mark.parametrize(
    ("english", "words"),
    [
        ("[Errno -2] Name or service not known", "서버 이름을 찾을 수 없음"),
        ("[Errno -3] Temporary failure in name resolution", "서버 이름을 찾을 수 없음"),
        ("The read operation timed out", "응답 시간 초과"),
        ("_ssl.c:983: The handshake operation timed out", "응답 시간 초과"),
        ("[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)", "암호화된 연결이 아님"),
        ("407 Proxy Authentication Required", "프록시가 로그인을 요구함"),
        ("certificate has expired", "기한이 지난 인증서"),
        ("Host hub.example not found", "서버 이름을 찾을 수 없음"),
        ("the variable HF_HUB_OFFLINE", "환경 변수 HF_HUB_OFFLINE"),
        ("no end after 60 s", "60초가 지나도 끝나지 않음"),
        ("something that nobody has ever seen", OTHER),
        ("/home/ada/model.gguf", "/home/ada/model.gguf"),
        ("비어 있음", "비어 있음"),
    ],
)
def test_what_networks_and_libraries_tell(english: str, words: str) -> None:
    assert reason(english) == words
    set_language("en")
    assert reason(english) == english


@pytest.mark.parametrize(
    "cause", ["Permission denied", "no answer in time", "tensor blk.0", "what nobody has seen yet"]
)
def test_no_code_brings_english_words_to_a_korean_screen(cause: str) -> None:
    """Each code with all its facts, the causes in English."""
    codes = [code for code in SENTENCES if not code.startswith(NOT_IN_THE_WINDOW)]
    assert len(codes) > 150
    for code in codes:
        data = _facts(cause, SENTENCES[code], engine_sentences("ko")[code])
        words = said(code, data, "as the engine said it")
        assert words != "as the engine said it", code
        assert not ENGLISH.search(NAMES.sub("", words)), (code, words)


def test_the_catalogue_itself_has_no_english_words_in_a_row() -> None:
    for key, words in catalogue("ko").items():
        assert not ENGLISH.search(NAMES.sub("", words)), (key, words)


def _facts(cause: str, *templates: str) -> dict[str, object]:
    """A number where a template formats one, the cause where one belongs, else a name."""
    facts: dict[str, object] = {}
    for template in templates:
        for _, name, spec, _ in string.Formatter().parse(template):
            if name and (spec or name not in facts):
                facts[name] = 7 if spec else cause if name in FIELDS else "이름"
    return facts
