"""Finding what is missing between two heights."""

from datetime import datetime, timedelta

STEP = timedelta(minutes=15)
FILLED_MAX = timedelta(hours=1)


def gap(before: datetime, after: datetime) -> timedelta:
    """How much is missing between two readings; nothing where they follow each other."""
    return max(after - before - STEP, timedelta(0))


def is_filled(missing: timedelta) -> bool:
    """Whether a gap is short enough for the daily line."""
    return missing <= FILLED_MAX
