"""The broker: its virtual hosts and users, and what concerns all of them."""

from __future__ import annotations

from embermq.broker.access import Permission, User, is_loopback
from embermq.broker.turn import Turn
from embermq.broker.vhost import VirtualHost

DEFAULT_VHOST = "/"


class Broker:
    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.vhosts: dict[str, VirtualHost] = {}
        self.users: dict[str, User] = {}

    def add_vhost(self, name: str) -> VirtualHost:
        if name not in self.vhosts:
            self.vhosts[name] = VirtualHost(name, self.turn)
        return self.vhosts[name]

    def add_user(self, user: User) -> None:
        self.users[user.name] = user

    def create_defaults(self) -> None:
        """What a first start finds: virtual host `/` and user guest/guest, for this machine only."""
        self.add_vhost(DEFAULT_VHOST)
        guest = User.with_password("guest", "guest", tags=frozenset({"administrator"}), loopback_only=True)
        guest.permissions[DEFAULT_VHOST] = Permission()
        self.add_user(guest)

    def authenticate(self, name: str, password: bytes, peer_address: str) -> User | None:
        """The user, when name and password fit and the user may log in from there."""
        user = self.users.get(name)
        if user is None or not user.has_password(password):
            return None
        if user.loopback_only and not is_loopback(peer_address):
            return None
        return user
