"""The supervisor over the real stores and gateway, with a web server of a few lines. Tests run it as a program.

`python -m tests.aistation.embedded.stand_in DIRECTORY PORT`
"""

import socket
import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer

from aistation.embedded import programs
from aistation.embedded.directories import DirectoryInUseError, DirectoryLock, socket_directory
from aistation.embedded.envoy import Envoy
from aistation.embedded.layout import Layout
from aistation.embedded.postgres import Postgres
from aistation.embedded.process import Child
from aistation.embedded.supervisor import Supervisor
from aistation.embedded.valkey import Valkey


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def address_string(self) -> str:
        return "unix"


class _Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True


def _say(message: str) -> None:
    sys.stdout.write(f"{message}\n")
    sys.stdout.flush()


def _serve(listener: socket.socket) -> None:
    server = _Server("unused", _Handler, bind_and_activate=False)
    server.socket = listener
    server.serve_forever()


def main(directory: Path, port: int) -> int:
    layout = Layout(directory)
    layout.create()
    lock = DirectoryLock(directory)
    try:
        lock.acquire()
    except DirectoryInUseError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    web_socket = socket_directory(directory / "socket") / "web.sock"
    postgres = Postgres(directory / "postgres", log=layout.log("postgres"), durable=False)
    valkey = Valkey(directory / "valkey", log=layout.log("valkey"))
    gateway = Envoy(directory / "gateway", port=port, web_socket=web_socket, secret="none", log=layout.log("gateway"))
    listener = programs.listen(web_socket)
    supervisor = Supervisor(layout.run, _say)
    try:
        postgres.prepare()
        gateway.prepare()
        supervisor.start(postgres.child, wave=0)
        supervisor.start(valkey.child, wave=0)
        supervisor.start(gateway.child, wave=1)
        web = Child("web", lambda: _serve(listener), log=layout.log("web"), keep_descriptors=(listener.fileno(),))
        supervisor.start(web, wave=1)
        for child in (postgres.child, valkey.child, gateway.child):
            supervisor.wait_for(child.name, child.is_ready, 60)
        postgres.create_database("stand_in")
        _say(f"urls {postgres.url('stand_in')} {valkey.url}")
        supervisor.run_until_stopped()
    finally:
        supervisor.stop_all()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
