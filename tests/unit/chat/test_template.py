"""Templates render as Hugging Face renders them, and a hostile one harms nobody."""

import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import psutil
import pytest

from engine import words
from engine.api.messages import Message
from engine.chat.template import ChatTemplate
from engine.chat.template_process import (
    TemplateFailed,
    TemplateLimits,
    TemplateOverLimit,
    TemplateProcess,
    TemplateRefused,
)
from tests.support.fake_model import CHATML

SYSTEM = Message(role="system", content="Be brief")
USER = Message(role="user", content="Hi <b>")
ASSISTANT = Message(role="assistant", content="Yes.", reasoning="Hm.")

Open = Callable[..., ChatTemplate]


@pytest.fixture
def template() -> Iterator[Open]:
    opened: list[ChatTemplate] = []

    def open_template(source: str | None, bos_text: str = "<s>") -> ChatTemplate:
        opened.append(ChatTemplate(source, bos_text=bos_text, eos_text="</s>"))
        return opened[-1]

    yield open_template
    for each in opened:
        each.close()


def test_renders_the_conversation_and_the_answers_header(template: Open) -> None:
    chatml = template(CHATML)
    whole = "<|im_start|>user\nHi <b><|im_end|>\n<|im_start|>assistant\n"
    assert chatml.render([USER]).text == whole
    assert chatml.render([USER], add_generation_prompt=False).text + "<|im_start|>assistant\n" == (
        whole
    )
    assert chatml.fallback is None


RENDERED = {
    "blocks leave no line break": (
        "{% if true %}\n{{ messages[0].content }}\n  {% endif %}\n",
        "Hi <b>\n",
    ),
    "loop control": (
        "{% for m in messages %}{{ m.content }}{% break %}{% endfor %}",
        "Hi <b>",
    ),
    "special tokens": (
        "{{ bos_token }}{{ messages[0]['content'] }}{{ eos_token }}",
        "<s>Hi <b></s>",
    ),
    "json without html escapes": (
        "{{ messages | tojson }}",
        '[{"role": "user", "content": "Hi <b>"}]',
    ),
    "json with indentation": (
        "{{ messages[0].content }}{{ {'b': 'é', 'a': 1} | tojson(indent=1) }}",
        'Hi <b>{\n "b": "é",\n "a": 1\n}',
    ),
    "generation tag": (
        "{% generation %}{{ messages[0].content }}{% endgeneration %}",
        "Hi <b>",
    ),
    "namespace": (
        "{% set ns = namespace(x='') %}{% for m in messages %}{% set ns.x = m.content %}"
        "{% endfor %}{{ ns.x }}",
        "Hi <b>",
    ),
    "no tools": (
        "{{ messages[0].content }}{% if tools or tools is not none %}T{% endif %}",
        "Hi <b>",
    ),
}


@pytest.mark.parametrize(("source", "text"), RENDERED.values(), ids=RENDERED)
def test_renders_what_hugging_face_renders(template: Open, source: str, text: str) -> None:
    opened = template(source)
    assert opened.fallback is None
    assert opened.render([USER]).text == text


def test_knows_the_date(template: Open) -> None:
    rendered = template("{{ messages[0].content }} {{ strftime_now('%Y') }}").render([USER])
    assert rendered.text.split()[-1] == str(datetime.now().year)


def test_passes_the_templates_own_options(template: Open) -> None:
    opened = template(
        "{{ messages[0].content }}"
        "{% if enable_thinking is defined and enable_thinking is false %}<think></think>{% endif %}"
    )
    assert opened.render([USER]).text == "Hi <b>"
    assert opened.render([USER], options={"enable_thinking": False}).text.endswith("</think>")


def test_an_option_cannot_replace_the_conversation(template: Open) -> None:
    rendered = template(CHATML).render([USER], options={"messages": []})
    assert "Hi <b>" in rendered.text


@pytest.mark.parametrize("name", ["reasoning_content", "thinking"])
def test_shows_an_earlier_turns_reasoning_under_both_names(template: Open, name: str) -> None:
    source = "{% for m in messages %}{{ m.content }}{{ m." + name + " }}{% endfor %}"
    assert template(source).render([USER, ASSISTANT]).text == "Hi <b>Yes.Hm."


def test_the_tokeniser_adds_no_second_bos(template: Open) -> None:
    assert not template("{{ bos_token }}{{ messages[0].content }}").render([USER]).add_special
    assert template("{{ messages[0].content }}").render([USER]).add_special
    assert template("{{ messages[0].content }}", bos_text="").render([USER]).add_special


def test_a_template_without_a_system_role_gets_it_in_the_users_message(template: Open) -> None:
    opened = template(
        "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('No system') }}"
        "{% endif %}[{{ m.role }}:{{ m.content }}]{% endfor %}"
    )
    messages = [SYSTEM, USER, ASSISTANT]
    assert opened.render(messages).text == "[user:Be brief\n\nHi <b>][assistant:Yes.]"


def test_a_template_that_drops_the_system_message_gets_it_too(template: Open) -> None:
    opened = template("{% for m in messages if m.role != 'system' %}{{ m.content }}{% endfor %}")
    assert opened.render([SYSTEM, USER]).text == "Be brief\n\nHi <b>"


