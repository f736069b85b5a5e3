"""Describes the routes in OpenAPI's format, from the models that they read and write."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode, JsonSchemaValue

from engine.api.openai import ErrorResponse

if TYPE_CHECKING:
    from engine.server.routes import Endpoint

_REFERENCE = "#/components/schemas/{model}"
_JSON, _EVENTS = "application/json", "text/event-stream"
# What a request may be refused with. A failure of the machine's or a busy one is a 4xx or 503.
_ERRORS = ("400", "401", "403", "404", "405", "408", "413", "429", "503")


def describe(endpoints: Sequence[Endpoint]) -> str:
    schemas = _Schemas()
    paths: dict[str, Any] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = schemas.operation(endpoint)
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "Twofold's engine", "version": version("twofold")},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": schemas.collected,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }
    return json.dumps(document)


class _Schemas:
    """Collects the models' schemas under `components`, as it describes the operations."""

    def __init__(self) -> None:
        self.collected: dict[str, JsonSchemaValue] = {}

    def operation(self, endpoint: Endpoint) -> dict[str, Any]:
        content: dict[str, Any] = {}
        if endpoint.answer is not None:
            content[_JSON] = {"schema": self._schema(endpoint.answer, "serialization")}
        if endpoint.events is not None:
            content[_EVENTS] = {"schema": self._event(endpoint.events)}
        error = {_JSON: {"schema": self._schema(ErrorResponse, "serialization")}}
        responses: dict[str, Any] = {
            "200": {"description": "As asked.", **({"content": content} if content else {})},
            **{
                status: {"description": "Refused; the error says why.", "content": error}
                for status in _ERRORS
            },
        }
        operation: dict[str, Any] = {
            "summary": endpoint.summary,
            "operationId": endpoint.handler.__name__,
            "responses": responses,
        }
        if endpoint.parameters:
            operation["parameters"] = endpoint.parameters
        if endpoint.body is not None:
            schema = self._schema(endpoint.body, "validation")
            operation["requestBody"] = {"required": True, "content": {_JSON: {"schema": schema}}}
        return operation

    def _event(self, data: Any) -> JsonSchemaValue:
        """One event of a stream; its `data` is JSON text, or [DONE] at the end of OpenAI's."""
        text = {
            "type": "string",
            "contentMediaType": _JSON,
            "contentSchema": self._schema(data, "serialization"),
        }
        either = {"anyOf": [text, {"const": "[DONE]"}]}
        return {"type": "object", "properties": {"data": either}, "required": ["data"]}

    def _schema(self, model: Any, mode: JsonSchemaMode) -> JsonSchemaValue:
        schema = TypeAdapter[Any](model).json_schema(mode=mode, ref_template=_REFERENCE)
        for name, definition in schema.pop("$defs", {}).items():
            self.collected.setdefault(name, definition)
        return schema
