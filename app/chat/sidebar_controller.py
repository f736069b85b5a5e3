"""What the sidebar does: opens chats, searches, renames, pins, sorts into folders, deletes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial

from PySide6.QtCore import QItemSelectionModel, QModelIndex, QObject, QPoint, QTimer, Signal
from PySide6.QtWidgets import QMenu

from app.chat.chat_files import ChatFiles
from app.chat.grouping import group_chats
from app.chat.sidebar_model import GroupLine, Line, SidebarModel, found_lines, lines_of
from app.chat.sidebar_view import SidebarView
from app.i18n import tr
from app.shell.context import Context
from app.store.chats import ChatStore
from app.store.records import ChatRow, Folder, Found
from app.theme.icons import icon

SEARCH_MS = 150


class SidebarController(QObject):
    """Signals: `new_asked`, `chat_asked` (id, message to go to or None), `gone` (id of a deleted
    chat)."""

    new_asked = Signal()
    chat_asked = Signal(int, object)
    gone = Signal(int)

    def __init__(self, context: Context, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self._store = context.store
        self.model = SidebarModel()
        self.view = SidebarView(self.model)
        self.files = ChatFiles(context, self.view, self)
        self.files.imported.connect(self.refresh)
        self._collapsed: frozenset[int] = frozenset()
        self._folders: list[Folder] = []
        self._current: int | None = None
        self._edit_folder: int | None = None
        self._menu: QMenu | None = None
        self._search = QTimer(self)
        self._search.setSingleShot(True)
        self._search.setInterval(SEARCH_MS)
        self._search.timeout.connect(self.refresh)
        view = self.view
        view.new_chat.clicked.connect(self.new_asked)
        view.new_folder.clicked.connect(self._new_folder)
        view.more.clicked.connect(self._on_more)
        view.search.textChanged.connect(self._on_typed)
        view.search.returnPressed.connect(self._open_first)
        view.list.opened.connect(self._on_opened)
        view.list.menu_asked.connect(self._on_menu)
        view.list.rename_asked.connect(view.list.edit)
        view.list.delete_asked.connect(self._on_delete)
        self.model.renamed.connect(self._on_renamed)

    def refresh(self) -> None:
        """Shows what is stored now."""
        typed = self.view.search.text().strip()
        collapsed = self._collapsed

        def work(store: ChatStore) -> tuple[list[Line], dict[int, int], list[Folder]]:
            folders = store.folders()
            if typed:
                return found_lines(store.search(typed)), {}, folders
            lines, rows = lines_of(group_chats(store.chats(), folders, datetime.now()), collapsed)
            return lines, rows, folders

        def show(result: tuple[list[Line], dict[int, int], list[Folder]]) -> None:
            if typed != self.view.search.text().strip():
                return  # somebody typed on; the next answer is on its way
            lines, rows, self._folders = result
            scroll = self.view.list.verticalScrollBar().value()
            self.view.list.setUniformItemSizes(not typed)
            self.model.set_lines(lines, rows)
            self.view.list.verticalScrollBar().setValue(scroll)
            self._select()
            self._edit_new_folder(lines)

        self._store.ask(work, show)

    def set_current(self, chat: int | None) -> None:
        self._current = chat
        self._select()

    def focus_search(self) -> None:
        self.view.search.setFocus()
        self.view.search.selectAll()

    def _select(self) -> None:
        selection = self.view.list.selectionModel()
        index = self.model.index_of(self._current) if self._current is not None else QModelIndex()
        if index.isValid():
            flag = QItemSelectionModel.SelectionFlag.ClearAndSelect
            selection.setCurrentIndex(index, flag)
        else:
            selection.clearSelection()

    def _on_typed(self, _typed: str) -> None:
        self._search.start()

    def _open_first(self) -> None:
        self._search.stop()
        for row in range(self.model.rowCount()):
            if not isinstance(self.model.line(self.model.index(row)), GroupLine):
                self._on_opened(self.model.index(row))
                return

    def _on_opened(self, index: QModelIndex) -> None:
        match self.model.line(index):
            case GroupLine(folder=int(folder)):
                self._collapsed = self._collapsed ^ {folder}
                self.refresh()
            case ChatRow(id=chat):
                self.chat_asked.emit(chat, None)
            case Found(chat=chat, message=message):
                self.chat_asked.emit(chat, message)
            case _:
                pass

    # What can be done to a chat or a folder

    def _on_menu(self, index: QModelIndex, place: QPoint) -> None:
        line = self.model.line(index)
        if isinstance(line, GroupLine) and line.folder is not None:
            menu = self._folder_menu(index, line.folder)
        elif isinstance(line, ChatRow):
            menu = self._chat_menu(line)
        else:
            return
        self._popup(menu, place)

    def _on_more(self) -> None:
        menu = QMenu(self.view)
        bring = menu.addAction(icon("download"), tr("sidebar.import"))
        bring.triggered.connect(self.files.choose_import)
        export = menu.addAction(icon("upload"), tr("sidebar.export_all"))
        export.triggered.connect(self.files.choose_export_all)
        button = self.view.more
        self._popup(menu, button.mapToGlobal(button.rect().bottomLeft()))

    def _popup(self, menu: QMenu, place: QPoint) -> None:
        if self._menu is not None:
            self._menu.deleteLater()
        self._menu = menu
        menu.popup(place)

    def _chat_menu(self, chat: ChatRow) -> QMenu:
        menu = QMenu(self.view)
        key = "unpin" if chat.pinned else "pin"
        pin = menu.addAction(icon("pin-off" if chat.pinned else "pin"), tr(f"sidebar.{key}"))
        pin.triggered.connect(lambda: self._change(lambda s: s.pin(chat.id, not chat.pinned)))
        rename = menu.addAction(icon("pencil"), tr("sidebar.rename"))
        rename.triggered.connect(partial(self._edit_line, chat.id))
        copy = menu.addAction(icon("copy-plus"), tr("sidebar.duplicate"))
        copy.triggered.connect(lambda: self._duplicate(chat))
        folders = menu.addMenu(icon("folder-input"), tr("sidebar.move"))
        for folder in self._folders:
            item = folders.addAction(icon("folder"), folder.name)
            item.setEnabled(folder.id != chat.folder)
            item.triggered.connect(partial(self._move, chat.id, folder.id))
        if self._folders:
            folders.addSeparator()
        new = folders.addAction(icon("folder-plus"), tr("sidebar.new_folder"))
        new.triggered.connect(lambda: self._new_folder(with_chat=chat.id))
        if chat.folder is not None:
            out = folders.addAction(tr("sidebar.no_folder"))
            out.triggered.connect(partial(self._move, chat.id, None))
        export = menu.addAction(icon("file-down"), tr("sidebar.export"))
        export.triggered.connect(lambda: self.files.choose_export(chat.id, chat.title))
        menu.addSeparator()
        delete = menu.addAction(icon("trash-2"), tr("sidebar.delete"))
        delete.triggered.connect(lambda: self._delete(chat))
        return menu

    def _folder_menu(self, index: QModelIndex, folder: int) -> QMenu:
        menu = QMenu(self.view)
        rename = menu.addAction(icon("pencil"), tr("sidebar.rename"))
        row = index.row()
        rename.triggered.connect(lambda: self.view.list.edit(self.model.index(row)))
        delete = menu.addAction(icon("trash-2"), tr("sidebar.delete_folder"))
        delete.triggered.connect(lambda: self._change(lambda s: s.delete_folder(folder)))
        return menu

    def _edit_line(self, chat: int, _checked: bool = False) -> None:
        self.view.list.edit(self.model.index_of(chat))

    def _on_renamed(self, line: object, name: str) -> None:
        if isinstance(line, ChatRow):
            chat = line.id
            self._change(lambda store: store.rename(chat, name))
        elif isinstance(line, GroupLine) and line.folder is not None:
            folder = line.folder
            self._change(lambda store: store.rename_folder(folder, name))

    def _on_delete(self, index: QModelIndex) -> None:
        line = self.model.line(index)
        if isinstance(line, ChatRow):
            self._delete(line)

    def _delete(self, chat: ChatRow) -> None:
        def undo() -> None:
            self._change(lambda store: store.restore(chat.id))

        def done(_: None) -> None:
            self.gone.emit(chat.id)
            self.refresh()
            title = chat.title or tr("chat.untitled")
            self._context.notify(tr("sidebar.deleted", title=title), tr("common.undo"), undo)

        self._store.ask(lambda store: store.delete(chat.id), done)

    def _duplicate(self, chat: ChatRow) -> None:
        title = tr("sidebar.copy_of", title=chat.title or tr("chat.untitled"))

        def done(copy: int) -> None:
            self.refresh()
            self.chat_asked.emit(copy, None)

        self._store.ask(lambda store: store.duplicate(chat.id, title), done)

    def _move(self, chat: int, folder: int | None, _checked: bool = False) -> None:
        self._change(lambda store: store.move(chat, folder))

    def _new_folder(self, _checked: bool = False, *, with_chat: int | None = None) -> None:
        name = tr("sidebar.folder_name")

        def work(store: ChatStore) -> int:
            folder = store.create_folder(name)
            if with_chat is not None:
                store.move(with_chat, folder)
            return folder

        def done(folder: int) -> None:
            self._edit_folder = folder
            self.view.search.clear()
            self.refresh()

        self._store.ask(work, done)

    def _edit_new_folder(self, lines: list[Line]) -> None:
        """A new folder is named where it appears."""
        if self._edit_folder is None:
            return
        folder, self._edit_folder = self._edit_folder, None
        for row, line in enumerate(lines):
            if isinstance(line, GroupLine) and line.folder == folder:
                index = self.model.index(row)
                self.view.list.scrollTo(index)
                self.view.list.edit(index)
                return

    def _change(self, work: Callable[[ChatStore], None]) -> None:
        self._store.ask(work, lambda _: self.refresh())
