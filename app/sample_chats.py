"""Sample chats for the screenshots, in both languages."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from app.i18n import Language
from app.store.chats import ChatStore
from app.store.records import Attachment, ChatSettings

_DAY = 86_400


@dataclass(frozen=True)
class SampleChats:
    language: Language
    rich: int
    rich_message: int
    contract: int
    failed: int
    rtl: int
    typed: str


_RICH = {
    "en": r"""The contract runs for **three years** and renews by itself. The main points:

1. Notice has to be given *90 days* before the end (section 7.2).
2. The price rises with the index, by at most 3% a year.
3. Either side may end it at once for cause.

| Clause | What it says | Risk |
| --- | --- | ---: |
| 4.1 | Payment within 30 days | low |
| 7.2 | Renewal for one more year | medium |
| 9.3 | Liability is capped at one year's fees | high |

## What it costs

With index $i$ and first price $p_0$ the price after $n$ years is at most $p_0 (1+0.03)^n$, so

$$\sum_{k=0}^{2} p_0\,(1+0.03)^k = p_0\,\frac{1.03^3-1}{0.03}$$

```python
def price(first: float, years: int, rise: float = 0.03) -> float:
    # What is paid in the last of these years.
    return first * (1 + rise) ** (years - 1)

print(price(1200, 3))
```

> Section 9.3 limits liability; ask for an exception for data loss.

See <https://example.org/clauses> for the wording, and `section 12` for the annex.
""",
    "ko": r"""이 계약은 **3년** 동안 유효하고 자동으로 연장됩니다. 중요한 내용은 다음과 같습니다.

1. 해지하려면 만료 *90일 전*까지 알려야 합니다(제7.2조).
2. 가격은 물가 지수를 따르되 한 해에 3%까지만 오릅니다.
3. 중대한 사유가 있으면 어느 쪽이든 바로 해지할 수 있습니다.

| 조항 | 내용 | 위험 |
| --- | --- | ---: |
| 4.1 | 30일 안에 지급 | 낮음 |
| 7.2 | 1년 자동 연장 | 보통 |
| 9.3 | 책임 한도는 1년 치 요금 | 높음 |

## 비용

첫 가격이 $p_0$이면 $n$년 뒤의 가격은 많아야 $p_0 (1+0.03)^n$이므로

$$\sum_{k=0}^{2} p_0\,(1+0.03)^k = p_0\,\frac{1.03^3-1}{0.03}$$

```python
def price(first: float, years: int, rise: float = 0.03) -> float:
    # 마지막 해에 내는 금액
    return first * (1 + rise) ** (years - 1)

print(price(1200, 3))
```

> 제9.3조는 책임을 제한합니다. 데이터 손실은 예외로 해 달라고 요청하세요.

