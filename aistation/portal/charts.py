"""Charts that the server draws: steps over time as areas and lines of an SVG, in thousandths of its sides.

Labels are HTML beside it, so that they keep their size on a phone; the numbers stand in a table beneath.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

SIDE: Final = 1000


@dataclass(frozen=True, slots=True)
class Series:
    """A number for each step. ``look`` names its colour, ``label`` stands in the legend."""

    look: str
    label: str
    values: Sequence[int]


@dataclass(frozen=True, slots=True)
class Drawn:
    look: str
    label: str
    path: str


@dataclass(frozen=True, slots=True)
class Band:
    """A stretch of time over the full height."""

    label: str
    x: int
    width: int


@dataclass(frozen=True, slots=True)
class Tick:
    """Under the chart at ``at``; with an ``instant`` scripts say it by the reader's clock."""

    at: int
    text: str
    instant: datetime | None = None


@dataclass(frozen=True, slots=True)
class Level:
    """A line across, ``at`` from the top."""

    at: int
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    label: str
    areas: Sequence[Drawn]
    lines: Sequence[Drawn] = ()
    bands: Sequence[Band] = ()
    ticks: Sequence[Tick] = ()
    levels: Sequence[Level] = ()
    band_label: str = ""


def stacked(series: Iterable[Series], top: int) -> list[Drawn]:
    """Areas on top of each other, the first lowest; what is above ``top`` is cut off."""
    drawn: list[Drawn] = []
    floor: list[int] = []
    for one in series:
        floor = floor or [0] * len(one.values)
        ceiling = [low + value for low, value in zip(floor, one.values, strict=True)]
        if any(one.values):
            back = " ".join(f"L{x} {y}" for x, y in reversed(_steps(floor, top)))
            drawn.append(Drawn(one.look, one.label, f"{_line(ceiling, top)} {back} Z"))
        floor = ceiling
    return drawn


def line(series: Series, top: int) -> Drawn:
    return Drawn(series.look, series.label, _line(series.values, top))


def levels(top: int, unit: str = "") -> list[Level]:
    """Up to five lines at round numbers, 0 and the top among them."""
    step = next(step for step in _round_steps() if top <= 4 * step)
    marks = [*range(0, top - step // 2, step), top] if top else [0]
    return [Level(_y(mark, top), f"{mark}{unit}") for mark in marks]


def share(part: int, whole: int) -> int:
    """``part`` of ``whole`` along a side, held within it."""
    return max(0, min(SIDE, part * SIDE // whole)) if whole else 0


def _round_steps() -> Iterable[int]:
    size = 1
    while True:
        yield from (size, 2 * size, 5 * size)
        size *= 10


def _line(values: Sequence[int], top: int) -> str:
    return "M" + " L".join(f"{x} {y}" for x, y in _steps(values, top))


def _steps(values: Sequence[int], top: int) -> list[tuple[int, int]]:
    """Corners from left to right, without those on a straight."""
    corners: list[tuple[int, int]] = []
    for index, value in enumerate(values):
        y = _y(value, top)
        if not corners or corners[-1][1] != y:
            corners.append((share(index, len(values)), y))
        corners.append((share(index + 1, len(values)), y))
        if len(corners) > 2 and corners[-3][1] == corners[-2][1] == y:
            del corners[-2]
    return corners


def _y(value: int, top: int) -> int:
    return SIDE - share(value, top)
