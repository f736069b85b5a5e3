"""Renders chat templates in a process of its own, which its parent ends if it runs wild.

A template comes from the internet and is a program: sandboxing keeps it from the machine, but
only another process bounds its time and memory. Lines of JSON come in on stdin and go out on
stdout: an empty object when ready; then an answer to `{"source", "bos_token", "eos_token"}` and
one to each rendering's variables.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Any, cast

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.parser
import jinja2.sandbox

# The largest rendered prompt, in characters: far beyond any context, far below trouble.
MAX_OUTPUT = 16 * 2**20


class Refused(Exception):
    """The template itself said no, through `raise_exception`."""


class GenerationTag(jinja2.ext.Extension):
    """`{% generation %}` marks the assistant's text for training; here it only shows its body."""

    tags = {"generation"}  # noqa: RUF012  # as jinja2 declares it

    def parse(self, parser: jinja2.parser.Parser) -> list[jinja2.nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def compile_template(source: str, bos_token: str, eos_token: str) -> jinja2.Template:
    """The template in the environment that Hugging Face's tokenisers give theirs."""
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[jinja2.ext.loopcontrols, GenerationTag],
    )
    filters = cast("dict[str, Any]", environment.filters)  # pyright: ignore[reportUnknownMemberType]
    filters["tojson"] = _to_json
    names = {
        "raise_exception": _raise_exception,
        "strftime_now": _strftime_now,
        "bos_token": bos_token,
        "eos_token": eos_token,
    }
    return environment.from_string(source, globals=names)


def render(template: jinja2.Template, variables: dict[str, Any]) -> str:
    parts: list[str] = []
    size = 0
    for part in template.generate(variables):
        size += len(part)
        if size > MAX_OUTPUT:
            raise OverflowError("the prompt is too long")
        parts.append(part)
    text = "".join(parts)
    text.encode()  # half a surrogate pair is not text
    return text


def answers(lines: Iterator[str]) -> Iterator[dict[str, str]]:
    """One answer for each line: `text`, or `refused` or `failed` with the reason."""
    template: jinja2.Template | None = None
    for line in lines:
        request = json.loads(line)
        try:
            if template is None:
                template = compile_template(**request)
                yield {"text": ""}
            else:
                yield {"text": render(template, request)}
        except Refused as error:
            yield {"refused": str(error)}
        except jinja2.TemplateSyntaxError as error:
            yield {"failed": f"line {error.lineno}: {error.message}"}
        except Exception as error:  # a template is a program and may fail in any way
            yield {"failed": f"{type(error).__name__}: {error}"}


def _raise_exception(message: str) -> None:
    raise Refused(message)


def _strftime_now(pattern: str) -> str:
    return datetime.now().strftime(pattern)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """As Hugging Face defines it: no HTML escapes, and letters stay letters."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    print("{}", flush=True)
    for answer in answers(iter(sys.stdin)):
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
