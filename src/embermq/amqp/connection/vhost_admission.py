"""Permission to enter a virtual host, and the limits of connections and channels."""

from __future__ import annotations

from embermq.broker.broker import Broker
from embermq.broker.limits import limit_reached
from embermq.broker.security.user import User
from embermq.broker.vhost import VirtualHost
from embermq.errors import NotAllowed


def enter(broker: Broker, user: User, name: str, connections_max: int = 0) -> VirtualHost:
    """The virtual host, with one connection more; NotAllowed says why not."""
    vhost = broker.vhosts.get(name)
    if vhost is not None and vhost.closing:
        vhost = None
    # Neither a name that exists nor one that does not tells anything to a user without permission.
    if vhost is None or not user.may_enter(name):
        if vhost is None and user.sees_all_vhosts:
            raise NotAllowed(f"vhost {name} not found")
        raise NotAllowed(f"access to vhost '{name}' refused for user '{user.name}'")
    if connections_max and sum(v.connection_count for v in broker.vhosts.values()) >= connections_max:
        raise NotAllowed(f"connection refused: node connection limit ({connections_max}) is reached")
    limit = limit_reached(vhost.limits, "max-connections", vhost.connection_count)
    if limit is not None:
        raise NotAllowed(
            f"access to vhost '{name}' refused for user '{user.name}': connection limit ({limit}) is reached"
        )
    limit = limit_reached(user.limits, "max-connections", user.connection_count)
    if limit is not None:
        raise NotAllowed(
            f"connection refused for user '{user.name}': user connection limit ({limit}) is reached"
        )
    vhost.connection_count += 1
    user.connection_count += 1
    return vhost


def leave(user: User | None, vhost: VirtualHost | None) -> None:
    assert user is not None and vhost is not None
    vhost.connection_count -= 1
    user.connection_count -= 1


def require_channel_room(user: User) -> None:
    limit = limit_reached(user.limits, "max-channels", user.channel_count)
    if limit is not None:
        raise NotAllowed(
            f"number of channels opened for user '{user.name}' has reached "
            f"the maximum allowed user limit of ({limit})",
            blame=0,
        )
