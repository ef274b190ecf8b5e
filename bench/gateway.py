"""The gateway under change: `python -m bench.gateway [--routes 1000] [--changes 100] [--sockets 200]`.

Envoy as it is embedded, a web server that lets everybody pass, and one container behind all host names. Prints how
soon a new route is live, what route changes cost the requests and sockets under way, and how fast a taken access
ends one environment's sockets and no other's. Django's own part of a request is measured in the tests of ingress.
"""

import argparse
import asyncio
import contextlib
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Final

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from aistation.embedded.directories import socket_directory
from aistation.embedded.envoy import Envoy
from aistation.ingress import files
from aistation.ingress.routes import Names, Route
from aistation.ingress.routes import files as rendered

PORT: Final = 28_600
NAMES: Final = Names(portal=("localhost",), domain="localhost")
_END: Final = b"\r\n\r\n"
_OK: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Bench:
    """The published routes, and the questions that are asked through them."""

    def __init__(self, directory: Path, http_port: int, socket_port: int) -> None:
        self._directory = directory
        self._http_port = http_port
        self._socket_port = socket_port
        self._version = 0
        self.routes: dict[str, Route] = {}

    def add(self, uid: str, *, sockets: bool = False, generation: int = 0) -> None:
        self.routes[uid] = Route(uid, "127.0.0.1", self._socket_port if sockets else self._http_port, generation)

    def publish(self) -> None:
        self._version += 1
        files.replace(self._directory, rendered(self.routes.values(), NAMES), self._version)

    async def time_to_live(self, uid: str) -> float:
        """Seconds from the writing of a new route until it answers."""
        self.add(uid)
        begun = time.perf_counter()
        self.publish()
        while await status(uid) != 200:
            await asyncio.sleep(0.002)
        return time.perf_counter() - begun


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, reply: bytes = _OK) -> None:
    """A server of one answer."""
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            await reader.readuntil(_END)
            writer.write(reply)
            await writer.drain()
    writer.close()


async def web(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Lets everybody pass to where the host name says."""
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            asked = await reader.readuntil(_END)
            host = next(line for line in asked.split(b"\r\n") if line.lower().startswith(b"host:"))
            uid = host.split(b":", 1)[1].strip().partition(b".")[0]
            writer.write(_OK.replace(_END, b"\r\nX-AIStation-Environment: " + uid + _END, 1))
            await writer.drain()
    writer.close()


async def echo(peer: ServerConnection) -> None:
    with contextlib.suppress(ConnectionClosed):
        async for message in peer:
            await peer.send(message)


async def status(uid: str) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
    writer.write(f"GET / HTTP/1.1\r\nHost: {uid}.localhost\r\n\r\n".encode())
    try:
        line = await reader.readline()
        return int(line.split()[1]) if line else 0
    except ConnectionError:
        return 0
    finally:
        writer.close()


async def open_socket(uid: str) -> ClientConnection:
    return await connect(
        f"ws://{uid}.localhost/",
        host="127.0.0.1",
        port=PORT,
        proxy=None,
        open_timeout=60,
        ping_interval=None,
    )


@contextlib.asynccontextmanager
async def load(uid: str, clients: int) -> AsyncIterator[list[tuple[int, float]]]:
    """So many clients ask without a pause, half over one connection each: status and seconds of each request."""
    seen: list[tuple[int, float]] = []

    async def once() -> None:
        begun = time.perf_counter()
        seen.append((await status(uid), time.perf_counter() - begun))

    async def kept_alive() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
        while True:
            begun = time.perf_counter()
            writer.write(f"GET / HTTP/1.1\r\nHost: {uid}.localhost\r\n\r\n".encode())
            try:
                line = await reader.readline()
                code = int(line.split()[1]) if line else 0
                await reader.readuntil(_END)
                await reader.readexactly(2)
            except (ConnectionError, asyncio.IncompleteReadError):
                code = 0
            seen.append((code, time.perf_counter() - begun))
            if code == 0:
                reader, writer = await asyncio.open_connection("127.0.0.1", PORT)

    async def again(ask: Callable[[], Awaitable[None]]) -> None:
        while True:
            await ask()

    tasks = [asyncio.create_task(again(once) if number % 2 else kept_alive()) for number in range(clients)]
    try:
        yield seen
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def memory_mib(pid: int | None) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) // 1024


async def churn(bench: Bench, changes: int, sockets: int, pause_s: float) -> None:
    bench.add("env-load")
    for uid in ("env-talk", "env-lost"):
        bench.add(uid, sockets=True)
    bench.publish()
    while await status("env-load") != 200:
        await asyncio.sleep(0.05)
    await asyncio.sleep(1)
    talking = [await open_socket("env-talk") for _ in range(sockets)]
    lost = [await open_socket("env-lost") for _ in range(10)]
    async with load("env-load", 8) as seen:
        for change in range(changes):
            bench.add(f"env-new{change}")
            if change >= 10:
                del bench.routes[f"env-new{change - 10}"]
            bench.publish()
            await asyncio.sleep(pause_s)
    failed = sum(code != 200 for code, _ in seen)
    p50 = statistics.median(seconds for _, seconds in seen) * 1000
    print(f"{changes} route changes: {failed} of {len(seen)} requests failed, p50 {p50:.2f} ms with 8 clients")
    bench.add("env-lost", sockets=True, generation=1)
    begun = time.perf_counter()
    bench.publish()
    await asyncio.gather(*(peer.wait_closed() for peer in lost))
    print(f"access taken: its {len(lost)} sockets ended after {time.perf_counter() - begun:.2f} s")
    alive = 0
    for peer in talking:
        with contextlib.suppress(Exception):
            await peer.send("x")
            alive += await asyncio.wait_for(peer.recv(), 10) == "x"
    print(f"other sockets: {alive} of {sockets} still talk")
    await asyncio.gather(*(peer.close() for peer in talking))


async def main(chosen: argparse.Namespace, home: Path) -> None:
    web_socket = socket_directory(home / "socket") / "web.sock"
    envoy = Envoy(home / "gateway", port=PORT, web_socket=web_socket, secret="bench", log=home / "envoy.log")  # noqa: S106
    http = await asyncio.start_server(answer, "127.0.0.1", 0)
    portal = await asyncio.start_unix_server(web, str(web_socket))
    async with http, portal, serve(echo, "127.0.0.1", 0) as talker:
        ports = [server.sockets[0].getsockname()[1] for server in (http, talker)]
        bench = Bench(home / "gateway", *ports)
        for number in range(chosen.routes):
            bench.add(f"env-{number}")
        envoy.prepare()
        bench.publish()
        begun = time.perf_counter()
        envoy.child.spawn()
        try:
            while not envoy.child.is_ready():
                await asyncio.sleep(0.02)
            up_s = time.perf_counter() - begun
            print(f"{chosen.routes} routes: up after {up_s:.1f} s, {memory_mib(envoy.child.pid)} MiB")
            times = [await bench.time_to_live(f"env-extra{number}") for number in range(10)]
            p50, longest = statistics.median(times) * 1000, max(times) * 1000
            print(f"a new route is live after {p50:.0f} ms, at most {longest:.0f} ms")
            await churn(bench, chosen.changes, chosen.sockets, chosen.pause)
            print(f"memory at the end: {memory_mib(envoy.child.pid)} MiB")
        finally:
            envoy.child.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--routes", type=int, default=1000)
    parser.add_argument("--changes", type=int, default=100)
    parser.add_argument("--sockets", type=int, default=200)
    parser.add_argument("--pause", type=float, default=1.0, help="seconds between changes; a worker leaves about one")
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(parser.parse_args(), Path(directory)))
