"""On a device, too, the account of a load is what the load then allocates, to the byte.

The backend comes the way a user's does: installed, checked in a child, registered at the start.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from setup import backends
from setup.context import Context, cache_folder
from tests.support.tiny_models import write_tiny

KIND = os.environ.get("TWOFOLD_TEST_DEVICE", "rpc")
ROOT = Path(__file__).parents[2]
# In a process of its own: a backend that was registered stays registered.
COMPARE = """
import json, sys
from pathlib import Path
from engine.gguf.splits import open_model
from engine.native import native
from engine.probe.memory import exact_memory

path, layers = Path(sys.argv[1]), int(sys.argv[2])
parts = exact_memory(open_model(path), 512, "f16", 128, gpu_layers=layers)
model, context = native().ModelParams(), native().ContextParams()
model.paths, model.n_gpu_layers = [str(path)], layers
context.n_ctx, context.micro_batch, context.n_threads = 512, 128, 1
real = native().Session(model, context).memory
print(json.dumps({
    "counted": {kind: sum(getattr(part, kind) for part in parts)
                for kind in ("weights", "context", "compute")},
    "allocated": {kind: getattr(real, kind) for kind in ("weights", "context", "compute")},
    "there": sum(part.total for part in parts if not part.host),
}), flush=True)
import os; os._exit(0)
"""


@pytest.fixture
def device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[None]:
    """The backend installed in a home of its own; with RPC, a server on loopback, with as many
    MiB as the test asks for."""
    limit: list[str] = [str(request.param)] if hasattr(request, "param") else []
    file = backends.built(Context(ROOT, cache_folder(os.environ)), KIND)
    assert file is not None, f"./twofold backend build {KIND}"
    monkeypatch.setenv("TWOFOLD_HOME", str(tmp_path / "home"))
    from engine.backends import store

    backend = store.install(file)
    # What it computes has tests of its own, and a software driver takes a minute to check.
    verdict = store.Verdict(fingerprint=backend.fingerprint())
    store.set_verdict(backend, verdict)
    if KIND != "rpc":
        monkeypatch.setenv("GGML_VK_VISIBLE_DEVICES", "0")
        yield
        return
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    command = [sys.executable, "-m", "tests.support.rpc_server", file, str(port), *limit]
    environ = {**os.environ, "TWOFOLD_NO_BACKENDS": "1"}
    server = subprocess.Popen(command, stdin=subprocess.PIPE, cwd=ROOT, env=environ)
    try:
        deadline = time.monotonic() + 60
        while True:
            assert server.poll() is None and time.monotonic() < deadline
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.1)
        monkeypatch.setenv("TWOFOLD_RPC_SERVERS", f"127.0.0.1:{port}")
        yield
    finally:
        server.kill()
        server.wait()
        assert server.stdin is not None
        server.stdin.close()


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("layers", [-1, 1])
def test_the_account_is_what_a_load_allocates(layers: int, tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "tiny.gguf", "qwen35")
    done = subprocess.run(
        [sys.executable, "-c", COMPARE, str(path), str(layers)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["counted"] == found["allocated"]
    assert found["there"] > 0


LOAD = """
import sys
from engine.errors import NativeError
from engine.native import native

model, context = native().ModelParams(), native().ContextParams()
model.paths, model.n_gpu_layers = [sys.argv[1]], -1
context.n_ctx, context.micro_batch, context.n_threads = int(sys.argv[2]), 128, 1
try:
    native().Session(model, context)
    print("loaded", flush=True)
except NativeError as error:
    print("refused", error, flush=True)
import os; os._exit(0)
"""


@pytest.mark.skipif(KIND != "rpc", reason="only a server's memory can be made small")
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("device", [512], indirect=True)
def test_a_context_that_the_device_has_no_room_for_is_refused_and_a_small_one_is_not(
    tmp_path: Path,
) -> None:
    path = write_tiny(tmp_path / "tiny.gguf", "llama", context=1 << 20)

    def load(context: int) -> str:
        done = subprocess.run(
            [sys.executable, "-c", LOAD, str(path), str(context)],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
        )
        return f"{done.returncode} {done.stdout} {done.stderr[-1500:]}"

    assert load(256).startswith("0 loaded")
    told = load(1 << 20)
    assert told.startswith("0 refused"), told
    assert "failed to allocate" in told, told


SMALLER = """
import sys
from pathlib import Path
from engine.runtime.loaded_model import LoadedModel
from engine.runtime.settings import LoadSettings
from engine.runtime.smaller_load import DeviceMemoryShort

def load(layers, context, micro_batch):
    settings = LoadSettings(
        context=context, micro_batch=micro_batch, threads=1, gpu_layers=layers, slots=2
    )
    return LoadedModel(Path(sys.argv[1]), settings=settings)

try:
    load(5, 1 << 20, 128)
    print("loaded", flush=True)
except DeviceMemoryShort as error:
    told = error.data
    fits = load(told["layers"], told["context"], told["micro_batch"])
    fits.prefill(list(range(1, 40)), path="decoder", on_progress=lambda _: None)
    print("fits", told, sum(fits.device_bytes.values()), flush=True)
import os; os._exit(0)
"""


@pytest.mark.skipif(KIND != "rpc", reason="only a server's memory can be made small")
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("device", [512], indirect=True)
def test_a_load_that_has_no_room_tells_one_that_has(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "tiny.gguf", "llama", context=1 << 20)
    done = subprocess.run(
        [sys.executable, "-c", SMALLER, str(path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.stdout.startswith("fits"), (done.stdout, done.stderr[-2000:])
    assert "'device': 'RPC0'" in done.stdout and "GiB" in done.stdout
