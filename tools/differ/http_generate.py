"""Programs for the HTTP API by dice: every kind of thing, existing and missing, with good and bad bodies.

Policies and limits act on queues, so a few steps of AMQP are among them.
"""

from __future__ import annotations

from typing import Any

from tools.differ import vocabulary as words
from tools.differ.fields import letter_of
from tools.differ.generate import Dice, Generator
from tools.differ.program import EXCHANGES, QUEUES, Program, Step
from tools.differ.web import ROLES

VHOSTS = ("%2F", "%2F", "%2F", "%2F", "v1", "nowhere", "%2f", "a%20b")
NAMES = ("p1", "p2", "p1", "p2", "odd%20name", "%C3%A9")
USERS = ("u1", "u1", "u2", "guest", "nobody", "monitoring")
BAD_BODIES: tuple[Any, ...] = ("", "{", "[]", "null", "7", '"text"', "{}", "nonsense", '{"a": 1}', "[1]")
DEFINITIONS: list[dict[str, Any]] = [
    {"max-length": 1},
    {"max-length": 2},
    {"max-length": 0},
    {"max-length-bytes": 5},
    {"message-ttl": 0},
    {"message-ttl": 60000},
    {"expires": 60000},
    {"overflow": "reject-publish"},
    {"overflow": "reject-publish-dlx", "max-length": 1},
    {"dead-letter-exchange": ""},
    {"dead-letter-exchange": "", "dead-letter-routing-key": "q2"},
    {"dead-letter-exchange": "e1"},
    {"dead-letter-routing-key": "q2"},
    {"alternate-exchange": "e2"},
    {"queue-mode": "lazy"},
    {"max-length": 3, "message-ttl": 60000},
]
BAD_DEFINITIONS: list[Any] = [
    {},
    {"max-length": "one"},
    {"max-length": -1},
    {"max-length": 1.5},
    {"message-ttl": -1},
    {"message-ttl": "0"},
    {"expires": 0},
    {"overflow": "nonsense"},
    {"overflow": 1},
    {"dead-letter-exchange": 1},
    {"dead-letter-routing-key": []},
    {"alternate-exchange": 1},
    {"queue-mode": "nonsense"},
    {"unknown": 1},
    {"max-length": 1, "unknown": 1},
    {"delivery-limit": -5},
    {"ha-mode": "nonsense"},
    {"max-priority": 3},
    [],
    "text",
    7,
    None,
]
FILES: list[Any] = [
    {"queues": [{"name": "q1", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}]},
    {"queues": [{"name": "q2", "durable": False}]},
    {
        "exchanges": [
            {
                "name": "e1",
                "vhost": "/",
                "type": "topic",
                "durable": True,
                "auto_delete": False,
                "internal": False,
                "arguments": {},
            }
        ]
    },
    {
        "bindings": [
            {
                "source": "e1",
                "vhost": "/",
                "destination": "q1",
                "destination_type": "queue",
                "routing_key": "a",
                "arguments": {},
            }
        ]
    },
    {
        "policies": [
            {
                "vhost": "/",
                "name": "p1",
                "pattern": "^q",
                "apply-to": "queues",
                "definition": {"max-length": 1},
                "priority": 3,
            }
        ]
    },
    {"users": [{"name": "u1", "password_hash": "", "tags": "management"}]},
    {"vhosts": [{"name": "v1"}]},
    {"parameters": []},
    {"rabbit_version": "3.8.0", "queues": []},
    {"queues": [{"vhost": "/"}]},
    {"queues": {}},
    {"queues": [1]},
    {"permissions": [{"user": "nobody", "vhost": "/", "configure": "", "write": "", "read": ""}]},
    {"unknown": 1},
]


def generate_web(seed: int) -> Program:
    return WebGenerator(seed).program()


def without_letters(arguments: dict[str, Any]) -> dict[str, Any]:
    """JSON has no types of integers."""
    return {name: letter_of(value)[1] for name, value in arguments.items()}


