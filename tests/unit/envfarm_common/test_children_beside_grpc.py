"""Postgres, sandboxes and servers of worlds are started while gRPC calls run."""

import subprocess
import sys

PROGRAM = """
import asyncio, collections
import {first}
import grpc
import uvloop

async def main():
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{{port}}") as channel:
        call = channel.unary_unary("/none/such")

        async def calls():
            while True:
                try:
                    await call(b"")
                except grpc.aio.AioRpcError:
                    pass

        async def child():
            started = await asyncio.create_subprocess_exec("true", start_new_session=True)
            return await started.wait()

        busy = [asyncio.create_task(calls()) for _ in range(4)]
        ends = collections.Counter()
        for _ in range(25):
            ends.update(await asyncio.gather(*(child() for _ in range(8))))
        for task in busy:
            task.cancel()
    await server.stop(0)
    print(dict(ends))

uvloop.run(main())
"""


def ends(first: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(first=first)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env={"PATH": "/usr/bin:/bin"},
    )
    return done.stdout.strip()


def test_no_child_crashes_beside_running_calls():
    assert ends("envfarm.errors") == "{0: 200}"
