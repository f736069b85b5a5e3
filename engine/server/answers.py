"""Bodies that are read and responses that are sent: JSON in, JSON or an error in OpenAI's shape."""

from __future__ import annotations

import json
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from engine.api.failure import Failure
from engine.api.openai import ErrorBody, ErrorResponse
from engine.errors import TwofoldError
from engine.server.errors import BadJson, BadRequest, failure_of, status_of

M = TypeVar("M", bound=BaseModel)

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


async def read(request: Request, model: type[M]) -> M:
    """The request's body. Raises BadJson or BadRequest."""
    body = await request.body()
    try:
        return model.model_validate_json(body or b"{}")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        if first["type"] == "json_invalid":
            raise BadJson(problem=first["msg"].removeprefix("Invalid JSON: ")) from None
        field = ".".join(str(part) for part in first["loc"]) or "the body"
        raise BadRequest(field=field, problem=first["msg"]) from None
    except (RecursionError, ValueError) as error:
        raise BadJson(problem=type(error).__name__) from None


def json_response(answer: BaseModel, *, status: int = 200) -> Response:
    return Response(
        answer.model_dump_json(exclude_unset=False),
        status_code=status,
        media_type="application/json",
        headers={"cache-control": "no-store"},
    )


def error_body(failure: Failure) -> ErrorResponse:
    status = status_of(failure)
    field = failure.data.get("field")
    kind = _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    body = ErrorBody(
        message=failure.sentence,
        type=kind,
        param=field if isinstance(field, str) else None,
        code=failure.code,
        data=failure.data,
        log=list(failure.log),
    )
    return ErrorResponse(error=body)


def error_response(error: TwofoldError, *, close: bool = False) -> Response:
    failure = failure_of(error)
    response = json_response(error_body(failure), status=status_of(failure))
    if response.status_code == 401:
        response.headers["www-authenticate"] = "Bearer"
    if response.status_code == 405:
        response.headers["allow"] = str(failure.data.get("allowed", ""))
    if failure.code == "engine.queue_full":
        response.headers["retry-after"] = str(failure.data["retry_s"])
    elif failure.code == "server.too_many_connections":
        response.headers["retry-after"] = "1"
    elif response.status_code >= 500:
        # Asking again changes nothing until somebody loads a model.
        response.headers["x-should-retry"] = "false"
    if close:
        response.headers["connection"] = "close"
    return response


def error_event(error: TwofoldError) -> str:
    """The error as the last event of a stream."""
    return json.dumps(error_body(failure_of(error)).model_dump(mode="json"))
