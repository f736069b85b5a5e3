"""Text out of the files that a person attaches: text files in common encodings, and PDF."""

from __future__ import annotations

from pathlib import Path

from app.store.records import Attachment
from engine.errors import TwofoldError

LARGEST_BYTES = 50_000_000
LARGEST_TEXT = 20_000_000
# Tried in this order; the last are what Korean and Western files without a mark mostly are.
_ENCODINGS = ("utf-8-sig", "cp949", "cp1252")


class AttachmentTooLarge(TwofoldError):
    """Data: `name`, `limit` in bytes."""

    code = "attachment.too_large"


class AttachmentUnreadable(TwofoldError):
    """Data: `name`, `reason`."""

    code = "attachment.unreadable"


class AttachmentNotText(TwofoldError):
    """Data: `name`."""

    code = "attachment.not_text"


class AttachmentWithoutText(TwofoldError):
    """A PDF of pictures, or an empty file. Data: `name`."""

    code = "attachment.no_text"


class AttachmentLocked(TwofoldError):
    """A PDF that wants a password. Data: `name`."""

    code = "attachment.locked"


def read(path: Path) -> Attachment:
    """Raises the Attachment... errors. May take long."""
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise AttachmentTooLarge(name=path.name, limit=LARGEST_BYTES)
        data = path.read_bytes()
    except OSError as error:
        raise AttachmentUnreadable(name=path.name, reason=error.strerror or "") from error
    text = pdf_text(path.name, data) if data.startswith(b"%PDF-") else plain_text(path.name, data)
    text = text.replace("\r\n", "\n").replace("\r", "\n").strip()
    if not text:
        raise AttachmentWithoutText(name=path.name)
    if len(text) > LARGEST_TEXT:
        raise AttachmentTooLarge(name=path.name, limit=LARGEST_TEXT)
    return Attachment(name=path.name, text=text)


def plain_text(name: str, data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        try:
            return data.decode("utf-16")
        except UnicodeDecodeError:
            raise AttachmentNotText(name=name) from None
    if b"\0" in data:
        raise AttachmentNotText(name=name)
    for encoding in _ENCODINGS:
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            continue
    raise AttachmentNotText(name=name)


def pdf_text(name: str, data: bytes) -> str:
    """The text of all pages, in reading order as far as the file tells it."""
    import io

    from pypdf import PdfReader
    from pypdf.errors import FileNotDecryptedError, PyPdfError

    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise AttachmentLocked(name=name)
        return "\n\n".join(page.extract_text().strip() for page in reader.pages)
    except FileNotDecryptedError:
        raise AttachmentLocked(name=name) from None
    except (PyPdfError, ValueError, KeyError, TypeError, RecursionError, IndexError) as error:
        # A hostile or broken file raises whatever it breaks.
        raise AttachmentUnreadable(name=name, reason=type(error).__name__) from error
