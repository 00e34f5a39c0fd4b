"""The layer between the store and the operating system: what does not depend on a log."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from embermq.store.disk.filesystem import FileSystem


def test_a_file_that_outlives_everything_goes_in_silence(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from embermq.store.disk.filesystem import FileSystem\n"
        f"sys.kept = FileSystem().open({str(tmp_path / 'file')!r}, create=True)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_a_synced_write_stands_where_it_should(tmp_path: Path) -> None:
    filesystem = FileSystem()
    file = filesystem.open(str(tmp_path / "file"), create=True)
    assert filesystem.write_synced(file, bytearray(b"second"), 6, 6) == 6
    assert filesystem.write_synced(file, bytearray(b"first and more"), 6, 0) == 6
    assert (tmp_path / "file").read_bytes() == b"first second"
