"""Attachments of tickets: content on disk, records in SQLite."""

import hashlib
import sqlite3
import uuid
from pathlib import Path

MAX_SIZE_BYTES = 8 * 1024 * 1024


class TooLarge(Exception):
    """The attachment is larger than MAX_SIZE_BYTES."""


class Attachments:
    """Keeps each attachment under a random key, never under the name that its sender gave it."""

    def __init__(self, database: sqlite3.Connection, folder: Path):
        self.database = database
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.database.execute(
            "CREATE TABLE IF NOT EXISTS attachments ("
            " key TEXT PRIMARY KEY, ticket INTEGER NOT NULL, name TEXT NOT NULL,"
            " size INTEGER NOT NULL, sha256 TEXT NOT NULL)"
        )

    def add(self, ticket: int, name: str, content: bytes) -> str:
        """Stores an attachment and returns its key."""
        if len(content) > MAX_SIZE_BYTES:
            raise TooLarge(name)
        key = uuid.uuid4().hex
        (self.folder / key).write_bytes(content)
        with self.database:
            self.database.execute(
                "INSERT INTO attachments VALUES (?, ?, ?, ?, ?)",
                (key, ticket, name, len(content), hashlib.sha256(content).hexdigest()),
            )
        return key

    def read(self, key: str) -> bytes:
        """Returns the content of an attachment, after checking it against its record."""
        row = self.database.execute("SELECT sha256 FROM attachments WHERE key = ?", (key,)).fetchone()
        if row is None:
            raise KeyError(key)
        content = (self.folder / key).read_bytes()
        if hashlib.sha256(content).hexdigest() != row[0]:
            raise OSError(f"attachment {key} is damaged")
        return content

    def keys(self, ticket: int) -> list[str]:
        """Returns the keys of a ticket's attachments."""
        rows = self.database.execute("SELECT key FROM attachments WHERE ticket = ? ORDER BY rowid", (ticket,))
        return [key for (key,) in rows]
