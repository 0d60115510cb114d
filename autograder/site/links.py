"""Translate repository paths to site addresses, and store pictures under names derived from their content."""

from __future__ import annotations

import hashlib
import posixpath
from pathlib import Path

from autograder.authoring.course import ROOT

SHOWN_AS_CODE = (".py", ".toml", ".txt", ".csv", ".md", ".sh", ".yml")


class Links:
    """Addresses of the site's pages: {path in the repository: address in the site}, both relative to their root.

    A source file that a page links to becomes a page too; these are collected in `files`.
    """

    def __init__(self, addresses: dict[str, str], folder: Path, root: Path = ROOT) -> None:
        self.addresses, self.folder, self.root = addresses, folder, root
        self.files: dict[str, str] = {}

    def address(self, page: str, link: str, written_in: str = "") -> str | None:
        """Return a link's address relative to the page that shows it; None if the site has no such page.

        written_in: the path in the repository that the link is relative to, if it is not `page`.
        Raises ValueError for a link to a file that does not exist.
        """
        path, _, anchor = link.partition("#")
        source = written_in or page
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path)) if path else source
        if not (self.root / target).exists():
            raise ValueError(f"{source} links to {link}, which does not exist")
        there = self._address_of(target)
        if there is None:
            return None
        way = "" if target == page else relative(self._address_of(page) or "", there)
        return way + (f"#{anchor}" if anchor else "")

    def picture(self, page: str, link: str) -> str:
        """Copy a picture from the repository, and return its address relative to the page that shows it."""
        path = self.root / posixpath.join(posixpath.dirname(page), link)
        return self.keep(page, path.read_bytes(), path.suffix)

    def keep(self, page: str, data: bytes, suffix: str = ".png") -> str:
        """Write a picture, named by its content hash, if it is new; return its address relative to `page`."""
        name = f"pictures/{hashlib.sha256(data).hexdigest()[:20]}{suffix}"
        path = self.folder / name
        if not path.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return relative(self._address_of(page) or "", name)

    def _address_of(self, target: str) -> str | None:
        if target in self.addresses:
            return self.addresses[target]
        if (self.root / target).is_file() and target.endswith(SHOWN_AS_CODE):
            return self.files.setdefault(target, f"files/{target}.html")
        return None


def relative(page: str, target: str) -> str:
    """Return the relative path from one address of the site to another."""
    return posixpath.relpath(target, posixpath.dirname(page) or ".")
