"""Opens a model for the worker and describes it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from engine.api.engine import LoadRequest, MemoryUse, ModelInfo
from engine.chat.model import Model
from engine.runtime.loaded_model import LoadedModel, OnLoad
from engine.runtime.rate_store import RateStore


class WorkerModel(Model, Protocol):
    """A model that also says how much memory it takes."""

    def memory_use(self) -> MemoryUse: ...

    def close(self) -> None: ...


# Gives the model and its description; the description's `notice` is added by the caller.
OpenModel = Callable[[LoadRequest, OnLoad], tuple[WorkerModel, ModelInfo]]


class ServedModel(LoadedModel):
    """A loaded model that says how much memory it takes."""

    def memory_use(self) -> MemoryUse:
        memory, prefill = self.memory, self.prefill_memory
        return MemoryUse(
            weights=memory.weights,
            context=memory.context,
            compute=memory.compute,
            on_devices=memory.on_devices,
            resident=prefill.resident,
            slots=prefill.slots,
            slots_allocated=prefill.slots_allocated,
            lent=prefill.lent,
            drafter=memory.drafter,
        )


def open_model(request: LoadRequest, on_load: OnLoad) -> tuple[WorkerModel, ModelInfo]:
    """Raises what LoadedModel raises."""
    started = time.perf_counter()
    path = Path(request.model).expanduser().absolute()
    prefiller = Path(request.prefiller).expanduser().absolute() if request.prefiller else None
    draft = Path(request.draft).expanduser().absolute() if request.draft else None
    model = ServedModel(
        path,
        prefiller=prefiller,
        draft=draft,
        force_pairing=request.force_pairing,
        settings=request.settings,
        on_load=on_load,
        rates=RateStore(),
    )
    metadata = model.files.metadata
    architecture = str(metadata.get("general.architecture", ""))

    def number(key: str) -> int:
        value: Any = metadata.get(f"{architecture}.{key}", 0)
        return value if isinstance(value, int) else 0

    info = ModelInfo(
        id=path.stem,
        path=path,
        name=str(metadata.get("general.name", path.stem)),
        architecture=architecture,
        file_bytes=sum(file.path.stat().st_size for file in model.files.files),
        context=model.n_ctx,
        trained_context=number("context_length"),
        micro_batch=model.micro_batch,
        blocks=number("block_count"),
        prefiller=prefiller,
        prefiller_bytes=model.prefiller.nbytes if model.prefiller else 0,
        draft=draft,
        pairing=model.pairing.verdict.value if model.pairing else None,
        pairing_reasons=tuple(model.pairing.reasons) if model.pairing else (),
        memory=model.memory_use(),
        device_blocks=model.device_blocks,
        device_bytes=model.device_bytes,
        load_s=time.perf_counter() - started,
    )
    return model, info
