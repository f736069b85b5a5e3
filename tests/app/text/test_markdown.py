"""Messages become small segments that show what was meant, and nothing that was smuggled in."""

from __future__ import annotations

import html
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.text.live import LiveText
from app.text.markdown import is_web, render, render_typed
from app.text.segments import CODE_LINES, PROSE_LENGTH, Code, Formula, Plain, Prose, Segment


def html_of(source: str) -> str:
    return "".join(segment.html for segment in render(source) if isinstance(segment, Prose))


def words_of(segments: list[Segment]) -> str:
    """All that a reader sees, without white space."""
    parts: list[str] = []
    for segment in segments:
        match segment:
            case Prose():
                text = re.sub(r'<img src="([^"]*)">', r"\1", segment.html)
                parts.append(html.unescape(re.sub(r"<[^>]*>", "", text)))
            case Code():
                parts.append(html.unescape(re.sub(r"<[^>]*>", "", segment.html)))
            case Plain():
                parts.append(segment.text)
    return re.sub(r"\s", "", "".join(parts))


def test_markdown_is_shown_as_it_is_meant() -> None:
    shown = html_of(
        "# T\n\n**b** _i_ ~~s~~ `c`\n\n- one\n- two\n\n3. three\n\n| a | b |\n|--|--:|\n|1|2|"
    )
    for part in (
        "<h1>T</h1>",
        "<strong>b</strong> <em>i</em> <s>s</s> <code>c</code>",
        "<ul><li>one</li><li>two</li></ul>",
        '<ol start="3"><li>three</li></ol>',
        '<td align="right">2</td>',
    ):
        assert part in shown


def test_code_blocks_stand_alone_coloured_and_can_be_copied_whole() -> None:
    source = "\n".join(f"x{number} = 'text'  # why" for number in range(CODE_LINES * 2 + 5))
    segments = render(f"Before\n\n```python\n{source}\n```\n\nAfter")
    code = [segment for segment in segments if isinstance(segment, Code)]
    assert len(code) == 3
    assert code[0].source == source and code[0].language == "python"
    assert [piece.last for piece in code] == [False, False, True]
    assert '<span class="c"># why</span>' in code[1].html
    assert words_of(list(code)) == re.sub(r"\s", "", source)


def test_formulas_are_found_in_all_four_ways_of_writing_and_prices_are_not() -> None:
    segments = render(r"It costs $5 or $6, $a+b$ and \(c\)." + "\n\n$$d$$\n\n\\[e\\]")
    formulas = [f for segment in segments if isinstance(segment, Prose) for f in segment.formulas]
    assert formulas == [
        Formula("a+b", False), Formula("c", False), Formula("d", True), Formula("e", True),
    ]  # fmt: skip
    assert "It costs $5 or $6" in html_of(r"It costs $5 or $6, $a+b$")


@pytest.mark.parametrize(
    "source",
    [
        "<script>alert(1)</script>",
        '<img src="http://evil/x.png">',
        "![pixel](http://evil/x.png)",
        "[click](javascript:alert(1))",
        "[click](file:///etc/passwd)",
        "[click](data:text/html,x)",
        "<a href='file:///x'>y</a>",
        "```html\n<img src=x>\n```",
        '[x](http://a.b/"onmouseover="x)',
        "$<img src=x>$",
    ],
)
def test_nothing_is_fetched_and_only_web_links_can_be_clicked(source: str) -> None:
    for segment in render(source):
        assert isinstance(segment, Prose | Code)
        tags = re.findall(r"<\s*(\w+)([^>]*)>", segment.html)
        for tag, attributes in tags:
            assert tag not in ("script", "iframe", "object", "style", "link")
            if tag == "img":
                assert 'src="formula:' in attributes
            if tag == "a":
                address = re.search(r'href="([^"]*)"', attributes)
                assert address is not None and is_web(html.unescape(address[1]))


def test_web_addresses_without_markup_are_links() -> None:
    assert '<a href="https://example.org/a">' in html_of("See https://example.org/a for more")


@pytest.mark.parametrize(
    "source",
    [
        "word " * 20_000,
        "x" * 50_000,
        "\n".join(f"- item {number} " + "w " * 50 for number in range(500)),
        "| a | b |\n|---|---|\n" + "| cell | cell |\n" * 3000,
        "> " + "quoted words " * 5000,
        "```\n" + "y" * 50_000 + "\n```",
        "line\n\n" * 5000,
    ],
)
def test_whatever_a_message_is_its_pieces_are_small_and_nothing_is_lost(source: str) -> None:
    segments = render(source)
    for segment in segments:
        assert isinstance(segment, Prose | Code)
        text = re.sub(r"<[^>]*>", "", segment.html)
        assert len(text) <= 3 * PROSE_LENGTH or isinstance(segment, Code)
        assert segment.html.count("\n") <= CODE_LINES or isinstance(segment, Prose)
    plain = re.sub(r"[\s|>`-]", "", source)
    assert re.sub(r"[|>`-]", "", words_of(segments)).count("word") >= plain.count("word")


def test_what_a_person_typed_is_shown_as_typed_but_for_code() -> None:
    segments = render_typed("# no heading\n  two  spaces <b>\n```py\nx = 1\n```\n```\nnever closed")
    assert [type(segment) for segment in segments] == [Plain, Code, Plain]
    assert isinstance(segments[0], Plain) and segments[0].text == "# no heading\n  two  spaces <b>"
    assert isinstance(segments[2], Plain) and segments[2].text == "```\nnever closed"


SOURCES = st.lists(
    st.sampled_from(
        [
            "Some words in a paragraph. ",
            "\n\n",
            "\n",
            "# Title\n\n",
            "- item\n",
            "1. one\n",
            "```python\nx = 1\n",
            "```\n\n",
            "| a | b |\n|---|---|\n| 1 | 2 |\n\n",
            "> quote\n",
            "**bold",
            "** ",
            "`code` ",
            "$x^2$ ",
            "long " * 300 + "\n\n",
            "y = 2\n" * 150,
        ]
    ),
    max_size=20,
)


@settings(deadline=None, max_examples=60)
@given(SOURCES, st.integers(min_value=1, max_value=400))
def test_an_answer_that_grows_shows_in_the_end_what_the_whole_shows(
    parts: list[str], step: int
) -> None:
    text = "".join(parts)
    live_text = LiveText()
    settled: list[Segment] = []
    live: list[Segment] = []
    for end in [*range(step, len(text), step), len(text)]:
        new, live = live_text.update(text[:end])
        settled += new
    assert words_of(settled + live) == words_of(render(text))
