"""Every route: method, path, handler, and the tag that opens it. Paths and levels are RabbitMQ's."""

from __future__ import annotations

from embermq.http import (
    bindings,
    browsing,
    clients,
    definitions,
    delayed,
    exchanges,
    health,
    messages,
    metrics,
    overview,
    page,
    parameters,
    policies,
    queues,
    streams,
    tasks,
    users,
    vhosts,
)
from embermq.http.api import OPEN_TO_ALL, Routes
from embermq.http.login import ADMINISTRATOR, MANAGEMENT, MONITORING, POLICYMAKER
from embermq.http.request import Handler

BINDING = "/api/bindings/{vhost}/e/{source}/{kind}/{destination}"

# fmt: off
TABLE: list[tuple[str, str, Handler, str]] = [
    ("GET", "/", page.start_page, MANAGEMENT),
    ("GET", "/metrics", metrics.metrics, OPEN_TO_ALL),

    ("GET", "/api/overview", overview.overview, MANAGEMENT),
    ("GET", "/api/whoami", overview.whoami, MANAGEMENT),
    ("GET", "/api/auth", overview.auth, OPEN_TO_ALL),
    ("GET", "/api/cluster-name", overview.cluster_name, MANAGEMENT),
    ("GET", "/api/extensions", overview.nothing_there, MANAGEMENT),
    ("GET", "/api/nodes", overview.nodes, MONITORING),
    ("GET", "/api/nodes/{node}", overview.node, MONITORING),

    ("GET", "/api/connections", clients.all_connections, MANAGEMENT),
    ("GET", "/api/connections/{name}", clients.one_connection, MANAGEMENT),
    ("DELETE", "/api/connections/{name}", clients.close_connection, MANAGEMENT),
    ("GET", "/api/connections/{name}/channels", clients.channels_of_connection, MANAGEMENT),
    ("GET", "/api/connections/username/{user}", clients.connections_of_user, MANAGEMENT),
    ("DELETE", "/api/connections/username/{user}", clients.close_connections_of_user, ADMINISTRATOR),
    ("GET", "/api/vhosts/{vhost}/connections", clients.connections_in, MANAGEMENT),
    ("GET", "/api/channels", clients.all_channels, MANAGEMENT),
    ("GET", "/api/channels/{name}", clients.one_channel, MANAGEMENT),
    ("GET", "/api/vhosts/{vhost}/channels", clients.channels_in, MANAGEMENT),
    ("GET", "/api/consumers", clients.all_consumers, MANAGEMENT),
    ("GET", "/api/consumers/{vhost}", clients.consumers_in, MANAGEMENT),

    ("GET", "/api/exchanges", exchanges.all_exchanges, MANAGEMENT),
    ("GET", "/api/exchanges/{vhost}", exchanges.exchanges_in, MANAGEMENT),
    ("GET", "/api/exchanges/{vhost}/{name}", exchanges.one_exchange, MANAGEMENT),
    ("PUT", "/api/exchanges/{vhost}/{name}", exchanges.put_exchange, MANAGEMENT),
    ("DELETE", "/api/exchanges/{vhost}/{name}", exchanges.delete_exchange, MANAGEMENT),
    ("POST", "/api/exchanges/{vhost}/{name}/publish", messages.publish_message, MANAGEMENT),
    ("DELETE", "/api/exchanges/{vhost}/{name}/delayed", delayed.take_back_from_exchange, MANAGEMENT),
    ("GET", "/api/exchanges/{vhost}/{name}/bindings/source", exchanges.bindings_from_exchange, MANAGEMENT),
    ("GET", "/api/exchanges/{vhost}/{name}/bindings/destination", exchanges.bindings_to_exchange, MANAGEMENT),

    ("GET", "/api/queues", queues.all_queues, MANAGEMENT),
    ("GET", "/api/queues/{vhost}", queues.queues_in, MANAGEMENT),
    ("GET", "/api/queues/{vhost}/{name}", queues.one_queue, MANAGEMENT),
    ("PUT", "/api/queues/{vhost}/{name}", queues.put_queue, MANAGEMENT),
    ("DELETE", "/api/queues/{vhost}/{name}", queues.delete_queue, MANAGEMENT),
    ("DELETE", "/api/queues/{vhost}/{name}/contents", queues.purge_queue, MANAGEMENT),
    ("DELETE", "/api/queues/{vhost}/{name}/delayed", delayed.take_back_from_queue, MANAGEMENT),
    ("GET", "/api/queues/{vhost}/{name}/bindings", queues.bindings_of_queue, MANAGEMENT),
    ("POST", "/api/queues/{vhost}/{name}/get", messages.get_messages, MANAGEMENT),
    ("GET", "/api/queues/{vhost}/{name}/messages", browsing.browse, MANAGEMENT),
    ("POST", "/api/queues/{vhost}/{name}/messages/move", tasks.move, MANAGEMENT),
    ("POST", "/api/queues/{vhost}/{name}/messages/copy", tasks.copy, MANAGEMENT),
    ("POST", "/api/queues/{vhost}/{name}/messages/return", tasks.return_dead_letters, MANAGEMENT),
    ("POST", "/api/queues/{vhost}/{name}/messages/delete", tasks.delete, MANAGEMENT),
    ("GET", "/api/tasks", tasks.all_tasks, MANAGEMENT),
    ("GET", "/api/tasks/{task}", tasks.one_task, MANAGEMENT),
    ("DELETE", "/api/tasks/{task}", tasks.cancel_task, MANAGEMENT),
    ("POST", "/api/queues/{vhost}/{name}/actions", queues.act_on_queue, MANAGEMENT),

    ("GET", "/api/streams/{vhost}/{name}", streams.one_stream, MANAGEMENT),
    ("GET", "/api/streams/{vhost}/{name}/offset", streams.offset_at, MANAGEMENT),
    ("GET", "/api/streams/{vhost}/{name}/segments", streams.segments, MANAGEMENT),
    ("GET", "/api/streams/{vhost}/{name}/tracking", streams.tracking, MANAGEMENT),
    ("PUT", "/api/streams/{vhost}/{name}/tracking/{consumer}", streams.put_tracking, MANAGEMENT),
    ("DELETE", "/api/streams/{vhost}/{name}/tracking/{consumer}", streams.delete_tracking, MANAGEMENT),
    ("GET", "/api/super-streams/{vhost}", streams.super_streams_in, MANAGEMENT),
    ("GET", "/api/super-streams/{vhost}/{name}", streams.one_super_stream, MANAGEMENT),
    ("PUT", "/api/super-streams/{vhost}/{name}", streams.put_super_stream, MANAGEMENT),
    ("DELETE", "/api/super-streams/{vhost}/{name}", streams.delete_super_stream, MANAGEMENT),

    ("GET", "/api/bindings", bindings.all_bindings, MANAGEMENT),
    ("GET", "/api/bindings/{vhost}", bindings.bindings_in, MANAGEMENT),
    ("GET", BINDING, bindings.bindings_between, MANAGEMENT),
    ("POST", BINDING, bindings.post_binding, MANAGEMENT),
    ("GET", f"{BINDING}/{{key}}", bindings.one_binding, MANAGEMENT),
    ("DELETE", f"{BINDING}/{{key}}", bindings.delete_binding, MANAGEMENT),

    ("GET", "/api/vhosts", vhosts.all_vhosts, MANAGEMENT),
    ("GET", "/api/vhosts/{vhost}", vhosts.one_vhost, ADMINISTRATOR),
    ("PUT", "/api/vhosts/{vhost}", vhosts.put_vhost, ADMINISTRATOR),
    ("DELETE", "/api/vhosts/{vhost}", vhosts.delete_vhost, ADMINISTRATOR),
    ("POST", "/api/vhosts/{vhost}/start/{node}", vhosts.start_vhost, ADMINISTRATOR),
    ("GET", "/api/vhosts/{vhost}/permissions", users.permissions_in_vhost, ADMINISTRATOR),

    ("GET", "/api/users", users.all_users, ADMINISTRATOR),
    ("GET", "/api/users/without-permissions", users.users_without_permissions, ADMINISTRATOR),
    ("POST", "/api/users/bulk-delete", users.bulk_delete_users, ADMINISTRATOR),
    ("GET", "/api/users/{name}", users.one_user, ADMINISTRATOR),
    ("PUT", "/api/users/{name}", users.put_user, ADMINISTRATOR),
    ("DELETE", "/api/users/{name}", users.delete_user, ADMINISTRATOR),
    ("GET", "/api/users/{name}/permissions", users.permissions_of_user, ADMINISTRATOR),
    ("GET", "/api/permissions", users.all_permissions, ADMINISTRATOR),
    ("GET", "/api/permissions/{vhost}/{user}", users.one_permission, ADMINISTRATOR),
    ("PUT", "/api/permissions/{vhost}/{user}", users.put_permission, ADMINISTRATOR),
    ("DELETE", "/api/permissions/{vhost}/{user}", users.delete_permission, ADMINISTRATOR),

    ("GET", "/api/definitions", definitions.export_all, ADMINISTRATOR),
    ("POST", "/api/definitions", definitions.import_all, ADMINISTRATOR),
    ("GET", "/api/definitions/{vhost}", definitions.export_vhost, ADMINISTRATOR),
    ("POST", "/api/definitions/{vhost}", definitions.import_vhost, ADMINISTRATOR),

    ("GET", "/api/policies", policies.all_policies, MANAGEMENT),
    ("GET", "/api/policies/{vhost}", policies.policies_in, MANAGEMENT),
    ("GET", "/api/policies/{vhost}/{name}", policies.one_policy, POLICYMAKER),
    ("PUT", "/api/policies/{vhost}/{name}", policies.put_policy, POLICYMAKER),
    ("DELETE", "/api/policies/{vhost}/{name}", policies.delete_policy, POLICYMAKER),
    ("GET", "/api/operator-policies", policies.all_operator_policies, MANAGEMENT),
    ("GET", "/api/operator-policies/{vhost}", policies.operator_policies_in, MANAGEMENT),
    ("GET", "/api/operator-policies/{vhost}/{name}", policies.one_operator_policy, ADMINISTRATOR),
    ("PUT", "/api/operator-policies/{vhost}/{name}", policies.put_operator_policy, ADMINISTRATOR),
    ("DELETE", "/api/operator-policies/{vhost}/{name}", policies.delete_operator_policy, ADMINISTRATOR),
    ("GET", "/api/parameters", parameters.all_parameters, POLICYMAKER),
    ("GET", "/api/parameters/{component}", parameters.parameters_of, POLICYMAKER),
    ("GET", "/api/parameters/{component}/{vhost}", parameters.parameters_in, POLICYMAKER),
    ("GET", "/api/parameters/{component}/{vhost}/{name}", parameters.one_parameter, POLICYMAKER),
    ("PUT", "/api/parameters/{component}/{vhost}/{name}", parameters.put_parameter, POLICYMAKER),
    ("DELETE", "/api/parameters/{component}/{vhost}/{name}", parameters.delete_parameter, POLICYMAKER),
    ("GET", "/api/global-parameters", parameters.all_global_parameters, POLICYMAKER),
    ("GET", "/api/global-parameters/{name}", parameters.one_global_parameter, POLICYMAKER),
    ("PUT", "/api/global-parameters/{name}", parameters.put_global_parameter, POLICYMAKER),
    ("DELETE", "/api/global-parameters/{name}", parameters.delete_global_parameter, POLICYMAKER),

    ("GET", "/api/aliveness-test/{vhost}", health.aliveness, MANAGEMENT),
    ("GET", "/api/health/checks/alarms", health.alarms, MANAGEMENT),
    ("GET", "/api/health/checks/local-alarms", health.alarms, MANAGEMENT),
    ("GET", "/api/health/checks/port-listener/{port}", health.port_listener, MANAGEMENT),
    ("GET", "/api/health/checks/protocol-listener/{protocol}", health.protocol_listener, MANAGEMENT),
    ("GET", "/api/health/checks/virtual-hosts", health.always_ok, MANAGEMENT),
    ("GET", "/api/health/checks/certificate-expiration/{within}/{unit}", health.always_ok, MANAGEMENT),
    ("GET", "/api/health/checks/node-is-quorum-critical", health.single_node, MANAGEMENT),
    ("GET", "/api/health/checks/node-is-mirror-sync-critical", health.single_node, MANAGEMENT),
    ("GET", "/api/healthchecks/node", health.alarms, MANAGEMENT),

    # What EmberMQ does not have yet (issue 4): tools that list them find none.
    ("GET", "/api/topic-permissions", overview.nothing_there, ADMINISTRATOR),
    ("GET", "/api/users/{name}/topic-permissions", overview.nothing_there, ADMINISTRATOR),
    ("GET", "/api/vhosts/{vhost}/topic-permissions", overview.nothing_there, ADMINISTRATOR),
    ("GET", "/api/vhost-limits", overview.nothing_there, MANAGEMENT),
    ("GET", "/api/user-limits", overview.nothing_there, MANAGEMENT),
    ("GET", "/api/feature-flags", overview.nothing_there, MANAGEMENT),
]
# fmt: on


def all_routes() -> Routes:
    routes = Routes()
    for method, path, handler, level in TABLE:
        routes.add(method, path, handler, level)
    return routes