class WebGenerator:
    def __init__(self, seed: int) -> None:
        self.dice = Dice(seed)
        self.amqp = Generator(seed, "limits")
        self.amqp.dice = self.dice

    def program(self) -> Program:
        makers = [self.thing] * 10 + [self.policy] * 8 + [self.list] * 4 + [self.of_amqp] * 8
        makers += [self.message] * 4 + [self.definitions] + [self.limit] * 2
        first = self.amqp.beginning() if self.dice.often(0.7) else []
        count = self.dice.random.randint(3, 16)
        return first + [self.dice.of(makers)() for _ in range(count)]

    # -- parts

    def ask(self, verb: str, path: str, body: Any = None) -> Step:
        if "guest" in path and verb in ("PUT", "DELETE"):
            verb = "GET"  # that is who asks: it must stay, with its rights
        made: Step = {"do": "http", "ask": verb, "path": path}
        if body is not None:
            made["body"] = body
        if self.dice.often(0.15):
            made["as"] = self.dice.of([*ROLES, "nobody"])
        return made

    def verb(self) -> str:
        return str(self.dice.one("PUT", "PUT", "PUT", "GET", "GET", "DELETE", "DELETE", "POST"))

    def request(self, path: str, *bodies: Any) -> Step:
        """Any verb on this path; what needs a body has one of these, or a bad one."""
        verb = self.verb()
        if verb in ("GET", "DELETE"):
            return self.ask(verb, path)
        return self.ask(
            verb, path, self.dice.of(bodies) if self.dice.often(0.8) else self.dice.of(BAD_BODIES)
        )

    def vhost(self) -> str:
        return str(self.dice.of(VHOSTS))

    def wrong(self, good: Any, *bad: Any) -> Any:
        return good if self.dice.often(0.8) else self.dice.of([*bad, None, 1, "", [], {}, True, 1.5])

    # -- steps

    def of_amqp(self) -> Step:
        made: Step = self.dice.one(
            self.amqp.publish, self.amqp.publish, self.amqp.get, self.amqp.declare_queue, self.amqp.settle
        )()
        return made

    def thing(self) -> Step:
        makers = (self.queue, self.queue, self.exchange, self.binding, self.user, self.vhost_itself)
        made: Step = self.dice.one(*makers, self.permission, self.parameter)()
        return made

    def queue(self) -> Step:
        body = {
            "durable": self.wrong(self.dice.often(0.5), "true", "yes"),
            "auto_delete": self.wrong(False, "false"),
            "arguments": self.wrong(without_letters(self.amqp.queue_arguments(0.2)), []),
        }
        kept = {name: value for name, value in body.items() if self.dice.often(0.7)}
        name = self.dice.of([*QUEUES, *QUEUES, "amq.q", "odd%20name", "nowhere"])
        tail = self.dice.one("", "", "", "", "?if-empty=true", "?if-unused=true", "/bindings", "/contents")
        return self.request(f"/api/queues/{self.vhost()}/{name}{tail}", kept)

    def exchange(self) -> Step:
        body = {
            "type": self.wrong(self.dice.of(words.TYPES), "nonsense"),
            "durable": self.wrong(self.dice.often(0.5), "true"),
            "auto_delete": self.wrong(False, "false"),
            "internal": self.wrong(False),
            "arguments": self.wrong({}, {"alternate-exchange": "e2"}, {"alternate-exchange": 1}),
        }
        kept = {name: value for name, value in body.items() if self.dice.often(0.85)}
        name = self.dice.of([*EXCHANGES, *EXCHANGES, "amq.direct", "amq.e", "amq.default", "nowhere"])
        tail = self.dice.one("", "", "", "", "?if-unused=true", "/bindings/source", "/bindings/destination")
        return self.request(f"/api/exchanges/{self.vhost()}/{name}{tail}", kept)

    def binding(self) -> Step:
        source, queue = self.dice.of([*EXCHANGES, "amq.topic", "nowhere"]), self.dice.of([*QUEUES, "nowhere"])
        kind, other = self.dice.one(("q", queue), ("q", queue), ("e", self.dice.of(EXCHANGES)))
        path = f"/api/bindings/{self.vhost()}/e/{source}/{kind}/{other}"
        if self.dice.often(0.3):
            return self.ask(
                self.dice.one("GET", "DELETE"), f"{path}/{self.dice.one('~', 'a', 'a.b', 'nonsense')}"
            )
        body = {
            "routing_key": self.wrong(self.dice.of(words.KEYS)),
            "arguments": self.wrong(self.dice.one({}, {"x-match": "any"}, {"a": 1})),
        }
        kept = {name: value for name, value in body.items() if self.dice.often(0.8)}
        return self.ask(self.dice.one("POST", "POST", "GET", "PUT"), path, kept)

    def user(self) -> Step:
        body = {
            "password": self.wrong("secret"),
            "tags": self.wrong(self.dice.one("", "management", "administrator,monitoring", ["policymaker"])),
            "password_hash": self.wrong(""),
        }
        kept = {name: value for name, value in body.items() if self.dice.often(0.6)}
        name = self.dice.of(["u1", "u1", "u2"])
        return self.request(f"/api/users/{name}{self.dice.one('', '', '', '/permissions')}", kept)

    def vhost_itself(self) -> Step:
        body = self.dice.one({}, {"description": "d", "tags": "a,b"}, {"tracing": False}, {"tracing": "x"})
        tail = self.dice.one("", "", "", "/permissions", "/topic-permissions", "/connections", "/start/x")
        return self.request(f"/api/vhosts/{self.dice.one('v1', 'v1', 'v2', 'nowhere')}{tail}", body)

    def permission(self) -> Step:
        path = f"{self.vhost()}/{self.dice.of(USERS[:3])}"
        rights = {name: self.wrong(self.dice.one(".*", "^q", ""), "[", "*") for name in ("write", "read")}
        if self.dice.often(0.3):
            return self.request(f"/api/topic-permissions/{path}", rights | {"exchange": self.wrong("e1")})
        body = rights | {"configure": self.wrong(".*", "(")}
        return self.request(f"/api/permissions/{path}", body, {"configure": ".*"})

    def parameter(self) -> Step:
        name = self.dice.of(NAMES)
        if self.dice.often(0.5):
            return self.request(
                f"/api/global-parameters/{name}",
                {"name": name, "value": self.wrong({"a": 1})},
                {"name": "p1"},
            )
        component = self.dice.one("nonsense", "policy", "vhost-limits", "federation-upstream")
        body = {"value": {"a": 1}, "name": name, "component": component, "vhost": "/"}
        return self.ask(
            self.dice.one("GET", "DELETE", "GET"), f"/api/parameters/{component}/{self.vhost()}/{name}", body
        )

    def policy(self) -> Step:
        operator = self.dice.often(0.35)
        definition = self.dice.of(DEFINITIONS) if self.dice.often(0.8) else self.dice.of(BAD_DEFINITIONS)
        body = {
            "pattern": self.wrong(self.dice.one("^q", ".*", "^q1$", "^e"), "(", "[a"),
            "definition": definition,
            "priority": self.wrong(self.dice.one(0, 1, 5, -1), "1"),
            "apply-to": self.wrong(self.dice.one("all", "queues", "exchanges", "queues"), "nonsense"),
        }
        kept = {name: value for name, value in body.items() if self.dice.often(0.93)}
        kind = "operator-policies" if operator else "policies"
        return self.request(f"/api/{kind}/{self.vhost()}/{self.dice.of(NAMES)}", kept)

    def limit(self) -> Step:
        name = self.dice.one("max-queues", "max-connections", "nonsense")
        body = {"value": self.wrong(self.dice.one(0, 1, 2, -1, 100))}
        if self.dice.often(0.3):
            name = self.dice.one("max-channels", "max-connections", "nonsense")
            return self.request(f"/api/user-limits/{self.dice.of(USERS[:3])}/{name}", body)
        return self.request(f"/api/vhost-limits/{self.dice.one('v1', 'v1', 'nowhere')}/{name}", body)

    def message(self) -> Step:
        vhost = self.vhost()
        if self.dice.often(0.5):
            body = {
                "properties": self.wrong(
                    self.dice.one({}, {"headers": {"a": 1}}, {"priority": 3, "delivery_mode": 2})
                ),
                "routing_key": self.wrong(self.dice.of([*QUEUES, "a"])),
                "payload": self.wrong("text"),
                "payload_encoding": self.wrong(self.dice.one("string", "base64"), "nonsense"),
            }
            name = self.dice.of([*EXCHANGES, "amq.default", "amq.topic", "nowhere"])
            kept = {key: value for key, value in body.items() if self.dice.often(0.93)}
            return self.ask("POST", f"/api/exchanges/{vhost}/{name}/publish", kept)
        got = {
            "count": self.wrong(self.dice.one(1, 5)),
            "ackmode": self.wrong(
                self.dice.one(
                    "ack_requeue_true", "ack_requeue_false", "reject_requeue_true", "reject_requeue_false"
                ),
                "nonsense",
            ),
            "encoding": self.wrong(self.dice.one("auto", "base64"), "nonsense"),
        }
        if self.dice.often(0.2):
            got["truncate"] = self.wrong(2)
        kept = {key: value for key, value in got.items() if self.dice.often(0.95)}
        return self.ask("POST", f"/api/queues/{vhost}/{self.dice.of(QUEUES)}/get", kept)

    def definitions(self) -> Step:
        path = self.dice.one("/api/definitions", "/api/definitions/%2F", "/api/definitions/nowhere")
        if self.dice.often(0.4):
            return self.ask("GET", path)
        return self.ask(
            "POST", path, self.dice.of(FILES) if self.dice.often(0.9) else self.dice.of(BAD_BODIES)
        )

    def list(self) -> Step:
        vhost = self.vhost()
        return self.ask(
            self.dice.one("GET", "GET", "GET", "GET", "GET", "POST", "PUT", "DELETE"),
            self.dice.one(
                "/api/queues",
                f"/api/queues/{vhost}",
                "/api/exchanges",
                f"/api/exchanges/{vhost}",
                "/api/bindings",
                f"/api/bindings/{vhost}",
                "/api/vhosts",
                "/api/users",
                "/api/permissions",
                "/api/policies",
                f"/api/policies/{vhost}",
                "/api/operator-policies",
                "/api/parameters",
                f"/api/parameters/policy/{vhost}",
                "/api/global-parameters",
                "/api/vhost-limits",
                "/api/whoami",
                "/api/consumers",
                f"/api/consumers/{vhost}",
                "/api/topic-permissions",
                "/api/user-limits",
                f"/api/vhosts/{vhost}/permissions",
                "/api/users/without-permissions",
                "/api/nonsense",
                f"/api/aliveness-test/{vhost}",
                "/api/users/guest",
                "/api/queues?page=1&page_size=2",
                "/api/queues?page=0",
                "/api/queues?page=9",
                "/api/queues?page=x",
                "/api/queues?columns=name",
                "/api/queues?sort=name&sort_reverse=true",
                "/api/queues?page=1&name=q&use_regex=true",
                "/api/queues?page=1&name=(&use_regex=true",
                "/api/queues?page=1&page_size=1000",
                f"/api/exchanges/{vhost}/amq.default/bindings/source",
                "/api/auth",
                "/api/health/checks/alarms",
                "/api/health/checks/virtual-hosts",
                "/api/users/nobody",
                "/api/health/checks/port-listener/1",
                "/api/health/checks/protocol-listener/nonsense",
                "/api/health/checks/node-is-quorum-critical",
                "/api/connections/nowhere",
                "/api/channels/nowhere",
                "/api/nodes/nowhere",
                "/api/users/guest/topic-permissions",
                f"/api/permissions/{vhost}/guest",
            ),
        )
