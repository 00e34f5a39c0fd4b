"""What the HTTP client of rabbitmqadmin for RabbitMQ 4 asks for, and which fields of what type it needs in
the answers. Fields that it can do without are not here, unless a null would stop it: those have a default.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Table = dict[str, Any]


class Rate(msgspec.Struct):
    rate: float


class ObjectTotals(msgspec.Struct):
    connections: int
    channels: int
    queues: int
    exchanges: int
    consumers: int


class QueueTotals(msgspec.Struct):
    messages: int
    messages_ready: int
    messages_unacknowledged: int
    messages_details: Rate


class MessageStats(msgspec.Struct):
    publish_details: Rate | None
    deliver_get_details: Rate | None
    confirm_details: Rate | None
    ack_details: Rate | None


class ChurnRates(msgspec.Struct):
    connection_created: int
    connection_closed: int
    queue_declared: int
    queue_created: int
    queue_deleted: int
    channel_created: int
    channel_closed: int


class Overview(msgspec.Struct):
    cluster_name: str
    node: str
    erlang_full_version: str
    erlang_version: str
    rabbitmq_version: str
    product_name: str
    product_version: str
    statistics_db_event_queue: int
    churn_rates: ChurnRates
    queue_totals: QueueTotals
    object_totals: ObjectTotals
    message_stats: MessageStats
    cluster_tags: Table | None = None
    node_tags: Table | None = None


class Node(msgspec.Struct):
    name: str
    uptime: int
    run_queue: int
    processors: int
    os_pid: str
    fd_total: int
    proc_total: int
    mem_limit: int
    mem_alarm: bool
    disk_free_limit: int
    disk_free_alarm: bool
    rates_mode: str
    enabled_plugins: list[str]
    being_drained: bool


class MemoryTotals(msgspec.Struct):
    rss: int
    allocated: int
    erlang: int


class Memory(msgspec.Struct):
    connection_readers: int
    connection_writers: int
    connection_channels: int
    connection_other: int
    queue_procs: int
    quorum_queue_procs: int
    stream_queue_procs: int
    stream_queue_replica_reader_procs: int
    stream_queue_coordinator_procs: int
    plugins: int
    metadata_store: int
    other_proc: int
    metrics: int
    mgmt_db: int
    mnesia: int
    quorum_ets: int
    metadata_store_ets: int
    other_ets: int
    binary: int
    msg_index: int
    code: int
    atom: int
    other_system: int
    allocated_unused: int
    reserved_unallocated: int
    strategy: str
    total: MemoryTotals


class MemoryFootprint(msgspec.Struct):
    memory: Memory


class Queue(msgspec.Struct):
    name: str
    vhost: str
    type: str
    durable: bool
    auto_delete: bool
    exclusive: bool
    arguments: Table
    node: str = "?"
    state: str = ""
    leader: str | None = None
    members: list[str] | None = None
    online: list[str] | None = None
    memory: int = 0
    consumers: int = 0
    consumer_utilisation: float = 0.0
    exclusive_consumer_tag: str | None = None
    policy: str | None = None
    message_bytes: int = 0
    message_bytes_persistent: int = 0
    message_bytes_ram: int = 0
    message_bytes_ready: int = 0
    message_bytes_unacknowledged: int = 0
    messages: int = 0
    messages_persistent: int = 0
    messages_ram: int = 0
    messages_unacknowledged: int = 0


class ClientProperties(msgspec.Struct):
    connection_name: str = ""
    platform: str = ""
    product: str = ""
    version: str = ""
    capabilities: dict[str, bool] | None = None


class Connection(msgspec.Struct):
    name: str
    node: str
    protocol: str
    user: str
    connected_at: int
    client_properties: ClientProperties
    state: str | None = None
    host: str | None = None
    port: int | None = None
    peer_host: str | None = None
    peer_port: int | None = None
    channel_max: int | None = None
    channels: int = 0


class UserConnection(msgspec.Struct):
    name: str
    node: str
    user: str
    vhost: str


class ConnectionDetails(msgspec.Struct):
    name: str
    peer_host: str
    peer_port: int


class Channel(msgspec.Struct):
    number: int
    name: str
    connection_details: ConnectionDetails
    vhost: str
    state: str
    consumer_count: int
    confirm: bool
    prefetch_count: int
    messages_unacknowledged: int
    messages_unconfirmed: int


class ChannelDetails(msgspec.Struct):
    number: int
    name: str
    connection_name: str
    node: str
    peer_host: str
    peer_port: int
    user: str


class NameAndVhost(msgspec.Struct):
    name: str
    vhost: str


class Consumer(msgspec.Struct):
    consumer_tag: str
    active: bool
    ack_required: bool
    prefetch_count: int
    exclusive: bool
    arguments: Table
    consumer_timeout: int
    queue: NameAndVhost
    channel_details: ChannelDetails


class Exchange(msgspec.Struct):
    name: str
    vhost: str
    type: str
    durable: bool
    auto_delete: bool
    arguments: Table


class Binding(msgspec.Struct):
    vhost: str
    source: str
    destination: str
    destination_type: Literal["queue", "exchange"]
    routing_key: str
    arguments: Table
    properties_key: str | None = None


class VhostMetadata(msgspec.Struct):
    tags: list[str] | None = None
    description: str | None = None
    default_queue_type: str | None = None


class Vhost(msgspec.Struct):
    name: str
    tags: list[str] | None = None
    description: str | None = None
    default_queue_type: str | None = None
    metadata: VhostMetadata | None = None


class User(msgspec.Struct):
    name: str
    tags: list[str]
    password_hash: str


class CurrentUser(msgspec.Struct):
    name: str
    tags: list[str]


class Permission(msgspec.Struct):
    user: str
    vhost: str
    configure: str
    read: str
    write: str


class TopicPermission(msgspec.Struct):
    user: str
    vhost: str
    exchange: str
    read: str
    write: str


class Policy(msgspec.Struct):
    name: str
    vhost: str
    pattern: str
    apply_to: str = msgspec.field(name="apply-to")
    priority: int
    definition: Table


class Parameter(msgspec.Struct):
    name: str
    vhost: str
    component: str
    value: Table | list[Any]


class GlobalParameter(msgspec.Struct):
    name: str
    value: Any


class VhostLimits(msgspec.Struct):
    vhost: str
    value: Table


class UserLimits(msgspec.Struct):
    user: str
    value: Table


class FeatureFlag(msgspec.Struct):
    name: str
    state: Literal["enabled", "disabled", "state_changing", "unavailable"]
    desc: str
    doc_url: str
    stability: Literal["required", "stable", "experimental"]
    provided_by: str


class LoginAttempts(msgspec.Struct):
    protocol: str
    auth_attempts: int
    auth_attempts_failed: int
    auth_attempts_succeeded: int


class Name(msgspec.Struct):
    name: str


class OAuth(msgspec.Struct):
    oauth_enabled: bool


class Definitions(msgspec.Struct):
    rabbitmq_version: str | None
    users: list[User]
    vhosts: list[Vhost]
    permissions: list[Permission]
    parameters: list[Parameter]
    policies: list[Policy]
    queues: list[Exchange | Any]
    exchanges: list[Exchange]
    bindings: list[Binding]


class VhostPolicy(msgspec.Struct):
    name: str
    pattern: str
    apply_to: str = msgspec.field(name="apply-to")
    priority: int
    definition: Table


class VhostParameter(msgspec.Struct):
    name: str
    component: str
    value: Table


class VhostQueue(msgspec.Struct):
    name: str
    durable: bool
    auto_delete: bool
    arguments: Table


class VhostDefinitions(msgspec.Struct):
    parameters: list[VhostParameter]
    policies: list[VhostPolicy]
    queues: list[VhostQueue]
    exchanges: list[Any]
    bindings: list[Any]


class Healthy(msgspec.Struct):
    status: Literal["ok"]
