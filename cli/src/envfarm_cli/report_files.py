"""Reading what a report is made from, and writing its three files."""

from pathlib import Path

from envfarm_cli.campaign.files import read_json, write_durably
from envfarm_numbers.prices import PriceSheet
from envfarm_numbers.report.document import Document
from envfarm_numbers.report.files import texts
from envfarm_numbers.rows import FILE_NAME
from envfarm_numbers.suite import Suite


def write_report(document: Document, folder: Path) -> None:
    """report.html, report.md and summary.json in `folder`."""
    for name, text in texts(document).items():
        write_durably(folder / name, text.encode())


def suite_of(path: Path, given: Path | None) -> Suite | None:
    """The suite that is given, or else the one in the campaign's folder."""
    if given:
        return Suite.read(given, biased=True)
    beside = (path if path.is_dir() else path.parent) / "suite.json"
    return Suite.read(beside, biased=True) if beside.exists() else None


def planned(path: Path) -> int | None:
    """Repetitions that the campaign in this folder is for; None when nothing says so."""
    known = read_json((path if path.is_dir() else path.parent) / "recipe.json")
    recipe = known.get("recipe") if isinstance(known, dict) else None
    k = recipe.get("k") if isinstance(recipe, dict) else None
    return k if isinstance(k, int) and k > 0 else None


def prices(path: Path | None) -> PriceSheet | None:
    return PriceSheet.read(path) if path else None


def name_of(path: Path) -> str:
    """A campaign's name in a report: that of its folder."""
    whole = path.absolute()
    return whole.parent.name if whole.name == FILE_NAME else whole.name
