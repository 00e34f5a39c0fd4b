"""What the shell completes: commands, options, and the names that the broker has."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from embermq.testing import EmbeddedBroker
from tests.support.cli_command import Command, good, vhost_in


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


# -- fish, which tells what it would offer


def test_fish_completes(tmp_path: Path, broker: EmbeddedBroker, run: Command) -> None:
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    good(run("queue", "declare", "orders new", "-V", "VHOST"))
    (tmp_path / "definitions.json").touch()
    (tmp_path / "embermq.fish").write_text(good(run("completion", "fish")))
    vhost = vhost_in(run)
    expected = {
        "embermq que": ["queue"],
        "embermq completion ": ["bash", "fish", "zsh"],
        "embermq queue list --vh": ["--vhost"],
        f"embermq queue show --vhost {vhost} ": ["orders new"],  # and no commands
        "embermq definitions import def": ["definitions.json"],
        "embermq queue list --password-file def": ["definitions.json"],
    }
    lines = [f"complete -C {line!r}; echo == {number}" for number, line in enumerate(expected)]
    program = f"function embermq; {sys.executable} -m embermq $argv; end; source embermq.fish; "
    done = subprocess.run(
        ["fish", "--no-config", "-c", program + "; ".join(lines)],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path), "EMBERMQ_URL": broker.http_url},
    )
    assert done.stderr == ""
    offered: list[list[str]] = [[]]
    for shown in done.stdout.splitlines():
        if shown == f"== {len(offered) - 1}":
            offered.append([])
        else:
            offered[-1].append(shown.partition("\t")[0])
    assert dict(zip(expected, offered, strict=False)) == expected


# -- zsh, which completes what is typed, and runs it


class Zsh:
    """A shell at a terminal. `embermq` says with which words it was called, but for `__names`."""

    def __init__(self, script: Path, home: Path, url: str) -> None:
        process, self.terminal = pty.fork()
        if not process:
            environment = {**os.environ, "TERM": "dumb", "ZDOTDIR": str(home), "EMBERMQ_URL": url}
            os.execvpe("zsh", ["zsh", "-f", "-i"], environment)
        self.process = process
        program = f"{sys.executable} -m embermq"
        setup = home / "setup.zsh"
        setup.write_text(
            f"""
            embermq() {{
              if [[ $1 == __names ]]; then {program} "$@"; else print -r -- "RAN ${{(j:|:)@}} END"; fi
            }}
            PS1=
            cd {home}
            source {script}
            print READY TO RUN
            """
        )
        self.type(f"source {setup}\r", "READY TO RUN")

    def type(self, keys: str, until: str = " END") -> str:
        os.write(self.terminal, keys.encode())
        shown, deadline = "", time.monotonic() + 60
        while until not in shown:
            ready, _, _ = select.select([self.terminal], [], [], max(deadline - time.monotonic(), 0))
            assert ready, f"zsh shows nothing more: {shown}"
            shown += os.read(self.terminal, 4096).decode("utf-8", "replace")
        return shown.rpartition("RAN ")[2].partition(until)[0]

    def end(self) -> None:
        os.close(self.terminal)
        os.waitpid(self.process, 0)


def test_zsh_completes(tmp_path: Path, broker: EmbeddedBroker, run: Command) -> None:
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    good(run("queue", "declare", "orders new", "-V", "VHOST"))
    vhost = vhost_in(run)
    script = tmp_path / "_embermq"
    script.write_text(good(run("completion", "zsh")))
    (tmp_path / "definitions.json").touch()
    zsh = Zsh(script, tmp_path, broker.http_url)
    try:
        assert zsh.type("embermq que\tlis\t\r") == "queue|list"
        assert zsh.type("embermq queue list --vh\t/\r") == "queue|list|--vhost|/"
        assert zsh.type(f"embermq queue show -V {vhost} or\t\r") == f"queue|show|-V|{vhost}|orders new"
        assert zsh.type("embermq definitions import def\t\r") == "definitions|import|definitions.json"
        assert zsh.type("embermq queue purge nobody\t\r") == "queue|purge|nobody"
    finally:
        zsh.end()


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
