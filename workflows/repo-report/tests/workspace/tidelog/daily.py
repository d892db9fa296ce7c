"""One line a day: highest and lowest height, `~` where a gap was filled."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import groupby, pairwise

from tidelog.gaps import gap, is_filled


def lines(gauge: str, heights: Iterable[tuple[datetime, float]]) -> Iterator[str]:
    for day, readings in groupby(heights, key=lambda reading: reading[0].date()):
        day_heights = list(readings)
        missing = [gap(before, after) for (before, _), (after, _) in pairwise(day_heights)]
        if not all(map(is_filled, missing)):
            continue
        mark = "~" if any(missing) else ""
        metres = [height for _, height in day_heights]
        yield f"{gauge} {day} {min(metres):.2f} {max(metres):.2f}{mark}"
