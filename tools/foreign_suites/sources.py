"""Where the suites come from: PyPI, npm and Debian's sources, checked by their SHA-256, kept in build/."""

from __future__ import annotations

import hashlib
import re
import shutil
import tarfile
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from tools.brokers import REPOSITORY

BUILD = REPOSITORY / "build" / "foreign"
DOWNLOADS = BUILD / "downloads"
DEBIAN = "http://deb.debian.org/debian/pool/main"
DOWNLOAD_SECONDS_MAX = 180


@dataclass(frozen=True)
class Source:
    """A tarball; `url` may be a page of PyPI's index on which a link ends with the name of the file."""

    url: str
    file: str
    sha256: str

    def fetch(self) -> Path:
        path = DOWNLOADS / self.file
        if not path.exists():
            DOWNLOADS.mkdir(parents=True, exist_ok=True)
            data = read(self.address())
            found = hashlib.sha256(data).hexdigest()
            if found != self.sha256:
                raise ValueError(f"{self.file} has the SHA-256 {found}, {self.sha256} was expected")
            path.write_bytes(data)
        return path

    def address(self) -> str:
        if not self.url.endswith("/"):
            return self.url
        links: list[str] = re.findall(r'href="([^"#]+)', read(self.url).decode())
        for link in links:
            if link.endswith("/" + self.file):
                return urllib.parse.urljoin(self.url, link)
        raise ValueError(f"{self.url} has no {self.file}")

    def unpack(self, folder: Path) -> None:
        """A fresh copy, without the folder at the top of the tarball."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        with tarfile.open(self.fetch()) as archive:
            for member in archive.getmembers():
                _, _, member.name = member.name.partition("/")
                if member.name:
                    archive.extract(member, folder, filter="tar")


def pypi(name: str, version: str, sha256: str) -> Source:
    index_name = name.replace("_", "-")
    return Source(f"https://pypi.org/simple/{index_name}/", f"{name}-{version}.tar.gz", sha256)


def npm(name: str, version: str, sha256: str) -> Source:
    file = f"{name}-{version}.tgz"
    return Source(f"https://registry.npmjs.org/{name}/-/{file}", file, sha256)


def debian(package: str, file: str, sha256: str) -> Source:
    letter = package[:4] if package.startswith("lib") else package[0]
    return Source(f"{DEBIAN}/{letter}/{package}/{urllib.parse.quote(file, safe='')}", file, sha256)


def read(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=DOWNLOAD_SECONDS_MAX) as response:
        data: bytes = response.read()
        return data
