"""Mistakes on the command line: one line that names what was probably meant."""

from __future__ import annotations

import pytest

from embermq.cli.main import main


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("serve --port 1", "embermq serve: there is no option '--port'; did you mean '--amqp-port'?"),
        (
            "serve --amqp-prot 1",
            "embermq serve: there is no option '--amqp-prot'; did you mean '--amqp-port'?",
        ),
        ("serve -p 1", "embermq serve: there is no option '-p'; did you mean '--amqp-port'?"),
        ("serve extra", "embermq: unrecognized arguments: extra; 'embermq --help' shows what there is"),
        ("serv", "embermq: there is no command 'serv'; did you mean 'embermq serve'?"),
        ("start", "embermq: there is no command 'start'; did you mean 'embermq serve'?"),
        ("version", "embermq: there is no command 'version'; did you mean 'embermq --version'?"),
        ("-v", "embermq: there is no option '-v'; did you mean '--version'?"),
        ("--hlep", "embermq: there is no option '--hlep'; did you mean '--help'?"),
        ("stop", "embermq: there is no command 'stop'; Ctrl-C or SIGTERM stops a broker"),
        ("list_queues", "embermq: there is no command 'list_queues'; did you mean 'embermq queue list'?"),
        ("list queues", "embermq: there is no command 'list'; did you mean 'embermq queue list'?"),
        ("queue lst", "embermq queue: there is no action 'lst'; did you mean 'embermq queue list'?"),
        ("--amqp-port 5 serve", "embermq: options come behind the command: embermq serve --amqp-port ..."),
    ],
)
def test_one_line_with_a_suggestion(words: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(words.split())
    said = capsys.readouterr()
    assert (end.value.code, said.out, said.err) == (2, "", f"{told}\n")


def test_names_like_nothing_get_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["xyzzy"])
    said = capsys.readouterr().err
    assert said.startswith("embermq: there is no command 'xyzzy'; there are: serve, status, ")
    assert "__names" not in said and said.count("\n") == 1
