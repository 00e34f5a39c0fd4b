"""A client of the broker's HTTP API for commands: address, login, and failures as sentences."""

from __future__ import annotations

import base64
import getpass
import http.client
import json
import os
import re
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

from embermq.cli.errors import DENIED, NOT_FOUND, REFUSED, UNREACHABLE, USAGE_ERROR, CommandFailed

DEFAULT_URL = "http://guest:guest@localhost:15672"
TIMEOUT_S = 30.0
PAGE_SIZE = 500

Body = dict[str, Any]
# The first step of a path, and what it is about.
THINGS = {
    "vhosts": "virtual host",
    "users": "user",
    "connections": "connection",
    "trace-files": "trace file",
}
# The same for things in virtual hosts: theirs is the second step, the name of the thing the third.
THINGS_IN_VHOSTS = {
    "queues": "queue",
    "streams": "stream",
    "super-streams": "super stream",
    "exchanges": "exchange",
    "policies": "policy",
    "operator-policies": "operator policy",
    "traces": "trace",
    "bindings": "binding",
    "consumers": "consumer",
    "definitions": "definition",
    "vhost-limits": "limit",
}


def part(name: str) -> str:
    """A name as one step of a path."""
    return quote(name, safe="")


class Api:
    """`/api` of one broker, as one user."""

    def __init__(self, url: str, user: str | None = None, password: str | None = None) -> None:
        try:
            parts = urlsplit(url if "://" in url else f"http://{url}")
            port = parts.port
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError
        except ValueError:
            told = f"{url!r} is no address of a broker; expected http://host:15672"
            raise CommandFailed(told, USAGE_ERROR) from None
        self.secure = parts.scheme == "https"
        self.host = parts.hostname
        self.port = port or (15671 if self.secure else 15672)
        self.user = user or unquote(parts.username or "guest")
        self.password = unquote(parts.password or "guest") if password is None else password
        credentials = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        self.headers = {"authorization": f"Basic {credentials}", "content-type": "application/json"}
        self.connection: http.client.HTTPConnection | None = None
        self.timeout_s = TIMEOUT_S

    @property
    def place(self) -> str:
        return f"{self.host}:{self.port}"

    def request(self, method: str, path: str, body: object = None) -> Any:
        """The answer as JSON; None for none."""
        answer = self.answer(method, path, body)
        return json.loads(answer) if answer else None

    def text(self, path: str) -> str:
        return self.answer("GET", path).decode("utf-8", "replace")

    def answer(self, method: str, path: str, body: object = None) -> bytes:
        """Anything but success is a CommandFailed."""
        data = None if body is None else json.dumps(body).encode()
        try:
            status, answer = self.exchange(method, path, data)
        except ssl.SSLCertVerificationError as error:
            raise CommandFailed(
                f"the certificate of {self.place} is not trusted: {error.verify_message}. SSL_CERT_FILE "
                "names a file with the authorities (or the certificate itself) to trust",
                UNREACHABLE,
            ) from None
        except http.client.BadStatusLine as error:
            if isinstance(error, http.client.RemoteDisconnected):
                raise self.unreachable(error) from None
            raise CommandFailed(
                f"what answers at {self.place} does not speak HTTP: --url wants the port of the management, "
                "usually 15672",
                UNREACHABLE,
            ) from None
        except (OSError, http.client.HTTPException) as error:
            raise self.unreachable(error) from None
        if status < 300:
            return answer
        if status == 404:
            raise CommandFailed(missing(answer) or not_there(path, method), NOT_FOUND)
        raise refusal(status, path, answer, self)

    def unreachable(self, error: Exception) -> CommandFailed:
        text = f"no broker answers at {self.place}: {why(error)}. Is it running? --url says where it is"
        return CommandFailed(text, UNREACHABLE)

    def exchange(self, method: str, path: str, data: bytes | None) -> tuple[int, bytes]:
        for attempt in (1, 2):
            fresh = self.connection is None
            if self.connection is None:
                self.connection = self.connect()
            try:
                self.connection.request(method, path, data, self.headers)
                response = self.connection.getresponse()
                return response.status, response.read()
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                # The broker lets go of idle connections: once more on a fresh one.
                self.close()
                if fresh or attempt == 2:
                    raise
            except BaseException:
                self.close()  # half a request is on it, and it would refuse all later ones
                raise
        raise AssertionError("two attempts end in one way or the other")

    def connect(self) -> http.client.HTTPConnection:
        if self.secure:
            return http.client.HTTPSConnection(
                self.host, self.port, timeout=self.timeout_s, context=ssl.create_default_context()
            )
        return http.client.HTTPConnection(self.host, self.port, timeout=self.timeout_s)

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def get(self, path: str, **query: object) -> Any:
        asked = {name: value for name, value in query.items() if value is not None}
        return self.request("GET", path + (f"?{urlencode(asked)}" if asked else ""))

    def put(self, path: str, body: object) -> Any:
        return self.request("PUT", path, body)

    def post(self, path: str, body: object) -> Any:
        return self.request("POST", path, body)

    def delete(self, path: str, **query: object) -> Any:
        return self.request("DELETE", path + (f"?{urlencode(query)}" if query else ""))

    def pages(self, path: str, **query: object) -> Iterator[Body]:
        """All items of a list, fetched page by page."""
        page = 1
        while True:
            answer = self.get(path, page=page, page_size=PAGE_SIZE, **query)
            if isinstance(answer, list):  # a list without pages
                yield from answer
                return
            yield from answer["items"]
            if page >= answer["page_count"]:
                return
            page += 1