def test_a_template_that_wants_typed_parts_gets_them(template: Open) -> None:
    opened = template(
        "{% for m in messages %}{% for part in m.content %}{{ part.text }}{% endfor %}{% endfor %}"
    )
    assert opened.render([USER]).text == "Hi <b>"


def test_a_template_may_refuse_a_conversation_in_its_own_words(template: Open) -> None:
    opened = template(
        "{% for m in messages %}{% if m.role == 'assistant' and loop.first %}"
        "{{ raise_exception('Start with the user.') }}{% endif %}{{ m.content }}{% endfor %}"
    )
    with pytest.raises(TemplateRefused) as caught:
        opened.render([ASSISTANT])
    assert "Start with the user." in words.sentence(caught.value)
    assert opened.render([USER]).text == "Hi <b>"


def test_a_mistake_in_a_template_is_a_typed_error_and_the_template_goes_on(template: Open) -> None:
    opened = template("{{ messages[0].content }}{% if messages|length > 2 %}{{ 1 / 0 }}{% endif %}")
    with pytest.raises(TemplateFailed, match="ZeroDivisionError"):
        opened.render([USER, ASSISTANT, USER])
    assert opened.render([USER]).text == "Hi <b>"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (None, "the file has none"),
        (" ", "the file has none"),
        ("{% for %}", "line 1"),
        ("{% macaroni %}", "macaroni"),
        ("{{ nothing.at.all }}", "UndefinedError"),
        ("constant", "drops the user's message"),
        ("{{ messages[0].content }}{{ '\\ud83e' }}", "UnicodeEncodeError"),
    ],
)
def test_a_template_of_no_use_falls_back_with_a_warning(
    template: Open, source: str | None, reason: str
) -> None:
    opened = template(source)
    assert opened.render([SYSTEM, USER]).text == (
        "<|im_start|>system\nBe brief<|im_end|>\n<|im_start|>user\nHi <b><|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    assert opened.stops == ("<|im_end|>",)
    assert opened.fallback is not None
    assert opened.fallback.code == "template.fallback"
    assert reason in words.sentence(opened.fallback)


LIMITS = TemplateLimits(seconds=1.0, memory_bytes=128 * 2**20)

HOSTILE = {
    "long loop": "{% for i in range(10**9) %}{% endfor %}",
    "nested loops": (
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
    ),
    "long string": "{{ ('x' * 10**10) | length }}",
    "long string in a constant": "{{ 'x' | center(10**10) | length }}",
    "doubling string": (
        "{% set n = namespace(x='xxxxxxxx') %}"
        "{% for i in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}"
    ),
    "wide format": "{{ '%10000000000d' | format(1) | length }}",
    "large power": "{{ 10 ** (10 ** 10) }}",
    "long list": "{{ ([0] * 10**10) | length }}",
    "long output": "{% for i in range(99999) %}{{ 'x' * 99999 }}{% endfor %}",
    "recursion": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "deep nesting": "{{ " + "(" * 50_000 + "1" + ")" * 50_000 + " }}",
    "python internals": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "a file": "{% include '/etc/passwd' %}",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_template_is_stopped(name: str) -> None:
    before = set(psutil.Process().children())
    started = time.monotonic()
    process = TemplateProcess(HOSTILE[name], bos_text="", eos_text="", limits=LIMITS)
    with process, pytest.raises((TemplateFailed, TemplateOverLimit)):
        process.render({"messages": []})
    assert time.monotonic() - started < 20
    assert set(psutil.Process().children()) <= before


def test_a_template_that_is_stopped_says_which_limit() -> None:
    loops = TemplateProcess(HOSTILE["nested loops"], bos_text="", eos_text="", limits=LIMITS)
    with loops, pytest.raises(TemplateOverLimit) as caught:
        loops.render({})
    assert caught.value.data == {"what": "time", "limit": "1 s"}
    string = TemplateProcess(HOSTILE["long string"], bos_text="", eos_text="", limits=LIMITS)
    with string, pytest.raises((TemplateOverLimit, TemplateFailed)) as caught_too:
        string.render({})
    assert "memory" in str(caught_too.value).lower()


def test_a_huge_template_is_not_even_tried(template: Open) -> None:
    fallback = template("{{ messages[0].content }}" + " " * 2**20).fallback
    assert fallback is not None
    assert "too much text" in words.sentence(fallback)


def test_a_template_works_again_after_it_was_stopped() -> None:
    source = "{% for i in range(n) %}{% for j in range(n) %}{% endfor %}{% endfor %}done"
    with TemplateProcess(source, bos_text="", eos_text="", limits=LIMITS) as process:
        with pytest.raises(TemplateOverLimit):
            process.render({"n": 99_999})
        assert process.render({"n": 3}) == "done"


def test_a_module_in_the_current_folder_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jinja2.py").write_text("raise SystemExit('taken over')")
    with TemplateProcess("fine", bos_text="", eos_text="", limits=LIMITS) as process:
        assert process.render({}) == "fine"
