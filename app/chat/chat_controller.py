"""The chat that is open: sends, stops, regenerates, edits, branches, continues, and shows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.chat.chat_view import PATHS, ChatView
from app.chat.composer_controller import ComposerController
from app.chat.context_use import ContextUse
from app.chat.conversation import request, title_of
from app.chat.prose import copy_text
from app.chat.transcript_controller import TranscriptController
from app.chat.writer import Writer
from app.engine_client.client import Connection
from app.engine_client.failures import sentence
from app.i18n import numbers, tr
from app.shell.announce import announce
from app.shell.context import Context
from app.shell.model_loader import ModelLoader
from app.store.chats import ChatStore
from app.store.records import Attachment, Chat, ChatSettings, MessageRow, Preset
from engine.api.engine import EngineState, LoadProgress


class ChatController(QObject):
    """Signals: `stored` when the sidebar's list is out of date, `opened` with the chat's id."""

    stored = Signal()
    opened = Signal(object)

    def __init__(
        self, context: Context, loader: ModelLoader, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._context = context
        self._store = context.store
        self._engine = context.engine
        self._loader = loader
        self.transcript = TranscriptController(context.background, self)
        self.composer = ComposerController(context, self)
        self.view = ChatView(self.transcript.view, self.composer.view)
        self._chat: Chat | None = None
        self._settings = ChatSettings(path=context.preferences.values.path)
        self._writers: dict[int, Writer] = {}  # by chat
        self._round = 0
        self._typed_tokens = 0
        self._use = ContextUse(self._engine, self)
        self._use.changed.connect(self._show_context)
        self._loading: LoadProgress | None = None

        self.transcript.acted.connect(self._on_action)
        self.composer.sent.connect(self._on_sent)
        self.composer.edited.connect(self._on_edited)
        self.composer.counted.connect(self._on_counted)
        self.composer.view.stopped.connect(self.stop)
        self.composer.view.text.scroll_key.connect(self.transcript.view.scroll_by_key)
        view = self.view
        view.path.activated.connect(self._on_path)
        view.settings_panel.changed.connect(self._on_settings)
        view.settings_panel.preset_saved.connect(self._on_preset_saved)
        view.settings_panel.preset_deleted.connect(self._on_preset_deleted)
        view.model.clicked.connect(self.choose_model)
        view.empty.models_asked.connect(self.choose_model)
        view.empty.demo_asked.connect(loader.load_demo)
        view.empty.restart_asked.connect(loader.restart)
        self._engine.state_changed.connect(self._on_engine)
        self._engine.connection_changed.connect(self._on_engine)
        self._engine.loading.connect(self._on_loading)
        self._load_presets()
        self.new_chat()

    @property
    def chat(self) -> int | None:
        return self._chat.row.id if self._chat is not None else None

    @property
    def messages(self) -> Sequence[MessageRow]:
        return self._chat.messages if self._chat is not None else ()

    @property
    def writer(self) -> Writer | None:
        """The answer that is being written in the open chat."""
        return self._writers.get(self.chat) if self.chat is not None else None

    # Opening

    def new_chat(self) -> None:
        self._round += 1
        self._chat = None
        self._settings = ChatSettings(path=self._context.preferences.values.path)
        self.view.uncover()
        self.composer.open_chat(None)
        self.transcript.end_live()
        self.transcript.show(())
        self._show_all()
        self.opened.emit(None)
        self.composer.view.text.setFocus()

    def open_chat(self, chat: int, message: int | None = None) -> None:
        """Shows the chat; with `message`, the branch that it is on, scrolled to it."""
        if chat != self.chat:
            self.composer.open_chat(chat)

        def work(store: ChatStore) -> Chat | None:
            if message is not None:
                store.reveal(message)
            return store.chat(chat)

        self._load(work, reveal=message)

    def _load(self, work: Callable[[ChatStore], Chat | None], *, reveal: int | None = None) -> None:
        """Shows the chat that `work` gives, unless another was opened in the meantime."""
        self._round += 1
        number = self._round

        def show(chat: Chat | None) -> None:
            if number == self._round and chat is not None:
                self._show_chat(chat, reveal=reveal)

        self._store.ask(work, show)

    def _show_chat(self, chat: Chat, *, reveal: int | None = None) -> None:
        other = chat.row.id != self.chat
        self._chat = chat
        self._settings = chat.settings
        writer = self.writer
        messages = list(chat.messages)
        live: MessageRow | None = None
        if writer is not None and messages and messages[-1].id == writer.message:
            live = messages.pop()
        if other:
            self.view.uncover()
            self.transcript.end_live()
        self.transcript.show(messages, follow=other and reveal is None)
        if live is not None and writer is not None:
            self.transcript.begin_live(live)
            self.transcript.live_reading(writer.state)
            self.transcript.live_text(writer)
        if reveal is not None:
            self.transcript.reveal(reveal)
        self._show_all()
        if other:
            self.opened.emit(chat.row.id)
            self.composer.view.text.setFocus()

    def _reload(self) -> None:
        if (chat := self.chat) is not None:
            self._load(lambda store: store.chat(chat))

    # Asking

    def _on_sent(self, text: str, files: list[Attachment]) -> None:
        parent = self.messages[-1].id if self.messages else None
        add = partial(_add_user, text=text, files=files, parent=parent)
        self._ask(add, lost=partial(self._give_back, text, files))

    def _on_edited(self, message: int, text: str) -> None:
        """A person's message gets another version and another answer; an answer is replaced."""
        old = self._message(message)
        if old is None:
            return
        if old.role == "assistant":
            self._store.ask(lambda store: store.edit(message, text), lambda _: self._reload())
            return
        add = partial(_add_user, text=text, files=list(old.attachments), parent=old.parent)
        self._ask(add, lost=partial(self._give_back, text, []))

    def _give_back(self, text: str, files: list[Attachment], error: BaseException) -> None:
        """A message that could not be stored is not lost: it goes back to where it was written."""
        self.composer.give_back(text, files)
        if self._store.on_error is not None:
            self._store.on_error(error)

    def regenerate(self, message: int) -> None:
        old = self._message(message)
        if old is not None and old.parent is not None:
            parent = old.parent
            self._ask(lambda _store, _chat: parent)

    def regenerate_last(self) -> None:
        if self.messages and self.messages[-1].role == "assistant":
            self.regenerate(self.messages[-1].id)

    def copy_last(self) -> None:
        last = next((item for item in reversed(self.messages) if item.role == "assistant"), None)
        if last is not None:
            copy_text(last.content)
            self._context.notify(tr("chat.copied"))

    def _ask(
        self,
        add: Callable[[ChatStore, int], int],
        *,
        left_out: Callable[[Chat], int] | None = None,
        lost: Callable[[BaseException], None] | None = None,
    ) -> None:
        """Adds what `add` does (it gives the message to answer), then has the answer written."""
        if self.writer is not None:
            return
        chat, settings = self.chat, self._settings
        self._round += 1
        number = self._round

        def work(store: ChatStore) -> tuple[Chat, int]:
            key = chat if chat is not None else store.create_chat(settings=settings)
            question = add(store, key)
            answer = store.add_message(key, "assistant", "", parent=question, status="streaming")
            stored = store.chat(key)
            assert stored is not None
            if chat is None:
                first = stored.messages[0]
                store.rename(key, title_of(first.content, first.attachments))
                stored = store.chat(key)
                assert stored is not None
            return stored, answer

        def done(result: tuple[Chat, int]) -> None:
            stored, answer = result
            self.stored.emit()
            before = stored.messages[:-1]
            dropped = left_out(stored) if left_out is not None else 0
            writer = self._make_writer(
                stored, answer, request(before[dropped:], settings), left_out=dropped
            )
            if number == self._round:
                if chat is None:
                    self.composer.chat_created(stored.row.id)
                self._show_chat(stored)
                self.transcript.view.scroll_to_end()
                if chat is None:
                    self.opened.emit(stored.row.id)
            writer.start()

        self._store.ask(work, done, lost)

    def continue_answer(self, message: int) -> None:
        """Goes on with the last answer, in place."""
        chat = self._chat
        old = self._message(message)
        if chat is None or old is None or self.writer is not None:
            return
        body = request(chat.messages, self._settings, continue_last=True)

        def work(store: ChatStore) -> Chat | None:
            store.reopen(message)
            return store.chat(chat.row.id)

        def done(stored: Chat | None) -> None:
            if stored is None:
                return
            begun = (old.content, old.reasoning or "")
            writer = self._make_writer(stored, message, body, begun_with=begun)
            if stored.row.id == self.chat:
                self._show_chat(stored)
            writer.start()

        self._store.ask(work, done)

    def _make_writer(
        self,
        chat: Chat,
        message: int,
        body: dict[str, object],
        *,
        begun_with: tuple[str, str] = ("", ""),
        left_out: int = 0,
    ) -> Writer:
        writer = Writer(
            self._engine,
            self._store,
            body,
            chat=chat.row.id,
            message=message,
            begun_with=begun_with,
            left_out=left_out,
            parent=self,
        )
        self._writers[chat.row.id] = writer
        writer.text.connect(partial(self._on_text, writer))
        writer.reading.connect(partial(self._on_reading, writer))
        writer.notice.connect(partial(self._on_notice, writer))
        writer.ended.connect(partial(self._on_ended, writer))
        return writer

    def stop(self) -> None:
        if self.writer is not None:
            self.writer.stop()

    def _on_text(self, writer: Writer) -> None:
        if writer is self.writer:
            self.transcript.live_text(writer)

    def _on_reading(self, writer: Writer, state: object) -> None:
        if writer is self.writer:
            self.transcript.live_reading(state)

    def _on_notice(self, writer: Writer, words: str) -> None:
        if writer is self.writer:
            self.transcript.live_notice(words)

    def _on_ended(self, writer: Writer) -> None:
        is_open = writer is self.writer
        self._writers.pop(writer.chat, None)
        writer.deleteLater()
        self.stored.emit()
        if is_open:
            problem = writer.problem
            announce(self.view, sentence(problem) if problem else tr("chat.answer_done"))
            chat = writer.chat

            def show(stored: Chat | None) -> None:
                if stored is not None and stored.row.id == self.chat:
                    self.transcript.end_live()
                    self._show_chat(stored)

            self._store.ask(lambda store: store.chat(chat), show)

    def close(self) -> None:
        """Keeps what is being written, everywhere."""
        self.composer.flush()
        for writer in list(self._writers.values()):
            writer.close()

    # What is done to messages

    def _on_action(self, action: str, message: int) -> None:
        match action:
            case "copy":
                self._context.notify(tr("chat.copied"))
            case "edit":
                self._edit(message)
            case "delete":
                self._delete(message)
            case "regenerate":
                self.regenerate(message)
            case "continue":
                self.continue_answer(message)
            case "older" | "newer":
                step = 1 if action == "newer" else -1
                self._store.ask(
                    lambda store: store.show_version(message, step), lambda _: self._reload()
                )
            case "why":
                self._show_why(message)
            case "help":
                self._help(message)
            case "stop":
                self.stop()
            case _:
                pass

    def _edit(self, message: int) -> None:
        old = self._message(message)
        if old is not None:
            words = tr("chat.editing" if old.role == "user" else "chat.editing_answer")
            self.composer.edit(message, old.content, words)

    def _delete(self, message: int) -> None:
        def undo() -> None:
            self._store.ask(lambda store: store.restore_message(message), lambda _: self._reload())

        def done(_: None) -> None:
            self._reload()
            self._context.notify(tr("chat.message_deleted"), tr("common.undo"), undo)

        self._store.ask(lambda store: store.delete_message(message), done)

    def _show_why(self, message: int) -> None:
        old = self._message(message)
        self.view.why_panel.show_report(old.report if old is not None else None)
        self.view.show_panel("why")

    def _help(self, message: int) -> None:
        """The button on a failure's card."""
        old = self._message(message)
        if old is None or old.failure is None:
            return
        code = str(old.failure.get("code", ""))
        if code.startswith(("window.engine_", "worker.")):
            self._loader.restart()
            self.regenerate(message)
        elif code == "chat.context_overflow":
            self._answer_shortened(message, old.failure.get("data", {}))
        elif code in ("engine.nothing_loaded", "engine.replaced", "model_not_found"):
            self.choose_model()
        else:
            self.regenerate(message)

    def _answer_shortened(self, message: int, facts: dict[str, int]) -> None:
        """Answers without the oldest messages, as many as do not fit; that is said below."""
        old = self._message(message)
        if old is None or old.parent is None:
            return
        parent = old.parent
        fits = facts.get("available", 0) / max(1, facts.get("needed", 1))

        def left_out(chat: Chat) -> int:
            before = chat.messages[:-1]
            lengths = [
                len(item.content) + sum(len(file.text) for file in item.attachments)
                for item in before
            ]
            # A little less than would fit by length: tokens are not characters.
            room = sum(lengths) * fits * 0.9
            dropped = 0
            while dropped < len(before) - 1 and sum(lengths[dropped:]) > room:
                dropped += 2  # a question goes with its answer
            return min(dropped, len(before) - 1)

        self._ask(lambda _store, _chat: parent, left_out=left_out)

    def _message(self, message: int) -> MessageRow | None:
        return next((item for item in self.messages if item.id == message), None)

    # Settings and presets

    def choose_path(self, path: str) -> None:
        """The open chat reads its prompts this way from now on."""
        self.view.path.setCurrentIndex(PATHS.index(path))
        self._on_path(PATHS.index(path))

    def _on_path(self, number: int) -> None:
        path = PATHS[number]
        self._change_settings(
            ChatSettings(self._settings.system_prompt, self._settings.sampling, path)
        )
        self._context.preferences.values.path = path
        self._context.preferences.save()

    def _on_settings(self, settings: ChatSettings) -> None:
        self._change_settings(
            ChatSettings(settings.system_prompt, settings.sampling, self._settings.path)
        )

    def _change_settings(self, settings: ChatSettings) -> None:
        self._settings = settings
        self._show_context()
        if (chat := self.chat) is not None:
            self._store.ask(lambda store: store.set_settings(chat, settings))

    def _on_preset_saved(self, name: str, settings: ChatSettings) -> None:
        self._store.ask(
            lambda store: store.save_preset(name, settings), lambda _: self._load_presets()
        )

    def _on_preset_deleted(self, preset: int) -> None:
        self._store.ask(lambda store: store.delete_preset(preset), lambda _: self._load_presets())

    def _load_presets(self) -> None:
        def show(presets: list[Preset]) -> None:
            self.view.settings_panel.show_presets(presets)

        self._store.ask(lambda store: store.presets(), show)

    # The model

    def choose_model(self) -> None:
        self._context.show_page("models")

    # Showing the state of things

    def _on_engine(self, _: object) -> None:
        if self._engine.state.status != "loading":
            self._loading = None
        self._show_all()

    def _on_loading(self, progress: LoadProgress) -> None:
        self._loading = progress
        self._show_engine()

    def _on_counted(self, tokens: int) -> None:
        self._typed_tokens = tokens
        self._show_context()

    def _show_all(self) -> None:
        busy = self.writer is not None
        self.view.show_messages(bool(self.messages))
        self.composer.set_busy(busy)
        self.view.path.setCurrentIndex(PATHS.index(self._settings.path))
        self.view.settings_panel.show_settings(self._settings)
        last = next((item for item in reversed(self.messages) if item.report), None)
        self.view.why_panel.show_report(last.report if last is not None else None)
        self._show_engine()
        self._show_context()

    def _show_context(self) -> None:
        model = self._engine.state.model
        available = model.context if model is not None else 0
        self._use.show(self.messages, self._settings)
        self.composer.set_budget(self._use.tokens, available)
        self.view.context.show_use(self._use.tokens + self._typed_tokens, available)

    def _show_engine(self) -> None:
        state = self._engine.state
        model = state.model
        if model is None:
            self.view.model.show_words(tr("chat.no_model"))
        elif model.prefiller is not None:
            self.view.model.show_words(tr("chat.with_prefiller", model=model.name))
        else:
            self.view.model.show_words(model.name)
        self._show_empty(state)
        has_messages = bool(self.messages)
        self.view.show_status(self._status_words(state) if has_messages else "")

    def _status_words(self, state: EngineState) -> str:
        match self._engine.connection:
            case Connection.STARTING:
                return tr("chat.engine_starting")
            case Connection.DIED | Connection.STOPPED:
                return tr("chat.engine_stopped")
            case Connection.CONNECTED:
                pass
        if state.status == "loading":
            return self._loading_words()
        return tr("chat.no_model") if state.status == "empty" else ""

    def _loading_words(self) -> str:
        progress = self._loading
        if progress is None:
            return tr("chat.model_loading")
        return tr("chat.model_loading_part", percent=numbers.percent(progress.fraction))

    def _show_empty(self, state: EngineState) -> None:
        empty = self.view.empty
        connection = self._engine.connection
        demo = self._loader.demo() is not None
        if connection is Connection.STARTING:
            empty.show_state(tr("empty.title"), tr("chat.engine_starting"))
        elif connection is not Connection.CONNECTED:
            problem = self._engine.failure
            words = sentence(problem) if problem is not None else tr("chat.engine_stopped")
            empty.show_state(tr("empty.stopped"), words, restart=True)
        elif state.status == "loading":
            fraction = self._loading.fraction if self._loading is not None else 0.0
            name = Path(self._loader.chosen or "").stem
            empty.show_state(
                tr("empty.loading", model=name), self._loading_words(), progress=fraction
            )
        elif state.status == "failed" and state.failure is not None:
            empty.show_state(tr("empty.failed"), sentence(state.failure), choose=True, demo=demo)
        elif state.model is None:
            empty.show_state(
                tr("empty.no_model"), tr("empty.no_model_words"), choose=True, demo=demo
            )
        else:
            empty.show_state(tr("empty.ready"), tr("empty.ready_words", model=state.model.name))


def _add_user(
    store: ChatStore, chat: int, *, text: str, files: list[Attachment], parent: int | None
) -> int:
    return store.add_message(chat, "user", text, parent=parent, attachments=files)
