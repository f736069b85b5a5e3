"""A backend is used only after a child process has seen it compute rightly."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.backends import store
from engine.backends.check import checked
from engine.backends.errors import BackendIsCarried, BackendNotFound, BackendWrongVersion
from engine.backends.registration import fit
from engine.backends.words import reason
from tests.support.backend_file import CRASHES
from tests.unit.backends.conftest import MakeBackend

HANGS = "#include <unistd.h>\nvoid *ggml_backend_init(void) { for (;;) sleep(1); }\n"

pytestmark = pytest.mark.usefixtures("home")


def test_one_that_crashes_is_not_used_and_the_reason_names_the_signal(
    make_backend: MakeBackend,
) -> None:
    backend = store.install(make_backend(CRASHES))
    assert not fit(backend)
    info = store.find("odd").info()
    assert (info.state, info.reason) == ("unfit", "crashed")
    assert "SIGABRT" in reason(info)


def test_one_that_hangs_is_given_up(make_backend: MakeBackend) -> None:
    verdict = checked(store.install(make_backend(HANGS)), time_limit_s=8.0)
    assert verdict.reason == "timeout"


def test_one_without_its_driver_says_which_library_lacks(
    make_backend: MakeBackend, tmp_path: Path
) -> None:
    (tmp_path / "driver.c").write_text("int cuInit(void) { return 0; }\n", encoding="utf-8")
    driver = tmp_path / "libcuda.so"
    command = ["cc", "-shared", "-Wl,-soname,libcuda.so.1", "-o", driver, tmp_path / "driver.c"]
    subprocess.run(command, check=True)
    code = "int cuInit(void);\nvoid *ggml_backend_init(void) { cuInit(); return 0; }\n"
    backend = store.install(make_backend(code, f"-L{tmp_path}", "-lcuda", name="cuda"))
    driver.unlink()
    info = store.set_verdict(backend, checked(backend)).info()
    assert info.reason == "no_driver"
    assert "NVIDIA's driver, libcuda.so.1" in reason(info)


def test_one_that_finds_its_loader_but_no_driver_says_so(make_backend: MakeBackend) -> None:
    backend = store.install(
        make_backend("void *ggml_backend_init(void) { return 0; }\n", name="vulkan")
    )
    info = store.set_verdict(backend, checked(backend)).info()
    assert info.reason == "no_driver"
    assert "No graphics driver was found for vulkan (missing: a Vulkan driver)" in reason(info)


def test_one_that_the_package_carries_is_used_like_an_installed_one_and_stays(
    make_backend: MakeBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    carried = tmp_path / "carried"
    carried.mkdir()
    file = carried / "libggml-odd.so"
    file.write_bytes(make_backend(CRASHES).read_bytes())
    file.chmod(0o555)
    monkeypatch.setattr(store, "carried_folder", lambda: carried)
    (backend,) = store.installed()
    assert (backend.path, backend.info().carried) == (file, True)
    assert not fit(backend)
    info = store.find("odd").info()
    assert (info.state, info.reason) == ("unfit", "crashed")
    assert [path.name for path in carried.iterdir()] == [file.name], "the verdict lies elsewhere"
    store.set_enabled("odd", False)
    assert store.find("odd").info().state == "disabled"
    with pytest.raises(BackendIsCarried):
        store.remove("odd")
    assert store.find("odd").info().state == "disabled"


def test_an_installed_one_takes_the_place_of_the_carried_one(
    make_backend: MakeBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    carried = tmp_path / "carried"
    carried.mkdir()
    (carried / "libggml-odd.so").write_bytes(make_backend(HANGS).read_bytes())
    monkeypatch.setattr(store, "carried_folder", lambda: carried)
    own = store.install(make_backend(CRASHES))
    assert [(one.path, one.carried) for one in store.installed()] == [(own.path, False)]
    store.remove("odd")
    assert [one.carried for one in store.installed()] == [True]


def test_a_library_that_is_no_backend_is_not_opened(make_backend: MakeBackend) -> None:
    verdict = checked(store.install(make_backend("int other(void) { return 1; }\n")))
    assert verdict.reason == "not_loaded"
    assert "ggml_backend_init" in verdict.detail


def test_one_that_lies_is_not_used(rpc_file: Path) -> None:
    verdict = checked(store.install(rpc_file), child="tests.support.lying_backend")
    assert verdict.reason == "wrong_values", verdict
    assert "RPC0: NVFP4" in verdict.detail


def test_one_that_is_right_is_registered_and_a_disabled_one_is_not(rpc_file: Path) -> None:
    backend = store.install(rpc_file)
    assert fit(backend), store.find("rpc").info()
    info = store.find("rpc").info()
    assert info.state == "ready"
    assert info.devices[0].kernels > 15

    def registered() -> list[str]:
        code = (
            "import ctypes; from engine.native import library_folder, native; native(); "
            "ggml = ctypes.CDLL(str(library_folder() / 'libllama.so')); "
            "ggml.ggml_backend_reg_by_name.restype = ctypes.c_void_p; "
            "print(bool(ggml.ggml_backend_reg_by_name(b'RPC')))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        return done.stdout.split()

    assert registered() == ["True"]
    store.set_enabled("rpc", False)
    assert registered() == ["False"]
    assert store.find("rpc").info().state == "disabled"


def test_the_verdict_holds_until_the_file_changes(make_backend: MakeBackend) -> None:
    backend = store.install(make_backend(CRASHES))
    fit(backend)
    assert store.find("odd").fresh_verdict() is not None
    os.utime(backend.path, ns=(1, 1))
    assert store.find("odd").info().state == "unchecked"


def test_one_for_another_version_is_not_installed(make_backend: MakeBackend) -> None:
    with pytest.raises(BackendWrongVersion):
        store.install(make_backend(CRASHES, version="0.0.1"))
    assert store.installed() == []


def test_a_removed_one_is_gone(make_backend: MakeBackend) -> None:
    store.install(make_backend(CRASHES))
    store.remove("odd")
    assert store.installed() == []
    with pytest.raises(BackendNotFound):
        store.remove("odd")


def test_a_state_that_cannot_be_read_counts_as_not_checked(make_backend: MakeBackend) -> None:
    backend = store.install(make_backend(CRASHES))
    backend.path.with_name("state.json").write_text("{", encoding="utf-8")
    assert store.find("odd").info().state == "unchecked"
