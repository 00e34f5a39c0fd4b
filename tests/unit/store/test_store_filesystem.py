"""The layer between the store and the operating system: what does not depend on a log."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from embermq.build import build_info
from embermq.store.filesystem import FileSystem
from embermq.store.promise import Promise


def test_a_file_that_outlives_everything_goes_in_silence(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from embermq.store.filesystem import FileSystem\n"
        f"sys.kept = FileSystem().open({str(tmp_path / 'file')!r}, create=True)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_a_synced_write_stands_where_it_should(tmp_path: Path) -> None:
    filesystem = FileSystem()
    file = filesystem.open(str(tmp_path / "file"), create=True)
    promise = Promise()
    assert filesystem.write_synced(file, bytearray(b"second"), 6, 6, promise) == 6
    assert filesystem.write_synced(file, bytearray(b"first and more"), 6, 0, promise) == 6
    assert (tmp_path / "file").read_bytes() == b"first second"
    assert (promise.sent, promise.seconds > 0) == (0, True)


def test_who_waits_for_a_synced_write_is_told_when_it_is_there(tmp_path: Path) -> None:
    """By the compiled kernel; the other one leaves it to who promised."""
    filesystem = FileSystem()
    file = filesystem.open(str(tmp_path / "file"), create=True)
    promise = Promise()
    near, far = socket.socketpair()
    with near, far:
        far.setblocking(False)
        promise.prepare(near.fileno(), b"it is safe")
        assert filesystem.write_synced(file, bytearray(b"text"), 4, 0, promise) == 4
        if promise.sent:
            assert far.recv(100) == b"it is safe"[: promise.sent]
        assert promise.sent == (len(b"it is safe") if build_info().mode == "compiled" else 0)


def test_nobody_is_told_of_a_write_that_failed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"text")
    filesystem = FileSystem()
    file = filesystem.open(str(tmp_path / "file"), writable=False)
    promise = Promise()
    near, far = socket.socketpair()
    with near, far:
        far.setblocking(False)
        promise.prepare(near.fileno(), b"it is safe")
        with pytest.raises(OSError, match="Bad file descriptor"):
            filesystem.write_synced(file, bytearray(b"more"), 4, 4, promise)
        assert promise.sent == 0
        with pytest.raises(BlockingIOError):
            far.recv(100)


def test_a_peer_that_is_gone_does_not_harm_the_write(tmp_path: Path) -> None:
    filesystem = FileSystem()
    file = filesystem.open(str(tmp_path / "file"), create=True)
    promise = Promise()
    near, far = socket.socketpair()
    far.close()
    with near:
        promise.prepare(near.fileno(), b"it is safe")
        assert filesystem.write_synced(file, bytearray(b"text"), 4, 0, promise) == 4
    assert promise.sent == 0
    assert (tmp_path / "file").read_bytes() == b"text"
