"""The drawings of a report. Each takes plain values and a width in pixels and gives an SVG element."""

from collections import Counter
from collections.abc import Callable, Sequence

from envfarm_numbers.jeffreys import BANDS, EDGES
from envfarm_numbers.report.document import show
from envfarm_numbers.report.svg import Canvas, Scale, ticks

NARROW = 480
"""Below this width there is room for fewer ticks and shorter labels."""
_SHORT = {"too_hard": "too hard", "too_easy": "too easy"}


def difficulty(rates: Sequence[float], kept: Sequence[str], width: int) -> str:
    """Histogram of pass rates with the bands behind it; retained bands stand out."""
    bins = 20
    counts = Counter(min(bins - 1, int(rate * bins + 1e-9)) for rate in rates)
    most = max(counts.values(), default=1)
    canvas = Canvas(width, 260, "Histogram of pass rates with the five difficulty bands")
    x, y = Scale(0, 1, 38, width - 8), Scale(0, most, 218, 44)
    for i, (name, low, high) in enumerate(zip(BANDS, EDGES, EDGES[1:], strict=False)):
        inside = name in kept
        canvas.rect(x(low), 28, x(high) - x(low), 190, "band kept" if inside else "band")
        number = sum(low <= r < high or (high == 1 and r == 1) for r in rates)
        middle = (x(low) + x(high)) / 2
        anchor = "start" if i == 0 else "end" if i == len(BANDS) - 1 else "middle"
        at = {"start": x(0), "end": x(1), "middle": middle}[anchor]
        if width >= NARROW:
            canvas.text(at, 12, _SHORT.get(name, name), "tick", anchor)
        canvas.text(at, 24 if width >= NARROW else 20, str(number), "value", anchor)
    _grid(canvas, y, 38, width - 8, ticks(0, most, 4), lambda v: f"{v:g}")
    step = x(1 / bins) - x(0)
    for i in range(bins):
        if n := counts[i]:
            tip = f"{i * 5} to {i * 5 + 5} %: {n} {'task' if n == 1 else 'tasks'}"
            canvas.column(x(i / bins) + 1, y(n), step - 2, y(0), "mark a", tip)
    canvas.line(38, y(0), width - 8, y(0), "axis")
    for edge in EDGES:
        canvas.text(x(edge), 234, f"{edge:.0%}", "tick", _edge_anchor(edge, 0, 1))
    canvas.text(width - 8, 252, "pass rate", "tick", "end")
    return canvas.render()


def posteriors(intervals: Sequence[tuple[float, float, float]], width: int) -> str:
    """Tasks in order of their mean: (mean, low, high); the 95 % interval as a ribbon."""
    ordered = sorted(intervals)
    canvas = Canvas(width, 260, "Posterior mean and 95 % interval of every task, by rank")
    x, y = Scale(0, max(1, len(ordered) - 1), 44, width - 8), Scale(0, 1, 224, 12)
    _grid(canvas, y, 44, width - 8, [0, 0.25, 0.5, 0.75, 1], lambda v: f"{v:.0%}")
    for edge in EDGES[1:-1]:
        canvas.line(44, y(edge), width - 8, y(edge), "edge")
    if len(ordered) <= 120:
        for i, (mean, low, high) in enumerate(ordered):
            tip = f"mean {show(mean, 'percent')}, {show(low, 'percent')} to {show(high, 'percent')}"
            canvas.line(x(i), y(low), x(i), y(high), "whisker a")
            canvas.circle(x(i), y(mean), 2.5, "mark a", tip)
    else:
        upper = [(x(i), y(high)) for i, (_, _, high) in enumerate(ordered)]
        lower = [(x(i), y(low)) for i, (_, low, _) in enumerate(ordered)]
        canvas.polygon(upper + lower[::-1], "ribbon a")
        canvas.polyline([(x(i), y(mean)) for i, (mean, _, _) in enumerate(ordered)], "line a")
    canvas.text(width - 8, 244, "tasks, hardest first", "tick", "end")
    return canvas.render()


