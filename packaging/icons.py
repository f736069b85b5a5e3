"""Draws the program's icon in the sizes and files that the systems want, from the one SVG."""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QGuiApplication, QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

SOURCE = Path(__file__).with_name("assets") / "twofold.svg"
SIZES = (16, 32, 48, 64, 128, 256, 512)


def picture(size: int) -> QImage:
    image = QImage(size, size, QImage.Format.Format_ARGB32)
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    QSvgRenderer(str(SOURCE)).render(painter, QRectF(0, 0, size, size))
    painter.end()
    return image


def draw(folder: Path) -> None:
    """Writes twofold-SIZE.png, twofold.ico (Windows) and twofold.icns (macOS)."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"twofold-{size}.png" for size in SIZES]
    images = [picture(size) for size in SIZES]
    pairs = [*zip(names, images, strict=True)]
    pairs += [("twofold.ico", picture(256)), ("twofold.icns", picture(512))]
    for name, image in pairs:
        if not image.save(str(folder / name)):
            sys.exit(f"{folder / name} could not be written: Qt has no writer for it here.")


if __name__ == "__main__":
    application = QGuiApplication([])
    draw(Path(sys.argv[1]))
