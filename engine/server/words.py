"""Sentences of the server, of the requests it refuses, and of its worker's ends."""

from __future__ import annotations

_AGAIN = "Your chats are safe. Load the model again"
_REPORT = "Please report this with the diagnostics from ./twofold doctor --bundle."

SENTENCES: dict[str, str] = {
    "client.unreachable": (
        "There is no engine at {url} ({reason}). Check that it runs, and the address."
    ),
    "engine.no_embeddings": (
        "{model} writes text and gives no embeddings. Use an embedding model in a program that "
        "serves one."
    ),
    "engine.nothing_loaded": (
        "No model is loaded, so nothing can be answered. Load one first: POST /twofold/load, or "
        "start with ./twofold serve -m MODEL.gguf."
    ),
    "engine.queue_full": (
        "The model is busy and {waiting} more requests wait, which is as many as are allowed. Try "
        "again in {retry_s} seconds, or raise server.queue."
    ),
    "engine.replaced": (
        "The model was unloaded or replaced, so this request was dropped. Send it again when the "
        "new model is loaded."
    ),
    "engine.stopped": "Stopped before it began.",
    "engine.stopping": "The engine is shutting down, so this request was dropped. Start it again.",
    "model_not_found": (
        "There is no model {wanted} here; {loaded} is loaded. Ask for that one, leave the name "
        "empty, or load the other."
    ),
    "request.invalid": "The request's {field} is not right: {problem}. Correct it and send again.",
    "request.no_route": "There is nothing at {path}. GET /openapi.json lists what there is.",
    "request.no_token": (
        "The token is missing or wrong. Send the header Authorization: Bearer TOKEN with the "
        "token that the server printed when it started."
    ),
    "request.not_http": (
        "This is not an HTTP request ({problem}). The server speaks HTTP/1.1, and no HTTPS."
    ),
    "request.not_json": "The request's body is not JSON ({problem}). Correct it and send again.",
    "request.too_large": (
        "The request is larger than {limit:size} and was not read. Send less, or raise "
        "server.body_limit_mb."
    ),
    "request.too_slow": (
        "The request's body did not arrive within {seconds:g} seconds. Send it faster, or raise "
        "server.body_timeout_s."
    ),
    "request.unsupported": ("{field} cannot be served as asked: {why}. Leave it out or change it."),
    "request.wrong_host": (
        "The server does not answer to the name {host!r}. Call it by 127.0.0.1 or localhost, or "
        "add the name to server.hosts."
    ),
    "request.wrong_method": "{method} does not work at {path}. Use {allowed}.",
    "request.wrong_origin": (
        "The page {origin!r} may not call this server. If you trust it, add it to server.origins "
        "and start the server again."
    ),
    "server.cannot_listen": (
        "The server cannot listen at {host}, port {port}: {reason}. Choose another address or port."
    ),
    "server.port_taken": (
        "Port {port} at {host} is taken, perhaps by another engine that still runs. End that, or "
        "choose another port; 0 takes a free one."
    ),
    "server.too_many_connections": (
        "More than {limit} connections are open, so this one is not served. Close some, or raise "
        "server.connections and start the server again."
    ),
    "server.unexpected": "The server met a mistake of its own ({kind}). " + _REPORT,
    "worker.aborted": (
        "The model library gave up ({last_line}) while the model was {doing}, and its process "
        f"{{pid}} ended. {_AGAIN}; if it happens again, choose a shorter context or another file."
    ),
    "worker.crashed": (
        "The model's process {pid} crashed ({signal}) while the model was {doing}. "
        f"{_AGAIN}; if it happens again, run ./twofold doctor and try another file of this model."
    ),
    "worker.device_memory": (
        "{device} ran out of memory while the model was {doing}: {wanted} more were wanted, {free} "
        "were free, and other programs hold {holders}. "
        f"{_AGAIN} with a shorter context, smaller passes or fewer layers on the device; "
        "./twofold memory counts what they take."
    ),
    "worker.exited": (
        "The model's process {pid} ended by itself (status {exit_status}: {last_line}) "
        f"while the model was {{doing}}. {_AGAIN}."
    ),
    "worker.hung": (
        "The model's process {pid} was told to stop, still worked {seconds:g} seconds later, and "
        f"was ended. {_AGAIN}."
    ),
    "worker.illegal_instruction": (
        "This processor does not know an instruction that the model library used, so the model's "
        "process {pid} ended. Delete .venv and run ./twofold doctor: it builds the library for "
        "this machine."
    ),
    "worker.killed": (
        "Something ended the model's process {pid} (SIGKILL) while the model was {doing}: "
        f"another program, a user, or a memory limit. {_AGAIN}."
    ),
    "worker.not_loaded": "Internal error: a request came before the model. " + _REPORT,
    "worker.out_of_memory": (
        "The system ran out of memory and ended the model's process {pid} while the model was "
        f"{{doing}}. {_AGAIN} with a shorter context, choose a smaller one, or close programs."
    ),
    "worker.unexpected": "The engine met a mistake of its own ({kind} in {where}). " + _REPORT,
}
