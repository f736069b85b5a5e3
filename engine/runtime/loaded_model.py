"""A decoder in memory, with or without its prefiller: what a chat session talks to."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path as FilePath
from typing import Any

from engine.api.sampling import SamplingSettings
from engine.api.turn import DraftMethod, DraftReport, Path, PathSetting
from engine.backends.device_memory import facts as shortage_facts
from engine.backends.device_memory import shortage
from engine.chat.model import CANCELLED_TOKEN, PrefillReport, Progress
from engine.drafts.trust import trusted_drafter
from engine.errors import NativeError, TwofoldError
from engine.gguf.splits import GgufModel
from engine.gguf.types import GgmlType
from engine.kernels.attention import attention_tokens
from engine.kernels.autocast import prepare_autocast, prepare_decode
from engine.kernels.check import use_checked_kernel
from engine.native import native
from engine.planner.facts import block_bytes, model_facts
from engine.planner.rates import CPU
from engine.prefiller.formats import Prefiller, open_prefiller
from engine.prefiller.pairing import Pairing, require_pairing
from engine.runtime.drafts import draft_report
from engine.runtime.gpu_layers import (
    ALL_LAYERS,
    USUAL_WIDTH,
    Account,
    blocks_on_devices,
    device_account,
    device_rooms,
    fitting_layers,
)
from engine.runtime.pass_width import planned_width
from engine.runtime.rate_store import RateStore
from engine.runtime.router import Router
from engine.runtime.routing import NoPrefiller
from engine.runtime.settings import DEFAULT_CONTEXT, LoadSettings
from engine.runtime.smaller_load import DeviceMemoryShort, Load, smaller_load
from engine.runtime.trace import TRACE_EVENTS, write_trace
from engine.runtime.trust import trusted_model

CANCELLED = "cancelled"
_LINES_OF_FAILURE = 20
# Measuring what autocast gains takes about a second, once: too much for a shorter prompt.
_AUTOCAST_TOKENS = 256


class NoGpu(TwofoldError):
    """Layers were to be on a GPU, and the library has none. Data: `layers`."""

    code = "device.none"


# Fraction of the decoder that is loaded; answers false to stop.
OnLoad = Callable[[float], bool]


@dataclass(frozen=True, slots=True)
class PrefillMemory:
    """Bytes that the prefiller's weights take. `lent` are decoder weights that slots overwrite
    during prefill; `slots_allocated` is the part of the slots that found no room there. `host` is
    what a GPU copies from, `staging` what the disk is read into for it, both `pinned` where it can
    pin memory; `asynchronous`: it copies while it computes. `devices` hold the weights, if not the
    host does."""

    resident: int
    slots: int
    slots_allocated: int
    lent: int
    slot_count: int
    direct: bool
    host: int
    staging: int
    pinned: bool
    asynchronous: bool
    devices: tuple[str, ...]

    @property
    def weights(self) -> int:
        """All memory that holds prefill weights while a prompt is read, lent memory included."""
        return self.resident + self.slots + self.host


class LoadedModel:
    """One model with one context and one cache (`engine.chat.model.Model`).

    Made, used and closed on one thread; only `cancel` may be called from another.
    """

    def __init__(
        self,
        path: FilePath,
        *,
        prefiller: FilePath | None = None,
        draft: FilePath | None = None,
        force_pairing: bool = False,
        settings: LoadSettings | None = None,
        on_load: OnLoad | None = None,
        rates: RateStore | None = None,
        trace: FilePath | None = None,
    ) -> None:
        """Raises GgufError, PrefillerError, DraftError, PairingRefused, DeviceMemoryShort or
        NativeError; nothing stays loaded.

        `draft`: a smaller model of the same tokens, or an EAGLE-3 head made for this one, which
        drafts in place of the n-gram lookup.
        `rates` keeps what runs teach about the paths; without it, each load learns anew.
        `trace`: a file for the timeline of the last prompt that was streamed.
        `device_blocks` of the decoder's last blocks are on devices other than the CPU, where the
        decoder takes `device_bytes` by device.
        """
        self.settings = settings or LoadSettings()
        self.files: GgufModel = trusted_model(path)
        self.prefiller: Prefiller | None = None
        self.pairing: Pairing | None = None
        self._force_pairing = force_pairing
        self._trace = trace
        if prefiller is not None:
            self._open_prefiller(prefiller)
        self.drafter = trusted_drafter(draft, self.files) if draft is not None else None
        self._native = native()
        use_checked_kernel()
        prepare_decode(self.weight_types, self.settings.threads)
        self._session: Any = self._open_session(on_load)
        if self.drafter is not None:
            params = self._model_params(self.drafter, self.n_ctx, self.micro_batch)
            self._session.draft_with(params, _or_silent(on_load))
        self._autocast_known = False
        self._attention_known = False
        self._always_drafted = 0
        self._kept: int | None = None  # blocks of the attached prefiller that stay in memory
        self._router = Router(
            self.files,
            self.settings,
            context=self.n_ctx,
            micro_batch=self.micro_batch,
            min_prefill_tokens=self._native.min_prefill_tokens,
            near_blocks=self.device_blocks,
            store=rates,
        )
        self._specials = {
            name: self._session.piece(token, True).decode("utf-8", "replace") if token >= 0 else ""
            for name, token in (("bos", self._session.bos), ("eos", self._session.eos))
        }

    def _open_session(self, on_load: OnLoad | None) -> Any:
        context = self._native.ContextParams()
        context.n_ctx = self.settings.context or min(self._trained_context(), DEFAULT_CONTEXT)
        rooms = device_rooms()
        if self.settings.gpu_layers and not rooms:
            raise NoGpu(layers=self.settings.gpu_layers)
        computes = rooms[0].name if rooms and self.settings.gpu_layers != 0 else CPU
        width = self.settings.micro_batch or planned_width(
            self.files, self.prefiller, self.settings, context.n_ctx, computes
        )
        if width is None and computes != CPU:
            width = USUAL_WIDTH  # the budget is the host's memory, and says nothing of a card's
        context.micro_batch = min(width or 0, context.n_ctx)  # 0: as wide as the budget allows
        context.compute_budget = self.settings.compute_budget
        context.n_threads = self.settings.threads
        params = self._model_params(self.files, context.n_ctx, context.micro_batch)
        layers: int = params.n_gpu_layers
        self.device_blocks = blocks_on_devices(layers, _blocks(self.files))
        self.device_bytes: dict[str, int] = {}
        if layers:
            account = device_account(self.files, context.n_ctx, context.micro_batch, rooms)
            self.device_bytes = {name: size for name, size in account(layers).items() if size}
        try:
            return self._native.Session(params, context, _or_silent(on_load))
        except NativeError as error:
            count = _blocks(self.files) + 1 if layers == ALL_LAYERS else layers
            asked = Load(count, context.n_ctx, context.micro_batch)
            raise self._with_smaller(error, asked) or error from error

    def _with_smaller(self, error: NativeError, asked: Load) -> DeviceMemoryShort | None:
        """What would have fitted, if the error is a device's memory; else None."""
        if error.code not in ("model.load_failed", "context.failed"):
            return None
        # The error has the library's last line; the one with the numbers is before it.
        short = shortage(self._native.library_log_tail(_LINES_OF_FAILURE))
        rooms = device_rooms()
        room = next((one for one in rooms if short and one.name == short.device), None)
        if short is None or room is None:
            return None

        def account_of(context: int, width: int) -> Account:
            return device_account(self.files, context, width, rooms)

        fits = smaller_load(asked, _blocks(self.files), account_of, room, short.wanted)
        return DeviceMemoryShort(**shortage_facts(short, room.free), **asdict(fits))

    def _model_params(self, files: GgufModel, context: int, width: int) -> Any:
        model = self._native.ModelParams()
        model.paths = [str(file.path) for file in files.files]
        model.n_gpu_layers = self._gpu_layers(files, context, width)
        return model

    def _gpu_layers(self, files: GgufModel, context: int, width: int) -> int:
        """As the library counts: as many as were asked for, or as there is room for now."""
        if self.settings.gpu_layers is not None:
            return self.settings.gpu_layers
        rooms = device_rooms()
        if not rooms:
            return 0
        account = device_account(files, context, width, rooms)
        return fitting_layers(_blocks(files), account, rooms, self._slot_bytes())

    def _slot_bytes(self) -> int:
        """Memory of their own that slots take beside the decoder."""
        if self.prefiller is None or self.settings.carve_out:
            return 0
        return self.settings.slots * max(block_bytes(self.prefiller, model_facts(self.files)))

    def _open_prefiller(self, path: FilePath) -> Prefiller:
        found = open_prefiller(path)
        if found != self.prefiller:
            self.pairing = require_pairing(found, self.files, force=self._force_pairing)
            self.prefiller = found
        return found

    def _trained_context(self) -> int:
        metadata = self.files.metadata
        trained = metadata.get(f"{metadata.get('general.architecture')}.context_length")
        return trained if isinstance(trained, int) and trained > 0 else DEFAULT_CONTEXT

    def close(self) -> None:
        """Frees the model; the object is of no use afterwards."""
        self._session = None

    # --- paths -------------------------------------------------------------------------------

    def prepare(self, path: Path, on_load: OnLoad | None = None) -> None:
        """Puts the prefiller where `path` wants it: all of it in memory, or slots for streaming.

        Does nothing for `decoder` and `autocast`. A prefiller that was replaced on disk is read
        anew. Raises NoPrefiller, a PrefillerError, or NativeError (`phase.*`, `disk.*`,
        `memory.out`, `cancelled`), after which no prefiller is attached.
        """
        self._attach(path, self._router.blocks if path == "resident" else 0, on_load)

    def _attach(self, path: Path, kept: int, on_load: OnLoad | None) -> None:
        """`kept` of the prefiller's blocks in memory, slots for the others: see `prepare`."""
        if path in ("decoder", "autocast") or kept == self._kept:
            return
        if self.prefiller is None:
            raise NoPrefiller(path=path)
        prefiller = self._open_prefiller(self.prefiller.path)
        tier = self._native.Tier
        plan = self._native.PrefillPlan()
        plan.tiers = [getattr(tier, name) for name in self._router.tiers(kept)]
        plan.slots = self.settings.slots
        plan.carve_out = self.settings.carve_out
        plan.in_flight = self.settings.in_flight
        plan.request_bytes = self.settings.request_bytes
        plan.trace_limit = TRACE_EVENTS if self._trace else 0
        self._kept = None

        def progress(done: int, total: int) -> bool:
            return on_load(done / total) if on_load else True

        files, decoder = self._prefiller_files(prefiller), self._decoder_files()
        self._session.attach(files, decoder, plan, progress)
        self._kept = kept

    def release(self) -> None:
        """Frees the memory that the prefiller takes; a path that needs it attaches it again."""
        self._session.detach()
        self._kept = None

    def _prefiller_files(self, prefiller: Prefiller) -> Any:
        files = self._native.PrefillerFiles()
        files.paths = [str(path) for path in prefiller.files]
        for tensor in prefiller.tensors:
            columns, rows = tensor.shape
            files.add(
                tensor.name,
                tensor.block,
                tensor.file_index,
                tensor.offset,
                tensor.nbytes,
                columns,
                rows,
                tensor.scale,
            )
        return files

    def _decoder_files(self) -> Any:
        files = self._native.DecoderFiles()
        files.paths = [str(file.path) for file in self.files.files]
        for index, file in enumerate(self.files.files):
            for tensor in file.tensors:
                files.add(tensor.name, index, tensor.absolute_offset, tensor.nbytes)
        return files

    def _autocast_share(self, setting: PathSetting, tokens: int) -> float:
        """Of the decoder's weights, how many autocast multiplies in such a prompt, 0 to 1.

        Measures the decoder's types the first time that the answer matters.
        """
        asked = setting == "autocast" and tokens >= self._native.min_prefill_tokens
        worth = setting == "auto" and self.prefiller is None and tokens >= _AUTOCAST_TOKENS
        if not (asked or worth):
            return 0.0
        if not self._autocast_known:
            prepare_autocast(self.weight_types, self.settings.threads)
            self._autocast_known = True
        return self._session.autocast_share(tokens)

    def _prepare_attention(self) -> None:
        """Measures the attention of the model's heads before the first prompt that needs it."""
        if not self._attention_known:
            heads, threads = self._session.attention_heads, self.settings.threads
            self._session.set_attention_tokens(attention_tokens(heads, threads))
            self._attention_known = True

    @property
    def weight_types(self) -> set[str]:
        """Of the blocks' matrices."""
        tensors = (tensor for file in self.files.files for tensor in file.tensors)
        return {t.type.name for t in tensors if t.name.startswith("blk.") and len(t.shape) > 1}

    @property
    def _loaded_bytes(self) -> int:
        """Memory that the model itself holds, which a plan for it counts once more."""
        memory = self._session.memory
        return memory.weights + memory.context + memory.compute + memory.drafter

    @property
    def prefill_memory(self) -> PrefillMemory:
        memory = self._session.prefill_memory
        return PrefillMemory(
            resident=memory.resident_bytes,
            slots=memory.slot_bytes,
            slots_allocated=memory.allocated_slot_bytes,
            lent=memory.lent_bytes,
            slot_count=memory.slots,
            direct=memory.direct,
            host=memory.host_bytes,
            staging=memory.staging_bytes,
            pinned=memory.pinned,
            asynchronous=memory.asynchronous,
            devices=tuple(memory.devices),
        )

    # --- what a chat session needs -----------------------------------------------------------

    @property
    def n_ctx(self) -> int:
        return self._session.n_ctx

    @property
    def micro_batch(self) -> int:
        return self._session.micro_batch

    @property
    def bos_text(self) -> str:
        return self._specials["bos"]

    @property
    def eos_text(self) -> str:
        return self._specials["eos"]

    @property
    def chat_template(self) -> str | None:
        return self._session.chat_template or None

    @property
    def can_truncate(self) -> bool:
        return self._session.can_truncate

    @property
    def cached_tokens(self) -> Sequence[int]:
        return self._session.cached_tokens

    def checkpoints(self) -> Sequence[int]:
        return self._session.checkpoints

    def save_checkpoint(self) -> None:
        self._session.save_checkpoint()

    def drop_checkpoint(self, position: int) -> None:
        self._session.drop_checkpoint(position)

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        return self._session.tokenize(text, add_special, parse_special)

    def piece(self, token: int) -> bytes:
        return self._session.piece(token, True)

    def is_end_of_generation(self, token: int) -> bool:
        return self._session.ends_generation(token)

    def keep(self, n: int) -> int:
        return self._session.keep(n)

    def prefill(
        self, tokens: Sequence[int], *, path: PathSetting, on_progress: Callable[[Progress], None]
    ) -> PrefillReport:
        started = time.perf_counter()
        self._session.reset_cancel()
        before = len(self._session.cached_tokens)
        chosen = self._router.choose(
            path,
            len(tokens),
            cached=before,
            prefiller=self.prefiller,
            attached=self._kept,
            loaded=self._loaded_bytes,
            policy=self.settings.policy,
            autocast_share=self._autocast_share(path, len(tokens)),
        )
        with_prefiller = chosen.path in ("resident", "odp")

        def progress(native_progress: Any) -> bool:
            on_progress(
                Progress(
                    path=chosen.path,
                    reason=chosen.reason,
                    tokens_done=_tokens_done(native_progress),
                    tokens_total=native_progress.tokens_total,
                    block=native_progress.blocks_done,
                    blocks=native_progress.blocks_total,
                    bytes_read=native_progress.bytes_read,
                    seconds=time.perf_counter() - started,
                    expected_s=chosen.expected_s,
                )
            )
            return True

        def loading(_share: float) -> bool:
            seconds = time.perf_counter() - started
            nothing = Progress(chosen.path, chosen.reason, 0, len(tokens), 0, 0, 0, seconds)
            on_progress(replace(nothing, expected_s=chosen.expected_s))
            return True

        loading(0.0)
        try:
            # A short tail is read by the decoder, with whatever is attached left as it is.
            self._attach(chosen.path, chosen.kept, loading)
            if chosen.path != "decoder" or GgmlType.NVFP4.name in self.weight_types:
                self._prepare_attention()
            done = self._session.prefill(
                tokens, with_prefiller, progress, autocast=chosen.path == "autocast"
            )
        except NativeError as error:
            if error.code.startswith("disk."):
                self._kept = None  # the next prompt opens the files anew
            if error.code != CANCELLED:
                raise
            return PrefillReport(
                path=chosen.path,
                reason=chosen.reason,
                tokens=max(0, len(self._session.cached_tokens) - before),
                seconds=time.perf_counter() - started,
                cancelled=True,
            )
        if self._trace and with_prefiller and (events := self._session.stream_events):
            write_trace(self._trace, events)
        self._router.learn(
            chosen.path, chosen.kept, done.tokens, before, done.seconds, self.prefiller
        )
        return PrefillReport(
            path=chosen.path,
            reason=chosen.reason,
            tokens=done.tokens,
            seconds=time.perf_counter() - started,
            bytes_read=done.bytes_read,
            wait_s=done.wait_seconds,
            load_s=done.load_seconds,
            weight_bytes=self.prefill_memory.weights if with_prefiller else 0,
        )

    def start_sampling(self, settings: SamplingSettings) -> None:
        params = self._native.SamplerParams()
        params.temperature = settings.temperature
        params.top_k = settings.top_k
        params.top_p = settings.top_p
        params.min_p = settings.min_p
        params.repeat_penalty = settings.repeat_penalty
        params.frequency_penalty = settings.frequency_penalty
        params.presence_penalty = settings.presence_penalty
        params.penalty_last_n = settings.penalty_last_n
        params.seed = settings.seed or 0
        self._session.start_sampling(params)
        self._session.use_drafts(settings.drafts == "auto", self._always_drafted)

    def draft_report(self) -> DraftReport | None:
        return draft_report(self._session.draft_statistics, self.draft_method)

    def constrain(self, grammar: str) -> None:
        self._session.constrain(grammar)

    def next_token(self) -> int:
        try:
            return self._session.next_token()
        except NativeError as error:
            if error.code == CANCELLED:
                return CANCELLED_TOKEN
            raise

    def cancel(self) -> None:
        session = self._session
        if session is not None:
            session.cancel()

    @property
    def draft_method(self) -> DraftMethod:
        if self.drafter is None:
            return "ngram"
        return "eagle3" if self.drafter.metadata["general.architecture"] == "eagle3" else "model"

    # --- measuring ---------------------------------------------------------------------------

    def always_draft(self, tokens: int) -> None:
        """From the next answer on, verifies as many drafted tokens whether it pays or not; 0 ends
        that."""
        self._always_drafted = tokens

    @property
    def most_drafted(self) -> int:
        """Drafted tokens that one pass can verify; 0 for a model that cannot take them back."""
        return self._session.most_drafted

    def logits(self) -> Any:
        """Logits after the last evaluated token: float32, shape [n_vocab]."""
        return self._session.logits()

    def feed(self, token: int, guesses: Sequence[int] = ()) -> None:
        """Evaluates `token` with the decoder's weights, and in the same pass what may follow it."""
        self._session.feed(token, guesses)

    def losses(self, tokens: Sequence[int], *, autocast: bool) -> tuple[list[float], float]:
        """How surprising each token but the first is after those before it, in nats; and the share
        of the decoder's weights that kernels of ours multiplied, re-encoded.

        Read by the path `autocast` or `decoder`, in a context of its own. Raises NativeError.
        """
        self._session.reset_cancel()
        share = self._autocast_share("autocast", len(tokens)) if autocast else 0.0
        if autocast:
            self._prepare_attention()
        return self._session.losses(list(tokens), autocast), share

    def decoder_checksum(self) -> int:
        """A hash over every byte of the decoder's weights in memory."""
        return self._session.decoder_checksum()

    @property
    def memory(self) -> Any:
        """Bytes of weights, context and compute buffers, and how many of them are on devices."""
        return self._session.memory


def _blocks(files: GgufModel) -> int:
    metadata = files.metadata
    count = metadata.get(f"{metadata.get('general.architecture')}.block_count")
    return count if isinstance(count, int) else 0


def _or_silent(on_load: OnLoad | None) -> OnLoad:
    return lambda done: on_load(done) if on_load else True


def _tokens_done(progress: Any) -> int:
    """Tokens read, those of the running pass in proportion to its blocks."""
    left = progress.tokens_total - progress.tokens_done
    passes_left = progress.passes - progress.pass_index
    if progress.blocks_total == 0 or passes_left <= 0 or left <= 0:
        return progress.tokens_done
    share = progress.blocks_done / progress.blocks_total
    return progress.tokens_done + int(left / passes_left * share)
