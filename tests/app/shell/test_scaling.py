"""The window at the scales that screens are set to: sharp, and without a complaint of Qt's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

LOOK = """
import sys
from pathlib import Path
from PySide6.QtCore import QSize
from PySide6.QtWidgets import QApplication
qt = QApplication([])
qt.setStyle("Fusion")
from app.engine_client.client import Connection
from app.main import Application
from app.screenshots import StillEngine, sample_model
from app.shell.pages import PAGES
from engine.api.engine import EngineState

folder = Path(sys.argv[1])
window = Application(data=folder, config=folder, make_engine=StillEngine)
window.start()
window.engine.put(Connection.CONNECTED, EngineState(status="ready", model=sample_model()))
for page in PAGES:
    window.window.show_page(page.id)
    for _ in range(20):
        qt.processEvents()
    picture = window.window.grab()
    assert picture.size() == window.window.size() * picture.devicePixelRatio(), page.id
    icon = window.window.sidebar.view.new_folder.icon()
    drawn = icon.pixmap(QSize(18, 18), picture.devicePixelRatio())
    assert abs(drawn.width() - 18 * picture.devicePixelRatio()) < 1, page.id
print(picture.devicePixelRatio(), window.window.minimumSizeHint().width())
window.window.close()
"""


@pytest.mark.slow
@pytest.mark.parametrize("scale", ["1.25", "2", "3"])
def test_every_page_is_drawn_in_the_screens_own_pixels(scale: str, tmp_path: Path) -> None:
    environment = dict(os.environ) | {"QT_SCALE_FACTOR": scale, "QT_QPA_PLATFORM": "offscreen"}
    done = subprocess.run(
        [sys.executable, "-c", LOOK, str(tmp_path)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    ratio, narrowest = done.stdout.split()
    assert float(ratio) == float(scale)
    assert int(narrowest) * float(scale) <= 3840, "fits on a 4K screen"
    complaints = [line for line in done.stderr.splitlines() if "propagateSizeHints" not in line]
    assert not complaints
