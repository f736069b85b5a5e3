"""Schemathesis along the OpenAPI description: whatever is sent, the server does not fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from engine.api.engine import LoadRequest
from engine.runtime.settings import LoadSettings
from engine.server.routes import ENDPOINTS
from tests.support.running_server import RunningServer, running_server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

EXAMPLES = 40
CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance]
# The events' stream has no end, an unload takes nothing that could vary, a measurement of the
# machine takes seconds each time, and a library would be moved to wherever it is told.
EXCEPT = ("/twofold/probe", "/twofold/bundle", "/twofold/models/move")
# Nothing is asked of the network, and the machine's own keyring is left alone.
ALONE = {"HF_HUB_OFFLINE": "1", "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring"}
FUZZED = [
    (endpoint.method, endpoint.path)
    for endpoint in ENDPOINTS
    if (endpoint.body is not None or endpoint.parameters) and endpoint.path not in EXCEPT
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, tiny_path: Path) -> Iterator[RunningServer]:
    """A model with so short a context that any answer is soon over."""
    home = tmp_path_factory.mktemp("home")
    with running_server(home, environment=ALONE) as found, found.client() as client:
        small = LoadSettings(context=128, threads=1)
        client.load(LoadRequest(model=str(tiny_path), settings=small))
        yield found


@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize(("method", "path"), FUZZED)
def test_nothing_that_is_sent_is_a_server_error(
    server: RunningServer, method: str, path: str, mode: GenerationMode
) -> None:
    with server.http() as http:
        description: dict[str, Any] = http.get("/openapi.json").json()
    operation = schemathesis.openapi.from_dict(description)[path][method]
    headers = {"authorization": f"Bearer {server.token}"}
    worker = server.worker.pid

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def send(case: schemathesis.Case) -> None:
        response = case.call(base_url=server.url, headers=headers, timeout=60)
        assert response.status_code < 500, response.text
        case.validate_response(response, checks=CHECKS)

    send()
    assert server.process.poll() is None
    assert server.worker.pid == worker, "no request ends the model's process"
