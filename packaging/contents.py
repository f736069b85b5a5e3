"""What the package holds on each system, and what it leaves out."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any

IDENTIFIER = "app.twofold.Twofold"
PACKAGES = ("app", "engine", "keyring", "rich._unicode_data")
# Imported by name at run time, where no analysis sees it.
LOADED_BY_NAME = [
    "engine._native",
    "llama_cpp",
    "pyqtgraph",
    "PySide6.QtOpenGL",
    "PySide6.QtOpenGLWidgets",
    "uvicorn.protocols.http.h11_impl",
    "uvicorn.lifespan.on",
]
DATA_OF = ("app", "latex2mathml", "ziamath", "ziafont", "pyqtgraph")
METADATA_OF = ("twofold", "llama-cpp-python", "keyring", "huggingface-hub")
EXCLUDED = [
    "tkinter", "unittest", "pytest", "setuptools", "pip", "IPython", "matplotlib", "scipy",
    "PySide6.QtQml", "PySide6.QtQuick",
    "PySide6.QtTest", "PySide6.QtSql", "PySide6.QtPrintSupport", "PySide6.QtDesigner",
    "llama_cpp.server",
]  # fmt: skip

# The system has these, and other parts of it rely on having the same ones: the C++ runtime is
# shared with graphics drivers, Vulkan's loader comes with them, the others with the desktop.
OF_THE_SYSTEM = re.compile(
    r"lib(stdc\+\+|gcc_s|c|m|dl|pthread|rt|util|resolv|z|bz2|lzma|zstd|expat|uuid|crypt"
    r"|fontconfig|freetype|png16|harfbuzz|graphite2|brotli\w*|dbus-1|systemd|cap|gcrypt|gpg-error"
    r"|lz4|glib-2\.0|gthread-2\.0|gobject-2\.0|gio-2\.0|gmodule-2\.0|pcre2-8|pcre|selinux|mount"
    r"|blkid|X11|X11-xcb|Xau|Xdmcp|Xext|xcb|EGL|GL|GLX|GLdispatch|OpenGL|drm|gbm|bsd|md"
    r"|com_err|gssapi_krb5|k5crypto|keyutils|krb5|krb5support"
    r"|wayland-\w+|vulkan)\.so(\.[\d.]+)?$"
)
# What Qt's theme for GTK links to, which is left out with it.
_OF_GTK = re.compile(
    r"lib(atk-1\.0|cairo(-gobject)?|gdk_pixbuf-2\.0|pango\w*-1\.0|pixman-1|fribidi|thai|datrie"
    r"|jpeg|Xrender)\.so"
)
# The analysis finds the library's parts a second time, beside their place in llama_cpp/lib.
_TWICE = re.compile(r"lib(llama|ggml)[\w-]*\.(so|dylib)[\d.]*$")
# Qt's plugins that a window of ours never loads, and its words in languages that ours has not.
_UNUSED_QT = re.compile(
    r"PySide6/Qt/(translations/(?!qtbase_ko\.qm$)|(qml|metatypes|libexec)/)"
    r"|PySide6/Qt/plugins/(platforms/libq(vnc|wayland-egl|linuxfb|eglfs|minimalegl|vkkhrdisplay|minimal)\b"
    r"|platformthemes/libqgtk3|wayland-graphics-integration|xcbglintegrations|egldeviceintegrations|generic|networkinformation|printsupport|sqldrivers|qmltooling"
    r"|qmllint|designer|assetimporters|sceneparsers|geometryloaders|scxmldatamodel"
    r"|imageformats/libq(tiff|webp|tga|wbmp|icns|pdf)\b)"
    r"|(PySide6/Qt/lib/)?libQt6(Qml|WaylandEgl\w*|Quick|Pdf|VirtualKeyboard|Egl[Ff][Ss]\w*|Sql|Test"
    r"|PrintSupport|Designer)"
)
_TESTS = re.compile(r"(^|/)(tests?|testing|examples)/")


def is_wanted(place: str) -> bool:
    """Whether a file goes into the folder at `place`, as PyInstaller names it."""
    path = place.replace("\\", "/")
    elsewhere = (OF_THE_SYSTEM, _OF_GTK, _TWICE)
    if "/" not in path and any(pattern.match(path) for pattern in elsewhere):
        return False
    if path.endswith((".pyi", ".h", ".hpp", ".cmake", ".pc", "direct_url.json", "RECORD")):
        return False
    if PurePosixPath(path).name in ("INSTALLER", "REQUESTED"):
        return False
    return not (_UNUSED_QT.search(path) or _TESTS.search(path))


def info_plist(version: str) -> dict[str, Any]:
    """What macOS is told of the program."""
    return {
        "CFBundleDisplayName": "Twofold",
        "CFBundleShortVersionString": version,
        "CFBundleVersion": version,
        "LSMinimumSystemVersion": "13.0",
        "LSApplicationCategoryType": "public.app-category.productivity",
        "NSHighResolutionCapable": True,
    }
