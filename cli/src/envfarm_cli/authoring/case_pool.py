"""Tasks written from cases: what the `families.py` of the domains of full size have in common.

Each file in a domain's `cases/` is one workflow: its tasks with the facts that their rows are made of, what the person says,
what is right, and the runs that look right. A domain brings what its calls mean and how its rows are made; from here come
the reading of cases, names in place of ids, the kinds of checks that every pool has, and the writing and comparing of files.
"""

import argparse
import calendar
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from string import Template
from typing import Any

import yaml

Case = dict[str, Any]
Call = dict[str, Any]
"""`tool` and `arguments`."""
Parts = dict[str, dict[str, Any]]
"""Content of a task's three files, by folder."""
PARTS = ("world/tasks", "user", "private")
_MONTHS = list(calendar.month_name)[1:]
_DAY = re.compile(rf"(\d\d?) ({'|'.join(_MONTHS)})")
_HOUR = re.compile(r"(\d\d?):(\d\d)")


@dataclass(frozen=True)
class Places:
    """How cases are spread over numbered places, so that a new case moves the rows of no other."""

    count: int
    step: int
    """Without a common divisor with `count`."""
    start: int
    most_cases: int
    """Of one workflow."""

    def of(self, workflow: int, case: int) -> int:
        """The place of a case, both counted from zero."""
        return ((workflow * self.most_cases + case) * self.step + self.start) % self.count


def load_cases(root: Path, places: Places) -> list[tuple[str, Case, int]]:
    """Workflow, case and place of every case, in the order of cases/order.yaml.

    ValueError when a workflow has too many cases or two cases have one place.
    """
    found: list[tuple[str, Case, int]] = []
    for number, workflow in enumerate(yaml.safe_load((root / "cases/order.yaml").read_text())):
        path = root / "cases" / f"{workflow}.yaml"
        cases = yaml.safe_load(path.read_text())["cases"]
        if len(cases) > places.most_cases:
            raise ValueError(f"{path}: more than {places.most_cases} cases")
        found += [(workflow, case, places.of(number, i)) for i, case in enumerate(cases)]
    if len({place for _, _, place in found}) < len(found):
        raise ValueError("two cases have one place")
    return found


class Story:
    """One case with the ids of its records: the $names of its texts and calls stand for them."""

    def __init__(self, case: Case, ids: dict[str, str]):
        self.case, self.ids = case, ids

    def text(self, value: str) -> str:
        """With ids in place of names; KeyError for an unknown name."""
        return Template(value).substitute(self.ids).strip()

    def value(self, value: Any) -> Any:
        """An argument of a call: texts with ids, days as YYYY-MM-DD, anything else as it is."""
        if isinstance(value, date):
            return value.isoformat()
        return self.text(value) if isinstance(value, str) else value

    def lines(self, always: Iterable[Mapping[str, str]]) -> list[dict[str, str]]:
        """What the person says and when: the case's own lines, then those of everybody."""
        own = [{"when": when, "say": say} for when, say in self.case.get("script", [])]
        return [{"when": line["when"], "say": self.text(line["say"])} for line in (*own, *always)]


def others(named: Mapping[str, Mapping[str, str]], case: Case) -> dict[str, str]:
    """Ids of the case that `other` names by its slug, as names that begin with other_."""
    known = named.get(case.get("other", ""), {})
    return {f"other_{name}": value for name, value in known.items()}


def state_check(
    tools: set[str],
    new_rows: Mapping[str, tuple[str, list[str]]],
    refs: Mapping[str, str],
    free_text: Mapping[str, str],
) -> dict[str, Any]:
    """The final state, but for generated ids and free text of the rows that the calls write.

    `new_rows` and `free_text` are by tool; `refs` are given when the tables that they point at are in `new_rows`.
    """
    check: dict[str, Any] = {"name": "final state", "kind": "state"}
    keys = {new_rows[tool][0]: new_rows[tool][1] for tool in new_rows if tool in tools}
    if keys:
        check["keys"] = keys
    if refs:
        check["refs"] = dict(refs)
    texts = [column for tool, column in free_text.items() if tool in tools]
    return {**check, "unstable": texts} if texts else check


def sql_check(name: str, query: str) -> dict[str, Any]:
    """A query that has to be true in the end."""
    return {"name": name, "kind": "sql", "query": query, "expect": True}


def others_untouched(
    ids: Mapping[str, str],
    records: Iterable[tuple[str, str, str, str]],
    new_rows: Mapping[str, tuple[str, list[str]]],
    right: list[Call],
    wrong: Iterable[Call],
) -> list[dict[str, Any]]:
    """Checks that the neighbour's record stays, and that nothing is written about it, where `wrong` calls do that.

    Each of `records` is a word, an id's name, a table and its key. A wrong call that names the id writes a row of its
    own, by `new_rows`, or else changes the record under its key.
    """
    found: dict[str, dict[str, Any]] = {}
    for word, name, table, key in records:
        for call in wrong if name in ids else ():
            place, columns = new_rows.get(call["tool"], (table, [key]))
            for column in _naming(call, ids[name], columns):
                if any(
                    new_rows.get(done["tool"], ("",))[0] == place
                    and _naming(done, ids[name], [column])
                    for done in right
                ):
                    continue
                title = f"the other {word}" + (f": {place}" if place != table else "")
                where = {column: ids[name]}
                check = {"name": title, "kind": "untouched", "tables": [place], "where": where}
                found.setdefault(title, check)
    return [found[title] for title in sorted(found)]


