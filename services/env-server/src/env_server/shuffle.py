"""The shuffle test: may a world's slots be used again?

An undo brings every row back, yet not to its old place, so a query without a full ORDER BY may then
answer in another order. A world may reuse slots only when each READ tool answers byte for byte the
same on a copy whose rows lie in another order. Arguments come from the world's `examples` and from
its own rows; a tool that never answered anything but a refusal proves nothing, and so forbids it.
"""

import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any

from envfarm.canonical import canonical_json
from psycopg import sql

from env_server import tool_call
from env_server.cluster import Cluster
from env_server.evidence import made_sql
from env_server.slot import Slot
from env_server.template import Template
from env_server.toolkit import Access, Tool

MAX_CALLS = 150
"""Per tool."""
MAX_VALUES = 8
"""Per column."""
CALL_SECONDS = 5.0
_WIDE = ("", "a", "e", "%")
"""Texts that a search is likely to find many rows by."""
_ORDERS = ("hashtextextended(t::text, 1)", "hashtextextended(t::text, 2)")


async def obstacle(cluster: Cluster, template: Template) -> str:
    """Why slots of this world may not be used again; empty when they may."""
    if template.reuse_obstacle:
        return template.reuse_obstacle
    tools = [tool for tool in template.world.tools.values() if tool.access is Access.READ]
    plain = await cluster.clone(template)
    try:
        shuffled = await cluster.clone(template)
        try:
            for order in _ORDERS:
                await reorder(cluster, shuffled, order)
                for tool in tools:
                    if reason := await _differs(tool, template, plain, shuffled):
                        return reason
        finally:
            await cluster.drop(shuffled)
    finally:
        await cluster.drop(plain)
    return ""


async def reorder(cluster: Cluster, slot: Slot, order: str = _ORDERS[0]) -> None:
    """Write every table of a slot anew in another order; content stays as it is."""
    parts: list[sql.Composable] = [sql.SQL("BEGIN; SET LOCAL session_replication_role = replica")]
    for table in slot.template.tables:
        columns = sql.SQL(", ").join(map(sql.Identifier, table.stored))
        parts.append(
            made_sql(
                "WITH gone AS (DELETE FROM public.{t} t RETURNING *),"
                " n AS (SELECT count(*) FROM gone) INSERT INTO public.{t} ({c})"
                " OVERRIDING SYSTEM VALUE SELECT {c} FROM"
                f" (SELECT t.* FROM n, gone t ORDER BY {order}) q"
            ).format(t=sql.Identifier(table.name), c=columns)
        )
    parts.append(sql.SQL("COMMIT"))
    async with cluster.keepers.of(slot) as keeper:
        await keeper.execute(sql.SQL(";\n").join(parts), prepare=False)


async def _differs(tool: Tool, template: Template, plain: Slot, shuffled: Slot) -> str:
    examples = template.world.examples.get(tool.name, ())
    answered = False
    for arguments in itertools.islice(
        itertools.chain(examples, guesses(tool, template)), MAX_CALLS
    ):
        text = canonical_json(arguments)
        seen = [
            await tool_call.run(slot.connection, tool, text, template.world.now, CALL_SECONDS)
            for slot in (plain, shuffled)
        ]
        if seen[0].content != seen[1].content:
            return f"tool {tool.name} answers {text[:200]} by the physical order of rows"
        answered = answered or not seen[0].is_error
    if not answered:
        return f"tool {tool.name} was never shown to answer; give `examples` in world.yaml"
    return ""


def guesses(tool: Tool, template: Template) -> Iterator[dict[str, Any]]:
    """Arguments made from the rows of the world; required ones alone first."""
    schema = json.loads(tool.schema_json)
    properties: dict[str, Any] = schema["properties"]
    required = schema.get("required", [])
    optional = [name for name in properties if name not in required]
    values = {name: _values(name, spec, schema, template) for name, spec in properties.items()}
    for extra in [[], *([name] for name in optional)]:
        names = [*required, *extra]
        for combination in itertools.product(*(values[name] for name in names)):
            yield dict(zip(names, combination, strict=True))


def _values(
    name: str, spec: Mapping[str, Any], schema: Mapping[str, Any], template: Template
) -> list[Any]:
    if "$ref" in spec:
        spec = schema.get("$defs", {}).get(spec["$ref"].rpartition("/")[2], {})
    if "anyOf" in spec:
        found = [_values(name, part, schema, template) for part in spec["anyOf"]]
        return [value for part in found for value in part][: 2 * MAX_VALUES]
    if "enum" in spec:
        return list(spec["enum"])
    if "const" in spec:
        return [spec["const"]]
    match spec.get("type"):
        case "boolean":
            return [False, True]
        case "string":
            return [*_from_rows(name, str, template), *_WIDE]
        case "integer":
            return _from_rows(name, int, template) or [1, 10, 1000]
        case "number":
            return _from_rows(name, (int, float), template) or [1, 10.5, 1000]
        case _:
            return []


def _from_rows(name: str, kind: type | tuple[type, ...], template: Template) -> list[Any]:
    """Values of columns called `name`, else of keys: the first, the last and some between."""
    same_name: list[Any] = []
    keys: list[Any] = []
    for rows in template.initial.tables.values():
        step = max(1, len(rows.canonical) // 4)
        sample = [json.loads(row) for row in (*rows.canonical[::step], *rows.canonical[-1:])]
        if name in rows.table.columns:
            same_name += [row[name] for row in sample]
        keys += [row[column] for row in sample for column in rows.table.key_columns]
    found = [value for value in same_name or keys if isinstance(value, kind)]
    unique = list(dict.fromkeys(found))
    return unique[: MAX_VALUES if same_name else 4 * MAX_VALUES]
