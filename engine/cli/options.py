"""Options that several commands take: a model, its prefiller, a context."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from engine.api.plan import KvType

Model = Annotated[Path, typer.Option("-m", "--model", help="The decoder.")]
Prefiller = Annotated[
    Path | None, typer.Option(help="Its prefiller: a file, or a folder of parts.")
]
Context = Annotated[
    int | None, typer.Option(min=64, help="Context in tokens.", show_default="the model's")
]
Kv = Annotated[KvType, typer.Option(help="Type of the cached keys and values.")]