def why(error: Exception) -> str:
    """Without the numbers that the system has for it."""
    if isinstance(error, http.client.RemoteDisconnected):
        return "it hung up without an answer; a port with TLS wants https://"
    if isinstance(error, ssl.SSLError) and error.reason == "WRONG_VERSION_NUMBER":
        return "it does not speak TLS; a port without wants http://"
    return error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)


def steps(path: str) -> list[str]:
    return [unquote(step) for step in urlsplit(path).path.removeprefix("/api/").split("/")]


def not_there(path: str, method: str = "GET") -> str:
    """/api/queues/%2F/orders/contents?x=y -> there is no queue 'orders' in virtual host '/'"""
    kind, *names = steps(path)
    if kind in THINGS and names:
        return f"there is no {THINGS[kind]} '{names[0]}'"
    # PUT makes the thing, and of a binding's ends the broker says which is missing: then it is the host.
    if names and kind in THINGS_IN_VHOSTS and (len(names) == 1 or method == "PUT" or kind == "bindings"):
        return f"there is no virtual host '{names[0]}'"
    if kind in THINGS_IN_VHOSTS and names:
        return f"there is no {THINGS_IN_VHOSTS[kind]} '{names[1]}' in virtual host '{names[0]}'"
    if kind in ("permissions", "topic-permissions") and len(names) > 1:
        what = kind.replace("-", " ")
        return f"user '{names[1]}' has no {what} in virtual host '{names[0]}'"
    return f"not found: {' '.join((kind, *names))}"


def missing(answer: bytes) -> str:
    """What is not there, where the broker says so: it may be another thing than the path names."""
    try:
        reason = json.loads(answer)["reason"]
    except (ValueError, KeyError, TypeError):
        return ""
    return reason if isinstance(reason, str) and " '" in reason else ""


def refusal(status: int, path: str, answer: bytes, api: Api) -> CommandFailed:
    try:
        body = json.loads(answer)
    except ValueError:
        body = {}
    code = DENIED if status in (401, 403) else REFUSED
    match body:
        case {"error": "not_authorised", "reason": reason} if status == 401:
            text = f"user '{api.user}' may not do this: {reason}"
        case _ if status == 401:
            text = f"the broker at {api.place} does not know user '{api.user}' with this password"
        case {"reason": "vhost_or_user_not_found"}:
            _, vhost, user, *_ = steps(path)
            text, code = f"there is no user '{user}', or no virtual host '{vhost}'", NOT_FOUND
        case {"reason": ["no_such_user", user]}:
            text, code = f"there is no user '{user}'", NOT_FOUND
        case {"reason": ["invalid_regexp", pattern, reason]}:
            text = f"'{pattern}' is no regular expression: {reason}"
        case {"reason": str(reason)}:
            text = without_erlang(reason)
        case {"reason": reason}:
            text = json.dumps(reason)
        case _:
            text = f"the broker answered {status} {http.client.responses.get(status, '')}".rstrip()
    return CommandFailed(text, code)


def without_erlang(reason: str) -> str:
    """The API says some things as RabbitMQ does, for programs that know them; people get a plain sentence."""
    sentence = reason.removeprefix("Validation failed").strip()
    sentence = re.sub(r'\{"([^"]*)",\d+\}$', r"\1", sentence)  # {"why",position}
    sentence = re.sub(r'\{<<"([^"]*)">>,([^{}]*)\}', r"\1=\2", sentence)  # {<<"key">>,value}
    sentence = re.sub(r"^\[(.*?)\] are", r"\1 are", sentence)
    return re.sub(r'<<"([^"]*)">>', r"'\1'", sentence)


def api_from(options: Any) -> Api:
    """Flags win over the environment; a password never has to stand in the command line."""
    environment = os.environ
    url = options.url or environment.get("EMBERMQ_URL") or DEFAULT_URL
    user = options.user or environment.get("EMBERMQ_USER")
    password = environment.get("EMBERMQ_PASSWORD")
    if options.password_file == "-":
        password = getpass.getpass(f"password of {user or 'guest'}: ")
    elif options.password_file is not None:
        try:
            password = Path(options.password_file).read_text().rstrip("\n")
        except OSError as error:
            raise CommandFailed(f"{options.password_file}: {error.strerror}", USAGE_ERROR) from None
    return Api(url, user, password)
