"""URLs and options, as pika and RabbitMQ's URI specification have them."""

from __future__ import annotations

import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.client import BadAddress
from embermq.client.address import Endpoint, parse_url, settings_of, without_password


@pytest.mark.parametrize(
    ("url", "endpoints", "vhost", "login"),
    [
        ("amqp://", [("localhost", 5672)], "/", ("guest", "guest")),
        ("amqp://host", [("host", 5672)], "/", ("guest", "guest")),
        ("amqp://host/", [("host", 5672)], "/", ("guest", "guest")),
        ("amqp://host/%2F", [("host", 5672)], "/", ("guest", "guest")),
        ("amqp://host/%2fvhost", [("host", 5672)], "/vhost", ("guest", "guest")),
        ("amqp://me:pass%3Aword@host:10/v", [("host", 10)], "v", ("me", "pass:word")),
        ("amqp://me@host", [("host", 5672)], "/", ("me", "")),
        ("amqps://host", [("host", 5671)], "/", ("guest", "guest")),
        ("amqp://a:1,b,[::1]:3/v", [("a", 1), ("b", 5672), ("::1", 3)], "v", ("guest", "guest")),
    ],
)
def test_urls(url: str, endpoints: list[tuple[str, int]], vhost: str, login: tuple[str, str]) -> None:
    settings = parse_url(url)
    assert [(endpoint.host, endpoint.port) for endpoint in settings.endpoints] == endpoints
    assert settings.virtual_host == vhost
    assert (settings.username, settings.password) == login


def test_parameters() -> None:
    settings = parse_url(
        "amqp://host/?heartbeat=5&connection_attempts=3&retry_delay=0.5&socket_timeout=4&channel_max=7"
        "&frame_max=8192&blocked_connection_timeout=9&locale=de_DE&auth_mechanism=external&name=me"
        "&client_properties={'a': 1}&reconnect=no&reconnect_delay=2&reconnect_delay_max=3"
        "&reconnect_attempts=4&call_timeout=6&tcp_options={}"
    )
    assert (settings.heartbeat_s, settings.connection_attempts, settings.retry_delay_s) == (5, 3, 0.5)
    assert (settings.connect_timeout_s, settings.channel_max, settings.frame_max) == (4, 7, 8192)
    assert (settings.blocked_timeout_s, settings.locale, settings.mechanism) == (9, "de_DE", "EXTERNAL")
    assert (settings.name, settings.client_properties) == ("me", {"a": 1})
    assert (settings.reconnect, settings.reconnect_delay_s) == (False, 2)
    assert (settings.reconnect_delay_max_s, settings.reconnect_attempts, settings.call_timeout_s) == (3, 4, 6)
    assert parse_url("amqp://host/?connection_timeout=1500").connect_timeout_s == 1.5


def test_tls() -> None:
    checked = parse_url("amqps://host/?server_name_indication=other")
    assert checked.tls is not None
    assert (checked.tls.verify_mode, checked.tls.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert checked.server_hostname == "other"
    unchecked = parse_url("amqps://host/?verify=verify_none")
    assert unchecked.tls is not None and unchecked.tls.verify_mode == ssl.CERT_NONE
    assert parse_url("amqp://host").tls is None


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://host", "must begin with amqp://"),
        ("host:5672", "must begin with amqp://"),
        ("amqp://host:port", "cannot be understood"),
        ("amqp://host:99999", "cannot be understood"),
        ("amqp://host/?heartbeat=soon", "cannot be understood"),
        ("amqp://host/?reconnect=perhaps", "neither true nor false"),
        ("amqp://host/?client_properties=[1]", "is no dict"),
        ("amqp://host/?heartbeats=5", "unknown parameter 'heartbeats'"),
    ],
)
def test_mistakes_are_explained_without_the_password(url: str, text: str) -> None:
    with pytest.raises(BadAddress, match=text):
        settings_of(url)
    with pytest.raises(ValueError, match=r"^((?!secret).)*$"):
        settings_of(url.replace("host", "me:secret@host", 1))


def test_options_beat_the_url_and_are_checked() -> None:
    settings = settings_of("amqp://host/?heartbeat=5", heartbeat_s=9, name="billing")
    assert settings.heartbeat_s == 9
    assert settings.client_properties == {"connection_name": "billing"}
    with pytest.raises(BadAddress, match=r"unknown option 'heartbeat', there are: .*heartbeat_s"):
        settings_of("amqp://host", heartbeat=9)
    with pytest.raises(BadAddress, match="no URL"):
        settings_of([])


def test_several_urls() -> None:
    settings = settings_of(["amqp://me:x@a/v", "amqp://b:7/v"])
    assert settings.endpoints == (Endpoint("a", 5672), Endpoint("b", 7))
    assert (settings.username, settings.virtual_host) == ("me", "v")


def test_passwords_are_not_shown() -> None:
    assert "secret" not in repr(settings_of("amqp://me:secret@host"))
    assert without_password("amqp://me:secret@host/v") == "amqp://me@host/v"
    assert without_password("amqp://host/v") == "amqp://host/v"


@given(st.text(max_size=40))
def test_any_text_is_understood_or_refused(text: str) -> None:
    try:
        settings = parse_url("amqp://" + text)
    except BadAddress:
        return
    assert settings.endpoints
