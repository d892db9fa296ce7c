"""Reading what a gauge has sent: one CSV file a month, a time and a height in metres on each line."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path


class Unreadable(ValueError):
    """A line that is no height. Its message names file and line."""


def heights(gauge: Path) -> Iterator[tuple[datetime, float]]:
    """Yields time and height in the order of the files' names, without sorting within a file."""
    for file in sorted(gauge.glob("*.csv")):
        for number, line in enumerate(file.read_text().splitlines(), start=1):
            try:
                time, height = line.split(",")
                yield datetime.fromisoformat(time), float(height)
            except ValueError as error:
                raise Unreadable(f"{file}:{number}: {line!r}") from error