def before_after(
    pairs: Sequence[tuple[str, float, float]], width: int, names: tuple[str, str]
) -> str:
    """(task, rate in the first, rate in the second of `names`): dots above the diagonal gained; area
    counts tasks."""
    first, second = names
    size = min(width, 460)
    canvas = Canvas(width, size, f"Pass rate of every task, {first} and {second}")
    left = (width - size) / 2 if width >= NARROW else 0
    x = Scale(0, 1, left + 52, left + size - 14)
    y = Scale(0, 1, size - 44, 14)
    for value in (0, 0.25, 0.5, 0.75, 1):
        canvas.line(x(0), y(value), x(1), y(value), "grid")
        canvas.line(x(value), y(0), x(value), y(1), "grid")
        canvas.text(x(0) - 6, y(value) + 4, f"{value:.0%}", "tick", "end")
        canvas.text(x(value), y(0) + 16, f"{value:.0%}", "tick", "middle")
    canvas.line(x(0), y(0), x(1), y(1), "edge")
    places: dict[tuple[float, float], list[str]] = {}
    for task, a, b in pairs:
        places.setdefault((round(a, 4), round(b, 4)), []).append(task)
    largest = max((len(tasks) for tasks in places.values()), default=1)
    unit = min(5.0, 16 / largest**0.5)
    for (a, b), tasks in sorted(places.items(), key=lambda item: -len(item[1])):
        kind = "gain" if b > a else "loss" if b < a else "same"
        named = ", ".join(tasks[:3]) + (f" and {len(tasks) - 3} more" if len(tasks) > 3 else "")
        radius = max(2.5, unit * len(tasks) ** 0.5)
        canvas.circle(
            x(a), y(b), radius, f"dot {kind}", f"{first} {a:.0%}, {second} {b:.0%}: {named}"
        )
    canvas.text(x(1), size - 8, f"pass rate, {first}", "tick", "end")
    canvas.text(x(0), 10, f"pass rate, {second}", "tick", "start")
    return canvas.render()


Curve = Sequence[tuple[float, float, float | None, float | None]]
"""(x, value, low, high)."""


def repeatability(series: Sequence[tuple[str, str, Curve]], width: int) -> str:
    """(class, name, points) of curves over j on a scale of shares; intervals as ribbons."""
    canvas = Canvas(width, 280, "Shares over the number of attempts j, with 95 % intervals")
    last = max((point[0] for _, _, curve in series for point in curve), default=1)
    x, y = Scale(1, max(2, last), 44, width - 66), Scale(0, 1, 236, 12)
    _grid(canvas, y, 44, width - 66, [0, 0.25, 0.5, 0.75, 1], lambda v: f"{v:.0%}")
    for kind, _, curve in series:
        known = [
            (j, low, high) for j, _, low, high in curve if low is not None and high is not None
        ]
        upper = [(x(j), y(high)) for j, _, high in known]
        lower = [(x(j), y(low)) for j, low, _ in known]
        canvas.polygon(upper + lower[::-1], f"ribbon {kind}")
    ends: list[float] = []
    for kind, name, curve in series:
        canvas.polyline([(x(j), y(value)) for j, value, _, _ in curve], f"line {kind}")
        for j, value, _, _ in curve:
            canvas.circle(
                x(j), y(value), 3, f"mark {kind}", f"{name}{j:g}: {show(value, 'percent')}"
            )
        if curve:
            at = _free(y(curve[-1][1]), ends)
            ends.append(at)
            canvas.text(x(curve[-1][0]) + 8, at + 4, f"{curve[-1][1]:.1%}", "value")
    for j in _whole_ticks(last, width):
        canvas.text(x(j), 254, f"{j:g}", "tick", "middle")
    canvas.text(width - 66, 274, "attempts j", "tick", "end")
    return canvas.render()


Bar = tuple[str, float, float | None, float | None]
"""(name, value, low, high)."""


def bars(rows: Sequence[tuple[str, Sequence[tuple[str, Bar]]]], width: int) -> str:
    """For each part its series as (class, bar): horizontal bars with interval whiskers, 0 to 100 %."""
    thick, gap, label = 14, 14, 16
    height = sum(label + len(series) * (thick + 3) + gap for _, series in rows) + 30
    canvas = Canvas(width, height, "Bars with 95 % intervals by part")
    x = Scale(0, 1, 4, width - 62)
    top = 4.0
    for value in (0, 0.25, 0.5, 0.75, 1):
        canvas.line(x(value), top, x(value), height - 24, "grid")
        canvas.text(x(value), height - 8, f"{value:.0%}", "tick", _edge_anchor(value, 0, 2))
    for part, series in rows:
        canvas.text(4, top + 11, _cut(part, int(width / 7.5)), "name")
        top += label
        for kind, (name, value, low, high) in series:
            tip = f"{part}, {name}: {show(value, 'percent')}"
            canvas.bar(x(0), top, x(value) - x(0), thick, f"mark {kind}", tip)
            if low is not None and high is not None:
                middle = top + thick / 2
                canvas.line(x(low), middle, x(high), middle, "whisker ink")
                canvas.line(x(low), middle - 4, x(low), middle + 4, "whisker ink")
                canvas.line(x(high), middle - 4, x(high), middle + 4, "whisker ink")
            canvas.text(width - 4, top + 11, f"{value:.1%}", "value", "end")
            top += thick + 3
        top += gap
    return canvas.render()


def counts(rows: Sequence[tuple[str, Sequence[tuple[str, str, float]]]], width: int) -> str:
    """For each name its series as (class, label, count): horizontal bars on a common scale."""
    thick, gap, label = 12, 12, 16
    height = sum(label + len(series) * (thick + 3) + gap for _, series in rows)
    most = max((n for _, series in rows for _, _, n in series), default=1) or 1
    canvas = Canvas(width, height, "Bars of counts")
    x = Scale(0, most, 4, width - 64)
    top = 4.0
    for name, series in rows:
        canvas.text(4, top + 10, _cut(name, int(width / 7.5)), "name")
        top += label
        for kind, said, number in series:
            canvas.bar(
                x(0), top, x(number) - x(0), thick, f"mark {kind}", f"{name}, {said}: {number:,g}"
            )
            canvas.text(x(number) + 6, top + 10, f"{number:,g}", "value")
            top += thick + 3
        top += gap
    return canvas.render()


