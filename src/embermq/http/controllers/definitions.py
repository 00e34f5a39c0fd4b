"""Definitions: everything durable but the messages, out as one document and in again.

The document is RabbitMQ's, in both directions. Passwords that were set here have a hash that RabbitMQ does
not know. It would take such users all the same, in place of those of the same name, and refuse their logins
from then on: so they are in a section of their own, `embermq`, which RabbitMQ does not read.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from email.message import Message
from functools import partial
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any

import msgspec

from embermq.broker.broker import Broker
from embermq.broker.exchange.binding import Binding
from embermq.broker.exchange.event import EVENT_EXCHANGE
from embermq.broker.exchange.exchange import Exchange
from embermq.broker.policy.policy import POLICY
from embermq.broker.queue.queue import Queue
from embermq.broker.security.user import Permission, User
from embermq.broker.vhost import PREDECLARED, VirtualHost
from embermq.errors import AMQPError
from embermq.http.controllers.definitions_preview import PREVIEW, Preview
from embermq.http.controllers.exchanges import in_order, vhost_of
from embermq.http.controllers.parameters import (
    global_parameter_views,
    parameter_views,
    store_global_parameter,
    store_parameter,
)
from embermq.http.controllers.permissions import (
    permission_from,
    store_topic_permission,
    topic_permission_views,
)
from embermq.http.controllers.policies import policy_views, store_policy
from embermq.http.controllers.queues import NO_OWNER, template_view
from embermq.http.controllers.users import store_user, user_from
from embermq.http.controllers.vhosts import store_vhost
from embermq.http.openapi import schemas
from embermq.http.openapi.route_docs import Parameter, describes, flag
from embermq.http.server.auth import aside
from embermq.http.server.context import RABBITMQ_VERSION
from embermq.http.server.cooperative import Steps
from embermq.http.server.request import (
    Request,
    Response,
    bad_request,
    boolean,
    echoed,
    encode,
    parsed_json,
    table,
    text,
)
from embermq.http.views.thing_name import clean
from embermq.http.views.views import (
    RABBITMQ_HASHING,
    View,
    binding_definition,
    exchange_definition,
    permission_view,
    queue_definition,
    user_view,
    vhost_metadata,
)

log = logging.getLogger("embermq.http")

BODY_BYTES_MAX = 32 * 1024 * 1024
ENTRY_BYTES_MAX = 256 * 1024  # of one queue, one policy, ...: parsed in one step
RABBITMQ = "rabbitmq"
FOR = (
    Parameter(
        "for",
        "`rabbitmq`: users whose password RabbitMQ could not check come without one, and are named",
        {"type": "string", "enum": [RABBITMQ]},
    ),
)
GUEST = "guest"
Entries = Sequence[msgspec.Raw]
BUILT_IN = {"", "amq.rabbitmq.trace", EVENT_EXCHANGE, *PREDECLARED}


@describes("Everything but the messages, as one document.", query=FOR, answer=schemas.DEFINITIONS)
async def export_all(request: Request) -> Response:
    broker = request.context.broker
    users = sorted(broker.users.values(), key=attrgetter("name"))
    ours = [user for user in users if not is_for_rabbitmq(user)]
    for_rabbitmq = request.query.get("for") == RABBITMQ
    if for_rabbitmq:  # it has a guest of its own, which would lose its password
        users = [user for user in users if user not in ours or user.name != GUEST]
    else:
        users = [user for user in users if user not in ours]
    vhosts = sorted(broker.vhosts.values(), key=attrgetter("name"))
    document: View = {
        "rabbit_version": RABBITMQ_VERSION,
        "rabbitmq_version": RABBITMQ_VERSION,
        "product_name": "EmberMQ",
        "product_version": request.context.version,
        **people(users),
        "vhosts": [vhost_definition(vhost) for vhost in vhosts],
        "parameters": [view for vhost in vhosts for view in parameter_views(vhost)],
        "global_parameters": global_parameter_views(broker),
        "templates": [template_view(broker.defaults.templates, name) for name in template_names(broker)],
        "policies": [view for vhost in vhosts for view in policy_views(vhost)],
    }
    if for_rabbitmq:
        document["users"] = [user_for_rabbitmq(user) for user in users]
        document["users_without_password"] = [user.name for user in users if user in ours]
        document["left_out"] = [
            definition(thing)
            for vhost in vhosts
            for thing, definition in (*exchanges_of(vhost), *bindings_of(vhost))
            if not is_known_to_rabbitmq(thing)
        ]
    elif ours:
        document["embermq"] = people(ours)
    return await finished(request, document, vhosts, with_vhost=True, for_rabbitmq=for_rabbitmq)


def people(users: list[User]) -> View:
    return {
        "users": [user_view(user) for user in users],
        "permissions": [permission_view(user, v, p) for user in users for v, p in sorted_permissions(user)],
        "topic_permissions": topic_permission_views(users),
    }


@describes("What a virtual host has, as one document.", answer=schemas.DEFINITIONS)
async def export_vhost(request: Request) -> Response:
    vhost = vhost_of(request)
    document: View = {
        "rabbit_version": RABBITMQ_VERSION,
        "parameters": [without_vhost(view) for view in parameter_views(vhost)],
        "policies": [without_vhost(view) for view in policy_views(vhost)],
    }
    return await finished(request, document, [vhost], with_vhost=False)


FILE_FIELD = re.compile(rb"content-disposition:[^\r\n]*[; ]name=\"?file\"?(?![^;\r\n])", re.IGNORECASE)


def user_for_rabbitmq(user: User) -> View:
    """Without a password where RabbitMQ could not check it: an empty hash allows no login, and
    permissions have a user to belong to."""
    view = user_view(user)
    if not is_for_rabbitmq(user):
        view |= {"password_hash": "", "hashing_algorithm": RABBITMQ_HASHING}
    return view


def is_for_rabbitmq(user: User) -> bool:
    """Only the hashes that came from there are understood there; see docs/http-api.md."""
    return str(user_view(user)["hashing_algorithm"]).startswith("rabbit_")


def template_names(broker: Broker) -> list[str]:
    return sorted(broker.defaults.templates.all())


def without_vhost(view: View) -> View:
    return {name: value for name, value in view.items() if name != "vhost"}


def sorted_permissions(user: User) -> list[tuple[str, Permission]]:
    return sorted(user.permissions.items(), key=itemgetter(0))


def vhost_definition(vhost: VirtualHost) -> View:
    metadata = vhost_metadata(vhost)
    return {"name": vhost.name, **metadata, "metadata": metadata}


async def finished(
    request: Request,
    document: View,
    vhosts: list[VirtualHost],
    with_vhost: bool,
    for_rabbitmq: bool = False,
) -> Response:
    """The document with queues, exchanges and bindings, which may be many: in steps."""
    steps = Steps(request.context.scheduler)
    parts = [encode(document)[:-1]]
    for key, definitions in (
        ("queues", [d for vhost in vhosts for d in queues_of(vhost)]),
        ("exchanges", [d for vhost in vhosts for d in exchanges_of(vhost)]),
        ("bindings", [d for vhost in vhosts for d in bindings_of(vhost)]),
    ):
        shown = []
        for thing, definition in definitions:
            if for_rabbitmq and not is_known_to_rabbitmq(thing):
                continue
            view = definition(thing)
            if not with_vhost:
                del view["vhost"]
            shown.append(encode(view))
            await steps.pause()
        parts.append(b',"' + key.encode() + b'":[' + b",".join(shown) + b"]")
    parts.append(b"}")
    return Response(200, b"".join(parts))


def queues_of(vhost: VirtualHost) -> Iterable[tuple[Any, Any]]:
    return [(queue, queue_definition) for queue in in_order(vhost.queues) if not queue.exclusive]


def exchanges_of(vhost: VirtualHost) -> Iterable[tuple[Any, Any]]:
    return [(e, exchange_definition) for e in in_order(vhost.exchanges) if e.name not in BUILT_IN]


def bindings_of(vhost: VirtualHost) -> Iterable[tuple[Any, Any]]:
    """The last links of chains first: brought in again in that order, no rule is wider than it will be."""
    bindings = [b for exchange in in_order(vhost.exchanges) for b in exchange.bindings.values()]
    bindings.sort(key=lambda binding: -len(binding.path))
    return [(binding, binding_definition) for binding in bindings if not is_temporary(binding)]


def is_known_to_rabbitmq(thing: Queue | Exchange | Binding) -> bool:
    """It has no selectors, and would take each link of a chained binding for a binding by itself."""
    if isinstance(thing, Queue):
        return True
    if isinstance(thing, Exchange):
        return thing.routing_type != "x-selector"
    ends = [end for end in (thing.source, thing.destination) if isinstance(end, Exchange)]
    chain = thing.source.chain
    narrowed = thing.chained or (chain is not None and thing.destination in chain.narrowed)
    return not narrowed and all(map(is_known_to_rabbitmq, ends))


def is_temporary(binding: Binding) -> bool:
    return isinstance(binding.destination, Queue) and binding.destination.exclusive


# -- in


DRY_RUN = (flag("dry_run", "change nothing, and answer what would change"),)


@describes(
    "Bring in a document of definitions.",
    query=DRY_RUN,
    body=schemas.DEFINITIONS,
    answer=PREVIEW,
    status=(200, 204),
)
async def import_all(request: Request) -> Response:
    broker, steps = request.context.broker, Steps(request.context.scheduler)
    document = document_of(request)
    sections = (document, document.embermq)
    if request.flag("dry_run"):
        preview = Preview(broker)
        await preview.add_broker(sections, things, steps)
        await preview.add_topology(document, things, steps)
        return Response.of(preview.view())
    for body in chain.from_iterable(things(section, "users") for section in sections):
        new = await aside(broker, partial(user_from, clean(text(body, "name")), {"tags": "", **body}))
        store_user(broker, new)
        await steps.pause()
    for body in things(document, "vhosts"):
        store_vhost(broker, clean(text(body, "name")), body)
        await steps.pause()
    for body in chain.from_iterable(things(section, "permissions") for section in sections):
        user, vhost = broker.users.get(text(body, "user")), text(body, "vhost")
        if user is None or vhost not in broker.vhosts:
            raise bad_request("vhost_or_user_not_found")
        broker.users.grant(user, vhost, permission_from(body))
        await steps.pause()
    templates = broker.defaults.templates
    for body in things(document, "templates"):
        if text(body, "name") not in templates.configured:
            templates.set(clean(text(body, "name")), table(body, "arguments"))
    for body in things(document, "global_parameters"):
        store_global_parameter(broker, clean(text(body, "name")), body.get("value"))
    for body in chain.from_iterable(things(section, "topic_permissions") for section in sections):
        store_topic_permission(request, body)
        await steps.pause()
    await import_topology(request, document, steps, None)
    return Response(204)


@describes(
    "Bring definitions into a virtual host.",
    query=DRY_RUN,
    body=schemas.DEFINITIONS,
    answer=PREVIEW,
    status=(200, 204),
)
async def import_vhost(request: Request) -> Response:
    vhost, steps = vhost_of(request), Steps(request.context.scheduler)
    document = document_of(request)
    if request.flag("dry_run"):
        preview = Preview(request.context.broker, vhost)
        await preview.add_topology(document, things, steps)
        return Response.of(preview.view())
    await import_topology(request, document, steps, vhost)
    return Response(204)


class People(msgspec.Struct):
    users: Entries = ()
    permissions: Entries = ()
    topic_permissions: Entries = ()


class Document(People):
    """What a document may have, taken apart but not parsed: that would be long for one step."""

    embermq: People = msgspec.field(default_factory=People)
    vhosts: Entries = ()
    parameters: Entries = ()
    global_parameters: Entries = ()
    templates: Entries = ()
    policies: Entries = ()
    queues: Entries = ()
    exchanges: Entries = ()
    bindings: Entries = ()


read_document = msgspec.json.Decoder(Document)


def document_of(request: Request) -> Document:
    """The body, or the file in it where a form of a browser (or `curl -F file=@...`) sent it."""
    kind = request.headers.get("content-type", "")
    if kind.lower().startswith("multipart/form-data"):
        request.body = file_in_form(kind, request.body)
    try:
        return read_document.decode(request.body.strip() or b"{}")
    except msgspec.ValidationError as error:
        raise bad_request(f"a document of definitions has lists of objects: {error}") from None
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise bad_request("failed_to_parse_json") from None


def things(section: People, key: str) -> Iterator[dict[str, Any]]:
    """Each is parsed when its turn comes."""
    entries: Entries = getattr(section, key)
    for entry in entries:
        if len(bytes(entry)) > ENTRY_BYTES_MAX:
            raise bad_request(f"an entry of {key} is longer than {ENTRY_BYTES_MAX} bytes")
        thing = parsed_json(bytes(entry))
        if not isinstance(thing, dict):
            raise bad_request(f"{key} must be a list of objects")
        yield thing


def file_in_form(kind: str, body: bytes) -> bytes:
    head = Message()
    head["content-type"] = kind
    boundary = head.get_boundary()
    for part in body.split(b"--" + boundary.encode("latin-1", "replace")) if boundary else ():
        described, _, content = part.partition(b"\r\n\r\n")
        if FILE_FIELD.search(described):
            return content.removesuffix(b"\r\n")
    raise bad_request("the form has no field named file with the definitions")


async def import_topology(
    request: Request, document: Document, steps: Steps, only: VirtualHost | None
) -> None:
    vhosts = request.context.broker.vhosts
    for key, put in PARTS:
        for body in things(document, key):
            vhost = only or vhosts.get(text(body, "vhost"))
            if vhost is None:
                raise bad_request(["no_such_vhost", echoed(body.get("vhost", "undefined"))])
            try:
                put(vhost, body)
            except AMQPError as error:
                raise bad_request(error.detail) from None
            await steps.pause()


def import_policy(vhost: VirtualHost, body: dict[str, Any]) -> None:
    try:
        store_policy(vhost, POLICY, clean(text(body, "name")), body)
    except AMQPError as error:
        raise bad_request(f"{error.detail} ({vhost.name}/{body.get('name')})") from None


def import_parameter(vhost: VirtualHost, body: dict[str, Any]) -> None:
    store_parameter(vhost, text(body, "component"), clean(text(body, "name")), body.get("value"))


def put_queue(vhost: VirtualHost, body: dict[str, Any]) -> None:
    name = clean(text(body, "name"))
    if not name:
        raise bad_request("a queue needs a name")
    if name in vhost.queues:
        return  # as RabbitMQ: what is there stays as it is
    vhost.declare_queue(
        name,
        owner=NO_OWNER,
        durable=boolean(body, "durable"),
        exclusive=False,
        auto_delete=boolean(body, "auto_delete"),
        arguments=table(body, "arguments"),
    )


def put_exchange(vhost: VirtualHost, body: dict[str, Any]) -> None:
    name = clean(text(body, "name"))
    if name in vhost.exchanges:
        return
    vhost.declare_exchange(
        name,
        text(body, "type"),
        durable=boolean(body, "durable"),
        auto_delete=boolean(body, "auto_delete"),
        internal=boolean(body, "internal"),
        arguments=table(body, "arguments"),
    )


def put_binding(vhost: VirtualHost, body: dict[str, Any]) -> None:
    source = vhost.exchange(text(body, "source"))
    if not source.name:
        return  # every queue is bound to the default exchange anyway
    name = text(body, "destination")
    destination: Queue | Exchange
    destination = vhost.queue(name) if body.get("destination_type") == "queue" else vhost.exchange(name)
    vhost.bind(source, destination, clean(text(body, "routing_key")), table(body, "arguments"))


# Policies first: what is declared then has them from the start.
PARTS = (
    ("parameters", import_parameter),
    ("policies", import_policy),
    ("queues", put_queue),
    ("exchanges", put_exchange),
    ("bindings", put_binding),
)
