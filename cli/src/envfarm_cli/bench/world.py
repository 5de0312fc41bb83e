"""The world that is measured: 24 tables, some ten thousand rows, 10 MB, made from a seed.

A depot with customers, products, orders and their lines, and twenty registers of past business
that no call touches but that every honest look at the whole state has to mind.
"""

import random
from pathlib import Path

REGISTERS = 20
REGISTER_ROWS = 400
CUSTOMERS, PRODUCTS, ORDERS = 400, 400, 600
SEED = 7
ID = "bench/restock"
TABLES = REGISTERS + 4

_SCHEMA = """
CREATE TABLE customers (id integer PRIMARY KEY, name text NOT NULL UNIQUE, note text NOT NULL,
    balance numeric(10, 2) NOT NULL);
CREATE TABLE products (id integer PRIMARY KEY, name text NOT NULL, note text NOT NULL,
    stock integer NOT NULL CHECK (stock >= 0), price numeric(10, 2) NOT NULL);
CREATE TABLE orders (id integer PRIMARY KEY, customer_id integer NOT NULL REFERENCES customers,
    status text NOT NULL, note text NOT NULL, placed_at timestamptz NOT NULL);
CREATE INDEX orders_by_customer ON orders (customer_id);
CREATE TABLE order_lines (order_id integer NOT NULL REFERENCES orders, line integer NOT NULL,
    product_id integer NOT NULL REFERENCES products, quantity integer NOT NULL,
    PRIMARY KEY (order_id, line));
"""
_REGISTER = """
CREATE TABLE register_{n} (id integer PRIMARY KEY, customer_id integer NOT NULL
    REFERENCES customers, kind text NOT NULL, detail text NOT NULL, at timestamptz NOT NULL);
CREATE INDEX register_{n}_by_customer ON register_{n} (customer_id);
"""
TOOL_SQL = {
    "find_customer": "SELECT id, name, balance FROM customers WHERE name = %(name)s",
    "list_orders": "SELECT o.id, o.status, count(l.line) AS lines FROM orders o"
    " LEFT JOIN order_lines l ON l.order_id = o.id WHERE o.customer_id = %(customer_id)s"
    " GROUP BY o.id ORDER BY o.id",
    "add_line": "INSERT INTO order_lines SELECT %(order_id)s, coalesce(max(line), 0) + 1,"
    " %(product_id)s, %(quantity)s FROM order_lines WHERE order_id = %(order_id)s"
    " RETURNING order_id, line",
    "take_stock": "UPDATE products SET stock = stock - %(quantity)s WHERE id = %(product_id)s"
    " RETURNING id, stock",
    "set_status": "UPDATE orders SET status = %(status)s WHERE id = %(order_id)s"
    " RETURNING id, status",
}
"""The one statement of each tool; the floor runs the same."""
CALLS = [
    ("find_customer", {"name": "Customer 17"}),
    ("list_orders", {"customer_id": 17}),
    ("add_line", {"order_id": 17, "product_id": 30, "quantity": 2}),
    ("take_stock", {"product_id": 30, "quantity": 2}),
    ("set_status", {"order_id": 17, "status": "packed"}),
]
"""What a right episode does: two reads, then writes on three rows."""
REPLY = "Order 17 is packed."

_TOOL = '''
@tool({access})
async def {name}(call: Call, {parameters}) -> dict:
    """{title}."""
    await call.db.execute("""{sql}""", {arguments})
    return {{"rows": await call.db.fetchall()}}
'''
_TYPES = {"name": "str", "status": "str"}
_TASK = """
id: bench/restock
opening: Please add two of product 30 to my order 17, take them from stock and pack it.
limits: {max_turns: 12, max_tool_calls: 16, max_turn_tokens: 160, max_total_tokens: 32768,
  max_tool_seconds: 20}
tags: {workflow: restock, failure_mode: none, split: train}
"""
_PRIVATE = """
task: bench/restock
golden:
  actions:
%s
  reply: %s
checks:
  - {name: final state, kind: state}
  - {name: says what was done, kind: reply, contains_all: ["17"]}
extra_write:
  tool: set_status
  arguments: {order_id: 18, status: lost}
near_misses:
  - name: another order
    actions:
      - tool: set_status
        arguments: {order_id: 18, status: packed}
"""


