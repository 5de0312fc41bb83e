"""A small SVG canvas with linear scales. Colours come from the page: marks carry classes, not fills."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps values to pixels, linearly."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        span = self.high - self.low or 1.0
        return self.start + (value - self.low) / span * (self.end - self.start)


@dataclass(slots=True)
class Canvas:
    """Elements in drawing order. Texts are escaped; coordinates are rounded to a tenth of a pixel."""

    width: float
    height: float
    label: str
    """What a screen reader says of the drawing."""
    parts: list[str] = field(default_factory=list)

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        self.parts.append(
            f'<line class="{kind}" x1="{_p(x1)}" y1="{_p(y1)}" x2="{_p(x2)}" y2="{_p(y2)}"/>'
        )

    def rect(self, x: float, y: float, w: float, h: float, kind: str, tip: str = "") -> None:
        self.parts.append(
            f'<rect class="{kind}" x="{_p(x)}" y="{_p(y)}" width="{_p(max(0, w))}" '
            f'height="{_p(max(0, h))}"{_tip(tip)}/>'
        )

    def column(self, x: float, y: float, w: float, base: float, kind: str, tip: str = "") -> None:
        """A bar from `base` up to `y` with its upper corners rounded."""
        if base - y < 0.05:
            return
        r = min(4.0, w / 2, base - y)
        self.parts.append(
            f'<path class="{kind}" d="M{_p(x)} {_p(base)}V{_p(y + r)}Q{_p(x)} {_p(y)} {_p(x + r)} '
            f"{_p(y)}H{_p(x + w - r)}Q{_p(x + w)} {_p(y)} {_p(x + w)} {_p(y + r)}V{_p(base)}Z"
            f'"{_tip(tip)}/>'
        )

    def bar(self, x: float, y: float, w: float, h: float, kind: str, tip: str = "") -> None:
        """A bar from `x` to the right with its right corners rounded."""
        if w < 0.05:
            return
        r = min(4.0, h / 2, w)
        self.parts.append(
            f'<path class="{kind}" d="M{_p(x)} {_p(y)}H{_p(x + w - r)}Q{_p(x + w)} {_p(y)} '
            f"{_p(x + w)} {_p(y + r)}V{_p(y + h - r)}Q{_p(x + w)} {_p(y + h)} {_p(x + w - r)} "
            f'{_p(y + h)}H{_p(x)}Z"{_tip(tip)}/>'
        )

    def circle(self, x: float, y: float, r: float, kind: str, tip: str = "") -> None:
        self.parts.append(
            f'<circle class="{kind}" cx="{_p(x)}" cy="{_p(y)}" r="{_p(r)}"{_tip(tip)}/>'
        )

    def polyline(self, points: Sequence[tuple[float, float]], kind: str) -> None:
        if points:
            path = " ".join(f"{_p(x)},{_p(y)}" for x, y in points)
            self.parts.append(f'<polyline class="{kind}" points="{path}"/>')

    def polygon(self, points: Sequence[tuple[float, float]], kind: str) -> None:
        if points:
            path = " ".join(f"{_p(x)},{_p(y)}" for x, y in points)
            self.parts.append(f'<polygon class="{kind}" points="{path}"/>')

    def text(
        self, x: float, y: float, text: str, kind: str = "tick", anchor: str = "start"
    ) -> None:
        self.parts.append(
            f'<text class="{kind}" x="{_p(x)}" y="{_p(y)}" text-anchor="{anchor}">'
            f"{escape(text)}</text>"
        )

    def render(self) -> str:
        return (
            f'<svg viewBox="0 0 {_p(self.width)} {_p(self.height)}" role="img" '
            f'aria-label="{escape(self.label)}">{"".join(self.parts)}</svg>'
        )


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round values within [low, high], at most `most` + 1 of them."""
    span = high - low
    if span <= 0:
        return [low]
    raw = span / most
    power = 10.0 ** _floor_log10(raw)
    step = next(f * power for f in (1, 2, 2.5, 5, 10) if f * power >= raw - 1e-12)
    first = -(-low // step)
    found = []
    while (value := first * step) <= high + 1e-9 * span:
        found.append(round(value, 12) + 0.0)
        first += 1
    return found


def _floor_log10(value: float) -> int:
    exponent = 0
    while value >= 10:
        value, exponent = value / 10, exponent + 1
    while value < 1:
        value, exponent = value * 10, exponent - 1
    return exponent


def _p(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _tip(text: str) -> str:
    return f' data-tip="{escape(text)}"' if text else ""
