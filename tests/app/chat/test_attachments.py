"""Files come into a message by dropping, pasting or choosing, are counted, and are sent as text."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest
from pypdf import PdfReader, PdfWriter
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from app.chat.attachments import (
    AttachmentLocked,
    AttachmentNotText,
    AttachmentTooLarge,
    AttachmentUnreadable,
    AttachmentWithoutText,
    read,
)
from app.main import Application
from engine.errors import TwofoldError
from tests.app.chat.test_chat import answered
from tests.support.fake_engine import FakeEngine


def pdf(words: str) -> bytes:
    """One page with these words on it, or none."""
    stream = f"BT /F1 12 Tf 72 700 Td ({words}) Tj ET".encode() if words else b""
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    out = b"%PDF-1.4\n"
    offsets: list[int] = []
    for number, content in enumerate(objects, start=1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    head = b"xref\n0 6\n0000000000 65535 f \n"
    trailer = b"trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % len(out)
    return out + head + table + trailer


def locked(content: bytes) -> bytes:
    writer = PdfWriter(clone_from=PdfReader(BytesIO(content)))
    writer.encrypt("secret", algorithm="RC4-128")
    out = BytesIO()
    writer.write(out)
    return out.getvalue()


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("Grüße\r\nline".encode(), "Grüße\nline"),
        ("\ufeffwith a mark".encode(), "with a mark"),
        ("한국어 문서".encode("cp949"), "한국어 문서"),
        ("wide".encode("utf-16"), "wide"),
        (pdf("The contract runs for three years."), "The contract runs for three years."),
    ],
    ids=["utf-8", "marked", "cp949", "utf-16", "pdf"],
)
def test_the_text_of_text_files_and_pdfs_is_read(content: bytes, text: str, tmp_path: Path) -> None:
    file = tmp_path / "문서.bin"
    file.write_bytes(content)
    assert read(file).text == text


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"\x89PNG\0\0", AttachmentNotText),
        (b"", AttachmentWithoutText),
        (pdf(""), AttachmentWithoutText),
        (b"%PDF-1.4\nnothing", AttachmentUnreadable),
        (locked(pdf("secret words")), AttachmentLocked),
        (b"x" * 50_000_001, AttachmentTooLarge),
    ],
    ids=["picture", "empty", "scan", "broken", "locked", "large"],
)
def test_what_has_no_text_to_give_is_told_apart(
    content: bytes, error: type[TwofoldError], tmp_path: Path
) -> None:
    file = tmp_path / "file.pdf"
    file.write_bytes(content)
    with pytest.raises(error):
        read(file)


def test_dropped_and_pasted_files_are_counted_and_sent_with_their_names(
    ready_app: Application, fake: FakeEngine, tmp_path: Path, qtbot: QtBot
) -> None:
    chat = ready_app.window.chat
    composer = chat.composer.view
    (tmp_path / "contract.pdf").write_bytes(pdf("word " * 100))
    (tmp_path / "notes.md").write_text("# Notes\n" + "word " * 40)
    dropped, pasted = QMimeData(), QMimeData()
    dropped.setUrls([QUrl.fromLocalFile(str(tmp_path / "contract.pdf"))])
    pasted.setUrls([QUrl.fromLocalFile(str(tmp_path / "notes.md"))])
    actions, buttons = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton
    keys = Qt.KeyboardModifier.NoModifier
    enter = QDragEnterEvent(QPointF(5, 5).toPoint(), actions, dropped, buttons, keys)
    composer.dragEnterEvent(enter)
    assert enter.isAccepted()
    composer.dropEvent(QDropEvent(QPointF(5, 5), actions, dropped, buttons, keys))
    qtbot.waitUntil(lambda: len(chat.composer.draft.attachments) == 1)
    composer.text.insertFromMimeData(pasted)
    qtbot.waitUntil(lambda: len(chat.composer.draft.attachments) == 2)

    def chips() -> str:
        return " ".join(label.text() for label in composer.findChildren(QLabel))

    qtbot.waitUntil(lambda: "124 tokens" in chips() and "51 tokens" in chips(), timeout=5000)
    composer.text.setPlainText("Compare them.")
    composer.sent.emit()
    qtbot.waitUntil(lambda: answered(chat), timeout=5000)
    content = fake.asked[0]["messages"][-1]["content"]
    assert content.startswith('<file name="contract.pdf">\nword word')
    assert '<file name="notes.md">\n# Notes' in content
    assert content.endswith("</file>\n\nCompare them.")
    stored = chat.messages[0].attachments
    assert [(file.name, file.tokens) for file in stored] == [
        ("contract.pdf", 124),
        ("notes.md", 51),
    ]


def test_pasted_html_is_text(ready_app: Application) -> None:
    composer = ready_app.window.chat.composer.view
    pasted = QMimeData()
    pasted.setHtml('<b>bold</b><img src="https://example.org/x.png">')
    pasted.setText("bold")
    composer.text.insertFromMimeData(pasted)
    assert composer.text.toPlainText() == "bold"
    assert "<b>" not in composer.text.document().toHtml()
