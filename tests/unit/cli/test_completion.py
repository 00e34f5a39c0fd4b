"""What the shell completes: commands, options, and the names that the broker has."""

from __future__ import annotations

import subprocess
import sys

import pytest

from embermq.testing import EmbeddedBroker
from tests.unit.cli.command import Command, good, vhost_in


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_the_commands(run: Command, shell: str) -> None:
    script = good(run("completion", shell))
    assert "browse" in script and "password-file" in script


def completed(line: str, more: str = "") -> list[str]:
    """What bash offers for a line."""
    words = line.split(" ")
    program = (
        f'embermq() {{ {more} {sys.executable} -m embermq "$@"; }}; eval "$(embermq completion bash)"; '
        f"COMP_WORDS=({' '.join(repr(word) for word in words)}); COMP_CWORD={len(words) - 1}; "
        '_embermq; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    return [word for word in done.stdout.split("\n") if word]


def test_bash_completes() -> None:
    assert completed("embermq que") == ["queue"]
    assert {"list", "browse"} <= set(completed("embermq queue "))
    assert "--vhost" in completed("embermq queue list --v")


def test_bash_completes_names(broker: EmbeddedBroker, run: Command) -> None:
    """Those that the broker has; none where there is no broker, and nobody is told so."""
    good(run("queue", "declare", "orders new", "-V", "VHOST"))
    vhost, where = vhost_in(run), f"EMBERMQ_URL={broker.http_url}"
    assert completed(f"embermq queue purge -V {vhost} or", where) == ["orders\\ new"]
    assert completed("embermq queue purge or", "EMBERMQ_URL=http://127.0.0.1:1") == []


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["queue", "show", "-V", "VHOST", ""], ["first", "second"]),
        (["queue", "show", "-V", "VHOST", "s"], ["second"]),
        (["queue", "move", "--vhost=VHOST", "first", "se"], ["second"]),
        (["queue", "declare", "-V", "VHOST", "s"], []),  # a name that is not there yet
        (["queue", "show", "first", "-V", "VHOST", ""], []),  # it takes no second
        (["stream", "show", "-V", "VHOST", "f"], ["first"]),
        (["consume", "-V", "VHOST", "f"], ["first"]),
        (["publish", "body", "-V", "VHOST", "-k", "f"], ["first"]),
        (["publish", "-V", "VHOST", "--exchange", "amq.f"], ["amq.fanout"]),
        (["binding", "add", "-V", "VHOST", "amq.d"], ["amq.direct"]),
        (["binding", "add", "-V", "VHOST", "amq.direct", "f"], ["first"]),
        (["permission", "grant", "gu"], ["guest"]),
        (["user", "delete", "gu"], ["guest"]),
        (["user", "add", "gu"], []),
        (["queue", "list", "-V", "VHOST"], ["VHOST"]),
        (["queue", "show", "-V", "nowhere", ""], []),
        (["queue", "show", "--user", "nobody", "-V", "VHOST", ""], []),
        (["queue", "show", "--password-file", "-", ""], []),
        (["status", ""], []),
        ([""], []),
        ([], []),
    ],
)
def test_names_for_completion(run: Command, words: list[str], found: list[str]) -> None:
    for name in ("first", "second"):
        good(run("queue", "declare", name, "-V", "VHOST"))
    vhost = vhost_in(run)
    assert run("__names", *words) == (0, "".join(f"{name}\n".replace("VHOST", vhost) for name in found), "")
