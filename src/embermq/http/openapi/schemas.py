"""The shapes of bodies and answers as JSON Schema, for the OpenAPI document.

Answers may have more fields than are named here: what is named is what one can build on.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
INTEGER: Schema = {"type": "integer"}
COUNT: Schema = {"type": "integer", "minimum": 0}
COUNT_OR_NULL: Schema = {"type": ["integer", "null"], "minimum": 0}
NUMBER: Schema = {"type": "number"}
BOOLEAN: Schema = {"type": "boolean"}
ANYTHING: Schema = {}
OBJECT: Schema = {"type": "object"}
NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 200}
FLAG: Schema = {"anyOf": [BOOLEAN, {"type": "string", "enum": ["true", "false"]}]}
ARGUMENTS: Schema = {"type": "object", "additionalProperties": {"type": ["string", "integer", "boolean"]}}


def fields(_required: str = "", **properties: Schema) -> Schema:
    """An object; `_required` names, with spaces between, what is always there."""
    schema: Schema = {"type": "object", "properties": properties}
    if _required:
        schema["required"] = _required.split()
    return schema


def every(**properties: Schema) -> Schema:
    """An object with all of these."""
    return fields(" ".join(properties), **properties)


def list_of(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def partial(schema: Any) -> Any:
    """The same where nothing must be there: what is left of it when `columns` are asked for."""
    if isinstance(schema, dict):
        return {key: partial(value) for key, value in schema.items() if key != "required"}
    return [partial(value) for value in schema] if isinstance(schema, list) else schema


def listed(schema: Schema) -> Schema:
    """A list, or a page of it where one is asked for; with `columns`, of objects with less in them."""
    item = partial(schema)
    page = every(
        items=list_of(item),
        item_count=COUNT,
        filtered_count=COUNT,
        total_count=COUNT,
        page=COUNT,
        page_count=COUNT,
        page_size=COUNT,
    )
    return {"anyOf": [list_of(item), page]}


ERROR = every(error=TEXT, reason=ANYTHING)
STATUS = fields("status", status={"enum": ["ok", "failed"]})
DETAILS = fields("rate", rate=NUMBER, samples=list_of(every(sample=INTEGER, timestamp=COUNT)))
STATS: Schema = {
    "type": "object",
    "patternProperties": {"_details$": DETAILS},
    "additionalProperties": COUNT,
}

QUEUE = fields(
    "name vhost durable auto_delete exclusive arguments type",
    name=TEXT,
    vhost=TEXT,
    durable=BOOLEAN,
    auto_delete=BOOLEAN,
    exclusive=BOOLEAN,
    arguments=OBJECT,
    type=TEXT,
    node=TEXT,
    state=TEXT,
    consumers=COUNT,
    messages=COUNT,
    messages_ready=COUNT,
    messages_unacknowledged=COUNT,
    messages_details=DETAILS,
    messages_paged_out=COUNT,
    message_bytes=COUNT,
    message_bytes_ready=COUNT,
    message_bytes_unacknowledged=COUNT,
    message_stats=STATS,
)
EXCHANGE = fields(
    "name vhost type durable auto_delete internal arguments",
    name=TEXT,
    vhost=TEXT,
    type=TEXT,
    durable=BOOLEAN,
    auto_delete=BOOLEAN,
    internal=BOOLEAN,
    arguments=OBJECT,
    message_stats=STATS,
)
BINDING = every(
    source=TEXT,
    vhost=TEXT,
    destination=TEXT,
    destination_type={"enum": ["queue", "exchange"]},
    routing_key=TEXT,
    arguments=OBJECT,
    properties_key=TEXT,
)
EXPLANATION = every(
    queues=list_of(TEXT),
    by_chance={**BOOLEAN, "description": "chance decides: the queues are those that it may reach"},
    bindings=list_of(
        every(
            source=TEXT,
            destination=TEXT,
            destination_type={"enum": ["queue", "exchange"]},
            routing_key=TEXT,
            arguments=OBJECT,
            matched=BOOLEAN,
            reason=TEXT,
        )
    ),
    unroutable_reason=TEXT_OR_NULL,
)
VHOST = fields(
    "name description tags tracing",
    name=TEXT,
    description=TEXT,
    tags=list_of(TEXT),
    tracing=BOOLEAN,
    messages=COUNT,
    message_stats=STATS,
)
CONNECTION = fields(
    "name user vhost state channels recv_oct send_oct",
    name=TEXT,
    user=TEXT,
    vhost=TEXT,
    state=TEXT,
    channels=COUNT,
    recv_oct=COUNT,
    recv_oct_details=DETAILS,
    send_oct=COUNT,
    send_oct_details=DETAILS,
    client_properties=OBJECT,
)
CHANNEL = fields(
    "name number user vhost",
    name=TEXT,
    number=COUNT,
    user=TEXT,
    vhost=TEXT,
    consumer_count=COUNT,
    prefetch_count=COUNT,
    message_stats=STATS,
)
CONSUMER = fields(
    "consumer_tag queue ack_required",
    consumer_tag=TEXT,
    queue=every(name=TEXT, vhost=TEXT),
    ack_required=BOOLEAN,
    active=BOOLEAN,
    prefetch_count=COUNT,
    messages_unacknowledged=COUNT,
)
USER = every(
    name=TEXT, password_hash=TEXT, hashing_algorithm=TEXT, tags=list_of(TEXT), limits={"type": "object"}
)
PERMISSION = every(user=TEXT, vhost=TEXT, configure=TEXT, write=TEXT, read=TEXT)
CLUSTER_NAME = every(name=NAME)
LISTED = listed(OBJECT)
POLICY = fields(
    "name vhost pattern definition priority",
    name=TEXT,
    vhost=TEXT,
    pattern=TEXT,
    definition=OBJECT,
    priority=INTEGER,
)
PARAMETER = every(name=TEXT, vhost=TEXT, component=TEXT, value=ANYTHING)
GLOBAL_PARAMETER = every(name=TEXT, value=ANYTHING)
TOPIC_PERMISSION = every(user=TEXT, vhost=TEXT, exchange=TEXT, write=TEXT, read=TEXT)
VHOST_LIMITS = every(vhost=TEXT, value=OBJECT)
USER_LIMITS = every(user=TEXT, value=OBJECT)
STREAM = fields(
    "name vhost first_offset next_offset messages consumers",
    name=TEXT,
    vhost=TEXT,
    first_offset=COUNT,
    next_offset=COUNT,
    messages=COUNT,
    consumers=list_of(OBJECT),
    tracking=OBJECT,
)
SUPER_STREAM = every(name=TEXT, vhost=TEXT, type=TEXT, partitions=list_of(OBJECT))
NODE = fields("name running", name=TEXT, running=BOOLEAN, mem_used=COUNT, fd_used=COUNT, uptime=COUNT)
OVERVIEW = fields(
    "rabbitmq_version message_stats queue_totals object_totals node",
    rabbitmq_version=TEXT,
    product_name=TEXT,
    product_version=TEXT,
    product_build=TEXT,
    message_stats=STATS,
    queue_totals=STATS,
    churn_rates=STATS,
    object_totals={"type": "object", "additionalProperties": COUNT},
    node=TEXT,
)
DEFINITIONS = fields(
    queues=list_of(OBJECT), exchanges=list_of(OBJECT), bindings=list_of(OBJECT), policies=list_of(OBJECT)
)
CONTENT = {
    "payload": TEXT,
    "payload_bytes": COUNT,
    "payload_encoding": {"enum": ["string", "base64"]},
    "exchange": TEXT,
    "routing_key": TEXT,
    "properties": OBJECT,
    "redelivered": BOOLEAN,
}
MESSAGE = every(**CONTENT, message_count=COUNT)
BROWSED_MESSAGE = fields(
    " ".join([*CONTENT, "state"]),
    **CONTENT,
    state={"enum": ["ready", "unacked"]},
    position=TEXT,
    paged_out=BOOLEAN,
    expires_at=COUNT,
    channel=TEXT,
    delivery_tag=COUNT,
    consumer_tag=TEXT_OR_NULL,
)
BROWSED = every(messages=list_of(BROWSED_MESSAGE), scanned=COUNT, next=TEXT_OR_NULL)
TASK = fields(
    "id kind state vhost source done scanned total",
    id=TEXT,
    kind={"enum": ["move", "copy", "delete", "return"]},
    state={"enum": ["running", "done", "cancelled", "failed"]},
    reason=TEXT,
    vhost=TEXT,
    source=TEXT,
    destination=TEXT_OR_NULL,
    destination_vhost=TEXT_OR_NULL,
    user=TEXT,
    limit=COUNT_OR_NULL,
    done=COUNT,
    skipped=COUNT,
    scanned=COUNT,
    total=COUNT,
    started_at=COUNT,
    ended_at=COUNT_OR_NULL,
)

# -- bodies

FILTER = {
    **fields(
        exchange=TEXT,
        routing_key={**TEXT, "description": "a topic pattern"},
        headers={**OBJECT, "description": "a value of null means that the header must be there"},
        body={**TEXT, "description": "text that the body has"},
        selector={**TEXT, "description": "a condition on headers and properties"},
    ),
    "additionalProperties": False,
}
CHOICE = fields(limit={"type": ["integer", "null"], "minimum": 1}, filter=FILTER)
TRANSFER = fields(
    "destination",
    destination=NAME,
    destination_vhost=TEXT,
    limit={"type": ["integer", "null"], "minimum": 1},
    filter=FILTER,
)
QUEUE_BODY = fields(durable=FLAG, auto_delete=FLAG, arguments=ARGUMENTS)
EXCHANGE_BODY = fields(
    "type",
    type={"enum": ["direct", "fanout", "topic", "headers"]},
    durable=FLAG,
    auto_delete=FLAG,
    internal=FLAG,
    arguments=ARGUMENTS,
)
BINDING_BODY = fields(routing_key={**TEXT, "maxLength": 60}, arguments=ARGUMENTS)
EXPLAIN_BODY = fields(
    routing_key={**TEXT, "maxLength": 60},
    properties=fields(headers=ARGUMENTS, content_type={**TEXT, "maxLength": 60}),
    headers={**ARGUMENTS, "description": "the same as headers in the properties"},
    payload=TEXT,
    queue={**TEXT, "description": "only bindings on the ways to this queue"},
)
VHOST_BODY = fields(description=TEXT, tags=list_of(TEXT), tracing=FLAG)
USER_BODY = fields(
    "tags",
    tags={"anyOf": [TEXT, list_of(TEXT)]},
    password=TEXT,
    password_hash={**TEXT, "description": "base64 of salt and hash, as an export has it"},
    hashing_algorithm=TEXT,
)
PASSWORD_BODY = every(password=TEXT)
USERS_BODY = fields("users", users=list_of(TEXT))
POLICY_BODY = fields(
    "pattern definition",
    pattern=TEXT,
    definition=ARGUMENTS,
    priority=INTEGER,
    **{"apply-to": {"enum": ["all", "queues", "exchanges"]}},
)
PARAMETER_BODY = every(value=ANYTHING)
OFFSET_BODY = every(offset=COUNT)
SUPER_STREAM_BODY = fields(
    partitions={"type": "integer", "minimum": 1, "maximum": 5},
    routing_keys=list_of(TEXT),
    arguments=ARGUMENTS,
)
TEMPLATE = every(name=TEXT, arguments=OBJECT, configured=BOOLEAN)
TEMPLATE_BODY = every(arguments=ARGUMENTS)
PERMISSION_BODY = every(configure=TEXT, write=TEXT, read=TEXT)
TOPIC_PERMISSION_BODY = every(exchange=TEXT, write=TEXT, read=TEXT)
LIMIT_BODY = every(value=INTEGER)
PUBLISH_BODY = every(
    routing_key={**TEXT, "maxLength": 60},
    payload=TEXT,
    payload_encoding={"enum": ["string", "base64"]},
    properties=fields(
        delivery_mode={"enum": [1, 2]},
        headers=ARGUMENTS,
        priority={"type": "integer", "minimum": 0, "maximum": 255},
        content_type={**TEXT, "maxLength": 60},
    ),
)
GET_BODY = fields(
    "ackmode count encoding",
    ackmode={
        "enum": ["ack_requeue_true", "reject_requeue_true", "ack_requeue_false", "reject_requeue_false"]
    },
    count={"type": "integer", "minimum": 0, "maximum": 10_000},
    encoding={"enum": ["auto", "base64"]},
    truncate=COUNT,
)
ACTION_BODY = fields("action", action={"enum": ["sync", "cancel_sync"]})