def cost_dependability(
    points: Sequence[tuple[str, str, float, float]], currency: str, width: int
) -> str:
    """(class, name, cost of the campaign per task, share of dependable tasks)."""
    canvas = Canvas(width, 280, "Cost per task against the share of dependable tasks")
    most = max((cost for _, _, cost, _ in points), default=1.0) * 1.25 or 1.0
    top = min(1.0, max((share for *_, share in points), default=0.0) * 1.3 + 0.05)
    x, y = Scale(0, most, 48, width - 12), Scale(0, top, 236, 12)
    _grid(canvas, y, 48, width - 12, ticks(0, top, 4), lambda v: f"{v:.0%}")
    for value in ticks(0, most, 4 if width >= NARROW else 3):
        canvas.text(x(value), 254, f"{value:.3g}", "tick", _edge_anchor(value, 0, 2 * most))
    if len(points) == 2:
        (_, _, c1, s1), (_, _, c2, s2) = points
        canvas.line(x(c1), y(s1), x(c2), y(s2), "edge")
    for kind, name, cost, share in points:
        tip = (
            f"{name}: {show(cost, 'money')} {currency} a task, {show(share, 'percent')} dependable"
        )
        canvas.circle(x(cost), y(share), 6, f"mark {kind}", tip)
        right = x(cost) > width * 0.7
        canvas.text(
            x(cost) + (-10 if right else 10),
            y(share) - 8,
            name,
            "value",
            "end" if right else "start",
        )
    canvas.text(width - 12, 274, f"{currency} per task", "tick", "end")
    return canvas.render()


def curve(
    series: Sequence[tuple[str, str, Sequence[tuple[float, float | None]]]], label: str, width: int
) -> str:
    """Lines over updates, on a scale of their own: (class, name, (update, value)); gaps stay gaps."""
    known = [(x, y) for _, _, points in series for x, y in points if y is not None]
    canvas = Canvas(width, 190, f"{label} over updates")
    if not known:
        canvas.text(width / 2, 95, "no value", "tick", "middle")
        return canvas.render()
    low = min(0.0, *(y for _, y in known)) if len(known) > 1 else min(0.0, known[0][1])
    high = max(y for _, y in known)
    high = high if high > low else low + 1
    x = Scale(min(x for x, _ in known), max(x for x, _ in known), 54, width - 14)
    y = Scale(low, high + 0.06 * (high - low), 152, 10)
    _grid(canvas, y, 54, width - 14, ticks(low, high, 4), lambda v: f"{v:.3g}")
    for kind, name, points in series:
        for run in _runs(points):
            canvas.polyline([(x(a), y(b)) for a, b in run], f"line {kind}")
            for a, b in run if len(known) <= 120 else ():
                canvas.circle(x(a), y(b), 2.5, f"mark {kind}", f"{name}, update {a:g}: {b:.4g}")
    for value in ticks(x.low, x.high, 6 if width >= NARROW else 4):
        if float(value).is_integer():
            canvas.text(x(value), 168, f"{value:g}", "tick", "middle")
    canvas.text(width - 14, 186, "update", "tick", "end")
    return canvas.render()


def _runs(points: Sequence[tuple[float, float | None]]) -> list[list[tuple[float, float]]]:
    found: list[list[tuple[float, float]]] = [[]]
    for x, y in points:
        if y is None:
            found.append([])
        else:
            found[-1].append((x, y))
    return [run for run in found if run]


def _grid(
    canvas: Canvas,
    y: Scale,
    left: float,
    right: float,
    values: Sequence[float],
    text: Callable[[float], str],
) -> None:
    for value in values:
        canvas.line(left, y(value), right, y(value), "grid")
        canvas.text(left - 6, y(value) + 4, text(value), "tick", "end")


def _whole_ticks(last: float, width: int) -> list[int]:
    step = max(1, round(last / (10 if width >= NARROW else 5)))
    return sorted({1, *range(step, int(last) + 1, step), int(last)} - _crowded(last, step))


def _crowded(last: float, step: int) -> set[int]:
    """The tick before the last one when they would touch."""
    before = int(last) // step * step
    return {before} if 0 < last - before < step / 2 and before != 1 else set()


def _edge_anchor(value: float, low: float, high: float) -> str:
    return "start" if value <= low else "end" if value >= high else "middle"


def _free(at: float, taken: Sequence[float]) -> float:
    """Moved down until no label is closer than a line."""
    for other in sorted(taken):
        if abs(at - other) < 13:
            at = other + 13
    return at


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
