"""What scanning a library of many files costs: `python -m tests.bench.library_scan [FILES]`.

The first scan reads every header; later ones compare sizes and times with what is remembered.
Wall times of a process that is alone; the page cache is warm, since the files were just written.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from engine.gguf.types import ValueType
from engine.library.database import Database
from engine.library.library import Folders, Library
from tests.support.gguf_bytes import GgufBytes, array, f32_tensor, text, u32

FILES = 2000
ROUNDS = 3
# As Qwen3.8's, whose header takes 10 MiB.
TOKENS = 248_320
LARGE_FILES = 20


def model(tokens: int) -> bytes:
    words = [f"token{no}" for no in range(tokens)]
    metadata = [
        ("general.architecture", text("llama")),
        ("general.name", text("made up")),
        ("llama.block_count", u32(1)),
        ("llama.context_length", u32(4096)),
        ("tokenizer.ggml.tokens", array(ValueType.STRING, words)),
        ("tokenizer.ggml.merges", array(ValueType.STRING, words)),
    ]
    return GgufBytes(list(metadata), [f32_tensor("token_embd.weight", (8, 4))]).encode()


def write(folder: Path, count: int, data: bytes) -> None:
    for number in range(count):
        inside = folder / f"repo{number % 50}"
        inside.mkdir(parents=True, exist_ok=True)
        (inside / f"model{number}-Q4_0.gguf").write_bytes(data)


def seconds(folder: Path) -> float:
    """One start of the program: its database opened, its folder scanned."""
    began = time.perf_counter()
    database = Database(folder / "models.sqlite")
    library = Library(database, lambda: Folders(folder / "models"))
    library.read()
    taken = time.perf_counter() - began
    database.close()
    return taken


def tell(what: str, count: int, tokens: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder / "models", count, model(tokens))
        first = seconds(folder)
        later = [seconds(folder) for _ in range(ROUNDS)]
    print(f"{count} {what}: first scan {first:.3f} s, later {min(later):.3f} to {max(later):.3f} s")


def main() -> None:
    tell("files with small headers", int(sys.argv[1]) if len(sys.argv) > 1 else FILES, 0)
    tell(f"files with {TOKENS:,} tokens", LARGE_FILES, TOKENS)


if __name__ == "__main__":
    main()
