"""What can be wrong with a GPU backend's file, or with the backend."""

from __future__ import annotations

from engine.errors import TwofoldError


class BackendNotReadable(TwofoldError):
    """The file cannot be read. Data: `path`, `reason`."""

    code = "backend.not_readable"


class BackendNotALibrary(TwofoldError):
    """The file is no whole shared library for Linux. Data: `path`."""

    code = "backend.not_a_library"


class BackendWrongMachine(TwofoldError):
    """Built for another processor. Data: `path`, `wanted`."""

    code = "backend.wrong_machine"


class BackendNotStamped(TwofoldError):
    """A library that does not say what it was built for. Data: `path`."""

    code = "backend.not_stamped"


class BackendWrongVersion(TwofoldError):
    """Built for another version of the model library. Data: `path`, `found`, `wanted`."""

    code = "backend.wrong_version"


class BackendNotFound(TwofoldError):
    """No backend of that name is installed. Data: `name`."""

    code = "backend.not_found"


class BackendIsCarried(TwofoldError):
    """A part of the program, which cannot be removed by itself. Data: `name`."""

    code = "backend.is_carried"


class BackendBuildElsewhere(TwofoldError):
    """Only the set-up, in a checkout, builds. Data: `name`."""

    code = "backend.build_elsewhere"
