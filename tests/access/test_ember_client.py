"""embermq.client at the broker's own doors: TLS, certificates on both sides, SCRAM; both shells alike."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from embermq.client import AuthenticationFailed, BadAddress, ConnectionFailed, connect, connect_async
from tests.access.secured import Secured
from tests.access.tenant import ask, make_user
from tests.support.certificates import Authority
from tests.support.pika_client import eventually

Enter = Callable[..., None]


def enter_blocking(url: str, **options: Any) -> None:
    """Log in, send something through a queue and leave."""
    with connect(url, **options) as connection, connection.channel() as channel:
        queue = channel.queue_declare(exclusive=True).name
        channel.publish(b"x" * 200_000, queue)
        message = channel.get(queue)
        assert message is not None and len(message.body) == 200_000


def enter_asyncio(url: str, **options: Any) -> None:
    async def run() -> None:
        async with await connect_async(url, **options) as connection:
            channel = await connection.channel()
            queue = (await channel.queue_declare(exclusive=True)).name
            await channel.publish(b"x" * 200_000, queue)
            message = await channel.get(queue)
            assert message is not None and len(message.body) == 200_000

    asyncio.run(run())


@pytest.fixture(params=[enter_blocking, enter_asyncio], ids=["blocking", "asyncio"])
def enter(request: pytest.FixtureRequest) -> Enter:
    enter: Enter = request.param
    return enter


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = Secured(tmp_path_factory.mktemp("tls"))
    with made.broker as broker:
        make_user(broker, "anna")
        make_user(broker, "a,b=c")
        made.authority.issue("anna")
        made.authority.issue("nobody")
        yield made


def url_of(
    secured: Secured, host: str = "localhost", login: str = "guest:guest", **parameters: object
) -> str:
    parameters = {"cacertfile": secured.authority.file, **parameters}
    query = "&".join(f"{name}={value}" for name, value in parameters.items() if value)
    return f"amqps://{login}@{host}:{secured.amqps}/?{query}"


def test_the_brokers_certificate_is_checked(secured: Secured, enter: Enter) -> None:
    enter(url_of(secured))
    enter(url_of(secured, "127.0.0.1"))
    with pytest.raises(ConnectionFailed, match=r"CERTIFICATE_VERIFY_FAILED.*cacertfile"):
        enter(url_of(secured, cacertfile=""))
    enter(url_of(secured, cacertfile="", verify="verify_none"))


def test_another_name_than_the_certificates(secured: Secured, enter: Enter) -> None:
    with pytest.raises(ConnectionFailed, match=r"'elsewhere\.example'.*server_name_indication"):
        enter(url_of(secured, server_name_indication="elsewhere.example"))
    enter(url_of(secured, "127.0.0.1", server_name_indication="localhost"))


def test_plain_where_tls_is_spoken_and_the_other_way_round(secured: Secured, enter: Enter) -> None:
    with pytest.raises(ConnectionFailed, match="amqps://"):
        enter(f"amqp://guest:guest@127.0.0.1:{secured.amqps}/")
    with pytest.raises(ConnectionFailed, match="amqp://"):
        enter(f"amqps://guest:guest@127.0.0.1:{secured.broker.port}/")


def test_a_certificate_is_a_login(secured: Secured, enter: Enter) -> None:
    anna = secured.authority.directory / "anna.pem"
    enter(url_of(secured, certfile=anna, auth_mechanism="external"))
    nobody = secured.authority.directory / "nobody.pem"
    with pytest.raises(AuthenticationFailed, match="does not accept EXTERNAL"):
        enter(url_of(secured, certfile=nobody, auth_mechanism="external"))
    with pytest.raises(AuthenticationFailed, match="does not accept EXTERNAL"):
        enter(url_of(secured, auth_mechanism="external"))


def test_a_certificate_of_another_authority(secured: Secured, enter: Enter, tmp_path: Path) -> None:
    stranger = Authority(tmp_path, "another").issue("anna")
    with pytest.raises(ConnectionFailed, match="certfile="):
        enter(url_of(secured, certfile=stranger, auth_mechanism="external"))


@pytest.mark.parametrize(
    ("login", "username"), [("anna:anna", "anna"), ("a%2Cb%3Dc:a%2Cb%3Dc", "a,b=c")], ids=["plain", "signs"]
)
def test_scram(secured: Secured, enter: Enter, login: str, username: str) -> None:
    url = f"amqp://{login}@127.0.0.1:{secured.broker.port}/?auth_mechanism=scram-sha-256"
    enter(url)
    enter(url_of(secured, login=login, auth_mechanism="SCRAM-SHA-256"))
    with connect(url) as connection, connection.channel():
        shown = eventually(
            lambda: [
                each
                for each in ask(secured.broker, "GET", "connections").json
                if each.get("user") == username
            ]
        )
        assert shown[0]["auth_mechanism"] == "SCRAM-SHA-256"


def connections_of(secured: Secured, username: str) -> list[dict[str, Any]]:
    return [each for each in ask(secured.broker, "GET", "connections").json if each.get("user") == username]


@pytest.mark.parametrize("login", ["anna:wrong", "nobody:anna"])
def test_scram_with_the_wrong_password_or_name(secured: Secured, enter: Enter, login: str) -> None:
    with pytest.raises(AuthenticationFailed, match="403"):
        enter(f"amqp://{login}@127.0.0.1:{secured.broker.port}/?auth_mechanism=scram-sha-256")


def test_a_mechanism_that_nobody_knows(enter: Enter) -> None:
    with pytest.raises(BadAddress, match=r"unknown mechanism 'KERBEROS'.*SCRAM-SHA-256"):
        enter("amqp://localhost/?auth_mechanism=kerberos")
