"""What can go wrong between a client, the server and the worker; and the status it answers."""

from __future__ import annotations

from engine.api.failure import Failure
from engine.errors import TwofoldError
from engine.words import sentence


class BadRequest(TwofoldError):
    """A request that is not what the route takes. Data: `field`, `problem`."""

    code = "request.invalid"


class BadJson(TwofoldError):
    """A body that is not JSON. Data: `problem`."""

    code = "request.not_json"


class NotHttp(TwofoldError):
    """Bytes that are no request. Data: `problem`."""

    code = "request.not_http"


class Unsupported(TwofoldError):
    """A field of OpenAI's that this server does not serve. Data: `field`, `why`."""

    code = "request.unsupported"


class NoToken(TwofoldError):
    """A request without the right token."""

    code = "request.no_token"


class WrongHost(TwofoldError):
    """The Host header names another machine. Data: `host`."""

    code = "request.wrong_host"


class WrongOrigin(TwofoldError):
    """A web page that may not call. Data: `origin`."""

    code = "request.wrong_origin"


class BodyTooLarge(TwofoldError):
    """Data: `limit`, in bytes."""

    code = "request.too_large"


class BodyTooSlow(TwofoldError):
    """Data: `seconds`."""

    code = "request.too_slow"


class NoSuchRoute(TwofoldError):
    """Data: `path`."""

    code = "request.no_route"


class WrongMethod(TwofoldError):
    """Data: `method`, `path`, `allowed`."""

    code = "request.wrong_method"


class NoSuchModel(TwofoldError):
    """A request for another model than the loaded one. Data: `wanted`, `loaded`."""

    code = "model_not_found"


class NoEmbeddings(TwofoldError):
    """Embeddings were asked of a model that writes text. Data: `model`."""

    code = "engine.no_embeddings"


class NothingLoaded(TwofoldError):
    """A request that needs a model, and none is loaded."""

    code = "engine.nothing_loaded"


class QueueFull(TwofoldError):
    """Data: `waiting` requests, and `retry_s` after which to try again."""

    code = "engine.queue_full"


class TooManyConnections(TwofoldError):
    """Data: `limit`, how many may be open."""

    code = "server.too_many_connections"


class Replaced(TwofoldError):
    """The model was unloaded or replaced before the request was done."""

    code = "engine.replaced"


class Stopping(TwofoldError):
    """The server ends."""

    code = "engine.stopping"


class Stopped(TwofoldError):
    """A request was cancelled before the model began it."""

    code = "engine.stopped"


class Unexpected(TwofoldError):
    """An exception that nobody foresaw. Data: `kind`."""

    code = "server.unexpected"


class PortTaken(TwofoldError):
    """Another program listens there. Data: `host`, `port`."""

    code = "server.port_taken"


class CannotListen(TwofoldError):
    """The address cannot be listened on. Data: `host`, `port`, `reason`."""

    code = "server.cannot_listen"


class Failed(TwofoldError):
    """A failure that came from elsewhere, its sentence already made."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(**failure.data)
        self.code = failure.code  # type: ignore[misc]  # as for NativeError
        self.failure = failure


def failure_of(error: TwofoldError) -> Failure:
    if isinstance(error, Failed):
        return error.failure
    return Failure(code=error.code, sentence=sentence(error), data=error.data)


_STATUS = {
    "request.no_token": 401,
    "request.wrong_host": 403,
    "request.wrong_origin": 403,
    "request.no_route": 404,
    "models.no_such_model": 404,
    "jobs.no_such_job": 404,
    "backend.not_found": 404,
    "backend.is_carried": 409,
    "hub.repo_not_found": 404,
    "hub.unreachable": 503,
    "hub.failed": 503,
    "request.wrong_method": 405,
    "request.too_slow": 408,
    "request.too_large": 413,
    "model_not_found": 404,
    "engine.queue_full": 429,
    "engine.nothing_loaded": 503,
    "engine.replaced": 503,
    "engine.stopping": 503,
    "survey.ended": 503,
    "engine.stopped": 503,
    "memory.out": 503,
    "server.too_many_connections": 503,
    "server.unexpected": 500,
    "worker.unexpected": 500,
}
# Failures of the machine, not of the request.
_UNAVAILABLE = ("worker.", "session.", "phase.", "disk.", "stream.", "context.", "library.")


def status_of(failure: Failure) -> int:
    """The HTTP status; what a client asked for and cannot have is a 400."""
    if failure.code in _STATUS:
        return _STATUS[failure.code]
    return 503 if failure.code.startswith(_UNAVAILABLE) else 400
