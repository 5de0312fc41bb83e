"""Knocks at the database of its DSN without any driver: does Postgres answer this account?"""

import os
import socket
import struct
from urllib.parse import parse_qs, urlsplit

from plain_mcp import serve

TOOLS = [("knock", "Ask Postgres whether it encrypts.", {"type": "object", "properties": {}})]


def call(name, arguments):
    places = parse_qs(urlsplit(os.environ["LEDGER_DSN"]).query)
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(places["host"][0] + "/.s.PGSQL." + places.get("port", ["5432"])[0])
        link.sendall(struct.pack("!ii", 8, 80877103))
        return link.recv(1).decode(), False


serve(TOOLS, call, "knock")