문구는 <https://example.org/clauses>, 부속서는 `제12조`를 보세요.
""",
}

_WORDS: dict[Language, dict[str, str]] = {
    "en": {
        "ask": "Summarise the attached contract and tell me what to watch out for.",
        "contract": "Contract with the printing company",
        "trip": "Trip plan for Busan",
        "regex": "Regular expression for dates with an optional time and time zone",
        "question": "Which clause is the most dangerous for us?",
        "short": "Clause 9.3: it caps liability at one year's fees, also for lost data.",
        "thought": "The user wants the riskiest clause. Compare 4.1, 7.2 and 9.3. "
        "The cap in 9.3 shifts the largest loss to the customer.",
        "folder": "Work",
        "typed": "Please compare both documents.\nWhere do they contradict each other?",
        "reason": "Read with the prefiller streamed from the disk: with 8,431 new tokens ODP is "
        "faster than the decoder here (6.9 s against 21 s), and its answers are better.",
    },
    "ko": {
        "ask": "첨부한 계약서를 요약하고 조심할 점을 알려 주세요.",
        "contract": "인쇄 업체 계약서",
        "trip": "부산 여행 계획",
        "regex": "시간과 시간대가 있을 수도 있는 날짜를 찾는 정규식",
        "question": "우리에게 가장 위험한 조항은 무엇인가요?",
        "short": "제9.3조입니다. 데이터를 잃어도 책임이 1년 치 요금으로 제한됩니다.",
        "thought": "가장 위험한 조항을 물었다. 4.1, 7.2, 9.3을 견주어 본다. "
        "9.3의 한도는 가장 큰 손해를 고객에게 넘긴다.",
        "folder": "업무",
        "typed": "두 문서를 비교해 주세요.\n서로 어긋나는 곳은 어디인가요?",
        "reason": "디스크에서 흘려 보내는 프리필러로 읽었습니다. 새 토큰이 8,431개라 여기서는 "
        "디코더보다 ODP가 빠르고(6.9초 대 21초) 답변도 더 좋습니다.",
    },
}


def fill(store: ChatStore, language: Language) -> SampleChats:
    """Writes the samples and says which is which."""
    words = _WORDS[language]
    folder = store.create_folder(words["folder"])
    old = store.create_chat(words["trip"])
    store.add_message(old, "user", words["trip"], parent=None)
    regex = store.create_chat(words["regex"])
    store.add_message(regex, "user", words["regex"], parent=None)
    store.move(regex, folder)

    rtl = store.create_chat("مرحبا")
    first = store.add_message(rtl, "user", "كيف أكتب رسالة رسمية؟", parent=None)
    answer = "ابدأ بتحية مناسبة، ثم اشرح **سبب** الرسالة.\n\n1. التحية\n2. الموضوع\n3. الخاتمة"
    _answer(store, rtl, first, answer, None, words["reason"])

    failed = store.create_chat(words["question"])
    first = store.add_message(failed, "user", words["question"], parent=None)
    broken = store.add_message(failed, "assistant", "", parent=first)
    problem = {
        "code": "window.engine_died",
        "sentence": "",
        "data": {"how": "signal 9"},
        "log": ["ggml_abort: out of memory"],
    }
    store.finish(broken, words["short"][:24], None, status="failed", failure=problem)

    contract = store.create_chat(words["contract"])
    file = Attachment("contract.pdf", "word " * 500, 8412)
    first = store.add_message(contract, "user", words["ask"], parent=None, attachments=[file])
    _answer(store, contract, first, words["short"], words["thought"], words["reason"])
    store.pin(contract, True)

    rich = store.create_chat(words["ask"], ChatSettings(system_prompt="", path="auto"))
    first = store.add_message(rich, "user", words["ask"], parent=None, attachments=[file])
    _answer(store, rich, first, words["short"], None, words["reason"])
    second = _answer(store, rich, first, _RICH[language], words["thought"], words["reason"])
    third = store.add_message(rich, "user", words["question"], parent=second)
    _answer(store, rich, third, words["short"], words["thought"], words["reason"])
    store.set_updated(old, time.time() - 40 * _DAY)
    store.set_updated(rtl, time.time() - _DAY)
    return SampleChats(language, rich, first, contract, failed, rtl, words["typed"])


def _answer(
    store: ChatStore, chat: int, parent: int, text: str, thought: str | None, reason: str
) -> int:
    message = store.add_message(chat, "assistant", "", parent=parent)
    report: dict[str, Any] = {
        "type": "turn_report",
        "stop_reason": "eos",
        "path": "odp",
        "reason": reason,
        "prompt_tokens": 8431,
        "cached_tokens": 0,
        "new_tokens": 8431,
        "answer_tokens": [0] * 412,
        "seed": 90210,
        "ttft_s": 6.91,
        "prefill_s": 6.7,
        "prefill_tps": 1258.0,
        "decode_tps": 31.2,
        "reasoning_s": 6.2 if thought else None,
        "bytes_read": 56_800_000_000,
        "wait_s": 1.2,
        "prefill_weight_bytes": 0,
    }
    store.finish(message, text, thought, report=report)
    return message
