"""A report on disk: report.html, report.md and summary.json, the three of one document."""

import json

from envfarm_numbers.report import html, markdown
from envfarm_numbers.report.document import Document


def texts(document: Document) -> dict[str, str]:
    """Name → content of each file."""
    return {
        "report.html": html.render(document),
        "report.md": markdown.render(document),
        "summary.json": json.dumps(document.data, indent=1, ensure_ascii=False, allow_nan=False)
        + "\n",
    }
