"""The OpenAPI document says what the API does: schemathesis asks accordingly, and looks at the answers."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from embermq.http.openapi.document import document
from embermq.http.openapi.route_docs import DESCRIPTIONS
from embermq.http.server.routes import all_routes
from tests.support.http_api import Desk
from tests.support.management import Management
from tools.brokers import EmberBroker

EXAMPLES_PER_ROUTE = 5
ROUTES = tuple(all_routes().all)
LOGIN = "Basic " + base64.b64encode(b"fuzz:fuzz").decode()
# Names of things that are there, so that not every answer is a 404.
KNOWN = {"vhost": "fuzz", "name": "known", "user": "known", "source": "amq.topic", "kind": "q"}


def no_fault_of_ours(context: Any, response: Any, case: schemathesis.Case) -> None:
    """503 is meant: a check that fails, an alarm; nothing else beyond 500 is."""
    assert response.status_code < 500 or response.status_code == 503, response.content


CHECKS = [
    no_fault_of_ours,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]

schema = schemathesis.openapi.from_dict(document(ROUTES, "test"))
schema.config.update(base_url="http://127.0.0.1")
schema.config.phases.update(phases=["fuzzing"])


@schema.hook
def map_path_parameters(context: Any, path_parameters: dict[str, Any] | None) -> dict[str, Any] | None:
    """Half of the names are those of things that are there."""
    if path_parameters:
        for name, value in path_parameters.items():
            if name in KNOWN and len(str(value)) % 2:
                path_parameters[name] = KNOWN[name]
    return path_parameters


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    with EmberBroker() as broker:
        url = f"http://{broker.host}:{broker.http_port}"
        prepare(Management(broker))
        yield url


def prepare(management: Management) -> None:
    """A user for the fuzzing, which may delete everything but itself; and things for it to find."""
    for path, body in (
        ("users/fuzz", {"password": "fuzz", "tags": "administrator"}),
        ("users/known", {"password": "known", "tags": ""}),
        ("vhosts/fuzz", {}),
        ("permissions/fuzz/fuzz", {"configure": ".*", "write": ".*", "read": ".*"}),
        ("permissions/%2F/fuzz", {"configure": ".*", "write": ".*", "read": ".*"}),
        ("queues/fuzz/known", {"durable": True}),
    ):
        assert management.ask("PUT", path, body)[0] in (201, 204)


@schema.exclude(path="/api/stream").parametrize()  # which never ends
@settings(
    max_examples=EXAMPLES_PER_ROUTE,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)
def test_answers_are_as_described(case: schemathesis.Case, base_url: str) -> None:
    case.call_and_validate(base_url=base_url, headers={"Authorization": LOGIN}, checks=CHECKS)


def test_every_route_is_in_the_document_and_described(desk: Desk) -> None:
    paths = desk.get("/api/openapi.json")["paths"]
    described = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    assert described == {(route.method, route.path) for route in ROUTES}
    assert [route.path for route in ROUTES if route.handler not in DESCRIPTIONS] == []


def test_the_document_says_who_may(desk: Desk) -> None:
    paths = desk.get("/api/openapi.json")["paths"]
    assert paths["/api/nodes"]["get"]["x-opens-for"] == ["administrator", "monitoring"]
    assert paths["/api/openapi.json"]["get"]["security"] == []


def test_names_of_operations_are_their_own() -> None:
    operations = [
        operation["operationId"]
        for methods in document(ROUTES, "test")["paths"].values()
        for operation in methods.values()
    ]
    assert len(set(operations)) == len(operations)


def test_the_page_shows_every_path(desk: Desk) -> None:
    page = desk.ask("GET", "/api/", login="")
    assert page.content_type.startswith("text/html")
    text = page.body.decode()
    assert all(f"<code>{route.path}</code>" in text for route in ROUTES)
    assert "<script" not in text and "http://" not in text and "https://" not in text


def test_a_route_without_a_role_cannot_be_added() -> None:
    routes = all_routes()
    with pytest.raises(AssertionError, match="for whom"):
        routes.add("GET", "/api/new", lambda request: None, "anybody")
