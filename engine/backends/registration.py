"""Registers the installed backends that are wanted and pass their self-check."""

from __future__ import annotations

import ctypes
import logging
import os

from engine.backends.check import ALONE, checked
from engine.backends.opening import add_rpc_server, open_backend
from engine.backends.store import Installed, installed, set_verdict

_log = logging.getLogger(__name__)
# "host:port,...": the servers whose devices the RPC backend brings.
RPC_SERVERS = "TWOFOLD_RPC_SERVERS"


def register_backends(library: ctypes.CDLL) -> None:
    """Opens each in this process. What was not checked since the machine's start, or has changed,
    is checked first, in a child; what fails is left out, and the list says why."""
    if os.environ.get(ALONE):
        return
    for backend in installed():
        if not backend.state.enabled:
            continue
        if not fit(backend):
            continue
        registry = open_backend(library, backend.path)
        if registry is None:
            _log.warning("backend %s could not be opened", backend.name)
        elif backend.name == "rpc":
            for endpoint in filter(None, os.environ.get(RPC_SERVERS, "").split(",")):
                add_rpc_server(library, registry, endpoint.strip())


def fit(backend: Installed) -> bool:
    """Whether the last check that still counts, or one made now, found nothing wrong."""
    verdict = backend.fresh_verdict()
    if verdict is None:
        verdict = checked(backend)
        set_verdict(backend, verdict)
    return verdict.reason is None