def write_world(domains: Path) -> Path:
    """Make `domains`/bench with its world and its private part; returns the world's folder."""
    world, private = domains / "bench" / "world", domains / "bench" / "private"
    (world / "tasks").mkdir(parents=True)
    private.mkdir()
    (domains / "bench" / "user").mkdir()
    files = {
        world / "world.yaml": 'world: bench\nnow: "2026-03-02T09:00:00Z"\ndescription: A depot.\n',
        world / "schema.sql": schema_sql(),
        world / "seed.sql": seed_sql(),
        world / "policy.md": "Do what the customer asks.\n",
        world / "tools.py": _tools(),
        world / "tasks" / "restock.yaml": _TASK,
        private / "restock.yaml": _PRIVATE % (_actions(), REPLY),
    }
    for path, text in files.items():
        path.write_text(text)
    return world


def schema_sql() -> str:
    return _SCHEMA + "".join(_REGISTER.format(n=number) for number in range(REGISTERS))


def seed_sql() -> str:
    """INSERT statements for all tables; the same text each time."""
    draw = random.Random(SEED)
    words = ["".join(draw.choices("abcdefghiklmnoprstuvw", k=9)) for _ in range(400)]

    def prose(length: int) -> str:
        return " ".join(draw.choices(words, k=length // 10))

    statements = [
        _insert(
            "customers",
            [f"({n}, 'Customer {n}', '{prose(900)}', {n}.50)" for n in range(1, CUSTOMERS + 1)],
        ),
        _insert(
            "products",
            [
                f"({n}, 'Product {n}', '{prose(900)}', {100 + n}, {n}.25)"
                for n in range(1, PRODUCTS + 1)
            ],
        ),
        _insert(
            "orders",
            [
                f"({n}, {(n - 1) % CUSTOMERS + 1}, 'placed', '{prose(500)}', '2026-02-01T08:00:00Z')"
                for n in range(1, ORDERS + 1)
            ],
        ),
        _insert(
            "order_lines",
            [
                f"({n}, {line}, {draw.randint(1, PRODUCTS)}, {draw.randint(1, 5)})"
                for n in range(1, ORDERS + 1)
                for line in (1, 2)
            ],
        ),
    ]
    for number in range(REGISTERS):
        rows = [
            f"({n}, {draw.randint(1, CUSTOMERS)}, 'kind {n % 7}', '{prose(1000)}',"
            " '2025-06-01T12:00:00Z')"
            for n in range(1, REGISTER_ROWS + 1)
        ]
        statements.append(_insert(f"register_{number}", rows))
    return "".join(statements)


def _insert(table: str, rows: list[str]) -> str:
    return f"INSERT INTO {table} VALUES\n" + ",\n".join(rows) + ";\n"


def _tools() -> str:
    text = '"""Tools of the measured world."""\n\nfrom env_server.toolkit import READ, WRITE, Call, tool\n'
    for name, statement in TOOL_SQL.items():
        names = list(dict(CALLS)[name])
        text += _TOOL.format(
            access="READ" if statement.startswith("SELECT") else "WRITE",
            name=name,
            title=name.replace("_", " ").capitalize(),
            parameters=", ".join(f"{item}: {_TYPES.get(item, 'int')}" for item in names),
            sql=statement,
            arguments="{" + ", ".join(f'"{item}": {item}' for item in names) + "}",
        )
    return text


def _actions() -> str:
    lines = []
    for tool, arguments in CALLS:
        inner = ", ".join(f"{name}: {value}" for name, value in arguments.items())
        lines.append(f"    - {{tool: {tool}, arguments: {{{inner}}}}}")
    return "\n".join(lines)
