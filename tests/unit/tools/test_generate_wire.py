"""The generated files are those of the definition, and the constants those of the specification."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from embermq import errors
from embermq.wire import constants
from tests.support.wire_strategies import REPOSITORY

GENERATOR = Path("tools") / "generate_wire.py"


def run_generator(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(root / GENERATOR), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_generated_code_is_not_stale() -> None:
    finished = run_generator(REPOSITORY, "--check")
    assert (finished.returncode, finished.stderr) == (0, "")


def test_a_stale_file_is_noticed_and_made_anew(tmp_path: Path) -> None:
    shutil.copytree(REPOSITORY / "tools", tmp_path / "tools")
    shutil.copytree(REPOSITORY / "src/embermq/wire", tmp_path / "src/embermq/wire")
    methods = tmp_path / "src/embermq/wire/methods.py"
    before = methods.read_text()
    definition = tmp_path / "src/embermq/wire/amqp.toml"
    definition.write_text(definition.read_text().replace('"multiple bit"', '"several bit"'))

    stale = run_generator(tmp_path, "--check")
    assert stale.returncode == 1
    assert "methods.py is stale" in stale.stderr
    assert methods.read_text() == before

    assert run_generator(tmp_path).returncode == 0
    assert "self.several = several" in methods.read_text()
    assert run_generator(tmp_path, "--check").returncode == 0


def test_constants_are_those_of_the_specification() -> None:
    assert (constants.FRAME_METHOD, constants.FRAME_HEADER, constants.FRAME_BODY) == (1, 2, 3)
    assert constants.FRAME_HEARTBEAT == 8
    assert constants.FRAME_END == 0xCE
    assert constants.FRAME_MIN_SIZE == 4096
    assert constants.REPLY_SUCCESS == 200
    assert constants.PORT == 5672
    assert (constants.PROTOCOL_MAJOR, constants.PROTOCOL_MINOR, constants.PROTOCOL_REVISION) == (0, 9, 1)
    assert constants.CLASS_BASIC == 60
    assert {311, 312, 313, 403, 404, 405, 406} == constants.SOFT_ERRORS
    assert {320, 402, 501, 502, 503, 504, 505, 506, 530, 540, 541} == constants.HARD_ERRORS


def test_every_error_of_the_project_has_its_code_and_scope_from_the_definition() -> None:
    kinds = errors.AMQPError.__subclasses__()
    assert {kind.reply_code for kind in kinds} == constants.SOFT_ERRORS | constants.HARD_ERRORS
    for kind in kinds:
        assert getattr(constants, kind.label) == kind.reply_code
        codes = constants.SOFT_ERRORS if kind.default_scope == "channel" else constants.HARD_ERRORS
        assert kind.reply_code in codes