def _naming(call: Call, value: str, columns: list[str]) -> list[str]:
    """Those of the columns that the call fills with the value."""
    return [column for column in columns if call["arguments"].get(column) == value]


def wrong_calls(case: Case, calls: Callable[[Any], list[Call]]) -> list[Call]:
    """Of the runs that look right, and the unasked write."""
    runs = [*case["misses"].values(), [case["extra"]]]
    return [call for run in runs for call in calls(run)]


def nothing_happened(tables: list[str]) -> dict[str, Any]:
    return {"name": "nothing happened", "kind": "untouched", "tables": tables}


def money_pattern(amount: float) -> str:
    """A regular expression for the ways in which people write an amount: 24.50, 24.5, 24,50; 162 or 162.00."""
    whole, cents = f"{amount:.2f}".split(".")
    if len(whole) > 3:
        whole = f"{whole[:-3]}[.,' ]?{whole[-3:]}"
    if cents == "00":
        return rf"\b{whole}([.,]00?)?\b"
    last = f"{cents[1]}?" if cents[1] == "0" else cents[1]
    return rf"\b{whole}[.,]{cents[0]}{last}\b"


def reply_checks(case: Case, text: Callable[[str], str]) -> list[dict[str, Any]]:
    """What the case `says`, `never_says`, and the `money` it names; `text` puts ids in place of names.

    A list in `says` holds beginnings of words that mean the same, of which one is enough: whoever says `called off`
    has told what `cancelled` tells.
    """
    words = [word for word in case["says"] if not _pattern(word, text)]
    says: dict[str, Any] = {"name": "names what matters", "kind": "reply"}
    if words:
        says["contains_all"] = [text(str(word)) for word in words]
    if "never_says" in case:
        says["contains_none"] = [text(str(word)) for word in case["never_says"]]
    if "money" in case:
        says["matches"] = money_pattern(case["money"])
    checks = [says] if len(says) > 2 else []
    for word in case["says"]:
        if pattern := _pattern(word, text):
            name = word[0] if isinstance(word, list) else word
            checks.append({"name": f"says: {name}", "kind": "reply", "matches": pattern})
    return checks


def _pattern(word: Any, text: Callable[[str], str]) -> str:
    """For words that mean the same, a day like `21 October` and an hour like `16:10`; else empty."""
    if isinstance(word, list):
        synonyms: list[str] = word
        return rf"(?i)\b({'|'.join(map(text, synonyms))})"
    if day := _DAY.fullmatch(str(word)):
        return day_pattern(int(day[1]), day[2])
    if hour := _HOUR.fullmatch(str(word)):
        return hour_pattern(int(hour[1]), hour[2])
    return ""


def day_pattern(day: int, month: str) -> str:
    """The ways in which people write it: 21 October, 21st of Oct, October 21, 21/10, 21.10., 2026-10-21."""
    number = _MONTHS.index(month) + 1
    short, rest = month[:3], month[3:]
    name = f"{short}({rest})?" if rest else short
    count = f"0?{day}(st|nd|rd|th)?"
    written = f"{count}( of)? {name}|{name} {count}|0?{day}[./]0?{number}|20..-{number:02}-{day:02}"
    return rf"(?i)\b({written})\b"


def hour_pattern(hour: int, minutes: str) -> str:
    """The ways in which people write it: 16:10, 16.10, 4:10 pm; 09:40, 9:40."""
    afternoon = f"|{hour - 12}[:.]{minutes} ?p" if hour > 12 else ""
    return rf"(?i)\b(0?{hour}[:.]{minutes}\b{afternoon})"


def played(
    runs: Mapping[str, Any], calls: Callable[[Any], list[Call]], reply: str = ""
) -> list[dict[str, Any]]:
    """Runs that look right as near misses; with a `reply` they also tell."""
    told = {"reply": reply} if reply else {}
    word = "plays and tells" if reply else "plays"
    return [
        {"name": f"{word}: {name}", "actions": calls(run), **told} for name, run in runs.items()
    ]


def texts_of(root: Path, tasks: Iterable[tuple[Case, Parts]]) -> Iterator[tuple[Path, str]]:
    """Path and text of the three files of each task."""
    for case, parts in tasks:
        for folder, content in parts.items():
            text = yaml.dump(content, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=100)
            if folder == "private":
                text = f"# Turns on: {case['point']}\n{text}"
            yield root / folder / f"{case['slug']}.yaml", text


class _Plain(yaml.SafeDumper):
    """Without anchors, which the services refuse."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def main(root: Path, about: str | None, files: Callable[[], Iterable[tuple[Path, str]]]) -> int:
    """Write `files`, or compare them with --check; exit status 1 when what is committed differs."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--check", action="store_true", help="compare with the committed files")
    check, wanted = parser.parse_args().check, dict(files())
    known = {path for part in PARTS for path in (root / part).glob("*.yaml")}
    different = sorted(
        path for path, text in wanted.items() if not path.exists() or path.read_text() != text
    ) + sorted(known - set(wanted))
    if check:
        for path in different:
            print(f"out of date: {path.relative_to(root)}", file=sys.stderr)
        return 1 if different else 0
    for path in different:
        if path in wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[path])
        else:
            path.unlink()
    print(f"{len(wanted)} files, {len(different)} changed")
    return 0
