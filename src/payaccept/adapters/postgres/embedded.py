"""The embedded database: a real PostgreSQL 18, run as a child process from the programs of a wheel.

Only the wheel's programs are used. The server listens on a unix socket in a private directory and nowhere
else, keeps PostgreSQL's default durability, and ends when the process that started it ends.

PostgreSQL refuses to run as root, so root runs it as an unprivileged account. That account could not walk
through a closed parent directory (`/root`, a `mktemp -d`) and no directory is opened for it: root opens the
cluster and socket directories itself and names them to the server as `/proc/self/fd/N`. Linux follows such a
link straight to the open directory, and every backend inherits the descriptor.
"""

import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self
from urllib.parse import quote

import platformdirs
import psycopg

from payaccept.adapters.postgres.programs import (
    POSTGRES_MAJOR,
    EmbeddedPostgresError,
    account_for,
    name_for_server,
    open_directory,
    open_private,
    plainly,
    popen,
    program,
    programs_for,
    require_private,
)

__all__ = [
    "DATABASE",
    "EmbeddedPostgres",
    "EmbeddedPostgresError",
    "default_data_dir",
    "program",
    "socket_url",
]

DATABASE = "payaccept"
_SUPERUSER = "payaccept"
_PORT = 5432  # only the socket's name: nothing listens on TCP
_SOCKET_PATH_LIMIT = 100  # bytes; sun_path holds 108 on Linux, 104 on macOS, with the closing NUL
_TAKEOVER_S = 10.0  # how long the last processes of a killed server may take to go
_ALREADY_RUNNING_S = 2.0  # a server that still says "ready" after this long is not on its way out
_QUIT_S = 5.0
_LOG_LIMIT_BYTES = 16 * 1024 * 1024

_SETTINGS = {
    "listen_addresses": "",
    "port": str(_PORT),
    "unix_socket_permissions": "0600",
    "shared_buffers": "128MB",
    "max_connections": "100",
    "jit": "off",  # statements are short: compiling one costs more than running it
    "timezone": "UTC",
    "cluster_name": "payaccept",
    "logging_collector": "off",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] ",
    # Request bodies and keys stay out of the log: no parameters, and no DETAIL ("Failing row contains ...").
    "log_parameter_max_length_on_error": "0",
    "log_error_verbosity": "terse",
}


def default_data_dir() -> Path:
    """Where a sandbox keeps its data by default: /var/lib for root, else the user's data directory."""
    if os.geteuid() == 0:
        return Path("/var/lib/payaccept/sandbox")
    return Path(platformdirs.user_data_dir("payaccept", appauthor=False)) / "sandbox"


def socket_url(data_dir: Path, database: str = DATABASE) -> str:
    """URL, for psycopg or libpq, of the server that runs (or will run) on a data directory. Starts nothing.

    Raises: EmbeddedPostgresError when the socket's directory belongs to somebody else.
    """
    data_dir = data_dir.resolve()
    directory = _socket_directory(data_dir)
    with plainly(f"cannot look at {directory}"):
        if directory.exists():
            require_private(directory, directory.lstat(), _owners(data_dir))
    host = quote(str(directory), safe="")
    return f"postgresql://{_SUPERUSER}@/{quote(database, safe='')}?host={host}&port={_PORT}"


def _socket_directory(data_dir: Path) -> Path:
    """`run/` in the data directory, or a short private directory when a socket's path would not fit there."""
    directory = data_dir / "run"
    socket = directory / f".s.PGSQL.{_PORT}"
    # A comma separates hosts in libpq and directories in the server.
    if len(os.fsencode(socket)) <= _SOCKET_PATH_LIMIT and "," not in str(directory):
        return directory
    with plainly(f"cannot look at {data_dir}"):
        owner = data_dir.stat().st_uid if data_dir.exists() else os.geteuid()
    digest = hashlib.sha256(os.fsencode(data_dir) + b"\0" + str(owner).encode()).hexdigest()
    # Not tempfile.gettempdir(): every process must arrive at the same path, whatever its TMPDIR.
    return Path("/tmp") / f"payaccept-{owner}-{digest[:16]}"  # noqa: S108 - made 0700, its owner is checked


def _owners(data_dir: Path) -> set[int]:
    """Who may own the socket's directory: we, the data directory's owner, the account the server runs as."""
    paths = (data_dir, data_dir / "postgres")
    return {os.geteuid()} | {path.stat().st_uid for path in paths if path.exists()}


class EmbeddedPostgres:
    """One PostgreSQL server on one data directory, as a child of this process.

    Files: `postgres/` the cluster, `run/` the socket, `logs/postgres.log`, `postgres.lock`.
    Call `start` from a thread that lives as long as the server should: on Linux the server ends with it.
    Every method raises EmbeddedPostgresError with one clear line, and nothing else.
    """

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir.resolve()
        self.log_path = self.data_dir / "logs" / "postgres.log"
        self.process: subprocess.Popen[bytes] | None = None
        self._cluster = self.data_dir / "postgres"
        self._log_offset = 0
        self._database_exists = False

    def __enter__(self) -> Self:
        self.start()
        try:
            self.wait_ready()
        except EmbeddedPostgresError:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def url(self, database: str = DATABASE) -> str:
        """URL over the unix socket, the same as `socket_url(data_dir)`."""
        return socket_url(self.data_dir, database)

    def prepare(self) -> None:
        """Make the cluster unless it is there. A preparation that was killed is done anew."""
        with plainly(f"cannot use the data directory {self.data_dir}"), ExitStack() as opened:
            self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.log_path.parent.mkdir(mode=0o700, exist_ok=True)
            directory = open_directory(self.data_dir)
            opened.callback(os.close, directory)
            fcntl.flock(directory, fcntl.LOCK_EX)  # two preparations wait for each other
            if self._cluster.exists():
                self._require_our_version()
                return
            for unfinished in self.data_dir.glob("postgres.unfinished-*"):
                shutil.rmtree(unfinished, ignore_errors=True)
            building = Path(tempfile.mkdtemp(prefix="postgres.unfinished-", dir=self.data_dir))
            try:
                self._run_initdb(building)
                building.rename(self._cluster)
                os.fsync(directory)
            finally:
                shutil.rmtree(building, ignore_errors=True)

    def start(self) -> "subprocess.Popen[bytes]":
        """Start the server, preparing the cluster first, and return as soon as it holds the data directory.

        The last processes of a killed server are waited for, up to 10 s. Fails at once when it cannot run.
        """
        self.prepare()
        deadline = time.monotonic() + _TAKEOVER_S
        while True:
            with plainly(f"cannot start PostgreSQL on {self.data_dir}"):
                self.process = self._spawn()
                if self._holds_cluster(deadline):
                    return self.process
            complaint = self._last_complaint()
            # A killed server's shared memory and process number may be there a moment longer than its lock.
            passing = any(words in complaint for words in ("still in use", "already exists"))
            if not passing or time.monotonic() > deadline:
                raise EmbeddedPostgresError(f"PostgreSQL did not start: {complaint} (see {self.log_path})")
            time.sleep(0.1)

    def is_ready(self) -> bool:
        """Whether the server answers; the first time it does, the database is created if it is missing."""
        process = self.process
        if process is None or process.poll() is not None or self._postmaster() != (process.pid, "ready"):
            return False
        try:
            with psycopg.connect(self.url("postgres"), autocommit=True, connect_timeout=5) as connection:
                if not self._database_exists:
                    known = "SELECT 1 FROM pg_database WHERE datname = %s"
                    if connection.execute(known, [DATABASE]).fetchone() is None:
                        connection.execute(f"CREATE DATABASE {DATABASE}")
                    self._database_exists = True
        except psycopg.Error:
            return False
        return True

    def wait_ready(self, timeout_s: float = 60.0) -> None:
        """Wait until the server answers and the database exists; crash recovery takes its time here."""
        deadline = time.monotonic() + timeout_s
        while not self.is_ready():
            if self.process is None or self.process.poll() is not None:
                raise EmbeddedPostgresError(
                    f"PostgreSQL ended: {self._last_complaint()} (see {self.log_path})"
                )
            if time.monotonic() > deadline:
                raise EmbeddedPostgresError(
                    f"PostgreSQL is not ready after {timeout_s:g} s, see {self.log_path}"
                )
            time.sleep(0.01)

    def stop(self, timeout_s: float = 30.0) -> None:
        """Shut down in an orderly way; after `timeout_s` abruptly, which the next start recovers from."""
        process = self.process
        if process is None:
            return
        stages = ((signal.SIGINT, timeout_s), (signal.SIGQUIT, _QUIT_S), (signal.SIGKILL, _QUIT_S))
        for number, patience_s in stages:
            process.send_signal(number)  # sends nothing to a process that has ended
            with suppress(subprocess.TimeoutExpired):
                process.wait(patience_s)
                break
        self.process = None
        sockets = _socket_directory(self.data_dir)
        if sockets.parent != self.data_dir:
            with suppress(OSError):  # missing already, or not left empty by an abrupt end
                sockets.rmdir()

    def _require_our_version(self) -> None:
        try:
            version = (self._cluster / "PG_VERSION").read_text().strip()
        except FileNotFoundError:
            raise EmbeddedPostgresError(f"{self._cluster} holds no PostgreSQL cluster") from None
        if version != str(POSTGRES_MAJOR):
            raise EmbeddedPostgresError(
                f"{self.data_dir} was written by PostgreSQL {version}, this is PostgreSQL {POSTGRES_MAJOR}"
            )

    def _run_initdb(self, building: Path) -> None:
        account = account_for(self._cluster)
        descriptor = open_private(building, account)
        try:
            command = [
                str(programs_for(account) / "initdb"),
                f"--pgdata={name_for_server(building, descriptor, account)}",
                f"--username={_SUPERUSER}",
                "--auth=trust",  # whoever reaches the socket owns the data anyway
                "--encoding=UTF8",
                "--locale=C",
                "--locale-provider=builtin",
                "--builtin-locale=C.UTF-8",
                "--data-checksums",
                "--no-instructions",
            ]
            with self._open_log() as log:
                process = popen(command, account, log.fileno(), (descriptor,), signal.SIGTERM)
                try:
                    code = process.wait()
                finally:  # also when Ctrl-C came meanwhile
                    process.kill()
                    process.wait()
        finally:
            os.close(descriptor)
        if code:
            raise EmbeddedPostgresError(f"initdb failed: {self._last_complaint()} (see {self.log_path})")

    def _spawn(self) -> "subprocess.Popen[bytes]":
        account = account_for(self._cluster)
        run = _socket_directory(self.data_dir)
        with ExitStack() as opened:
            # Every process of the server inherits the lock, so it is free only when the last one is gone.
            lock = self._lock()
            opened.callback(os.close, lock)
            self._remove_stale_pid_files(run)
            cluster = open_private(self._cluster, account)
            opened.callback(os.close, cluster)
            sockets = open_private(run, account)
            opened.callback(os.close, sockets)
            socket_list = name_for_server(run, sockets, account).replace('"', '""')
            command = [
                str(programs_for(account) / "postgres"),
                "-D",
                name_for_server(self._cluster, cluster, account),
                "-c",
                f'unix_socket_directories="{socket_list}"',
            ]
            for name, value in _SETTINGS.items():
                command += ["-c", f"{name}={value}"]
            log = opened.enter_context(self._open_log())
            return popen(command, account, log.fileno(), (lock, cluster, sockets), signal.SIGINT)

    def _lock(self) -> int:
        descriptor = os.open(self.data_dir / "postgres.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        begun = time.monotonic()
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pid, status = self._postmaster()
                serving = status == "ready" and self._is_postmaster(pid)
                if time.monotonic() - begun > (_ALREADY_RUNNING_S if serving else _TAKEOVER_S):
                    os.close(descriptor)
                    message = f"a PostgreSQL is already running on {self.data_dir} (process {pid})"
                    raise EmbeddedPostgresError(message) from None
                time.sleep(0.02)
            else:
                return descriptor

    def _remove_stale_pid_files(self, sockets: Path) -> None:
        """Remove what a dead server left when its number lives on as a zombie or an unrelated process.

        PostgreSQL itself would take that process for the old server, and in containers numbers do repeat.
        Our lock is held, so no server that we started is alive; one started by hand is left its file.
        """
        (sockets / f".s.PGSQL.{_PORT}.lock").unlink(missing_ok=True)
        pid, _status = self._postmaster()
        if pid and not self._is_postmaster(pid):
            (self._cluster / "postmaster.pid").unlink(missing_ok=True)

    def _is_postmaster(self, pid: int) -> bool:
        """Whether a live process may be a server on this cluster: that is its working directory."""
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        try:
            return Path(f"/proc/{pid}/cwd").samefile(self._cluster)
        except (
            FileNotFoundError
        ):  # dead and not reaped yet; or no /proc (macOS): PostgreSQL decides by itself
            return not Path("/proc/self/cwd").exists()
        except OSError:  # not ours to see
            return True

    def _postmaster(self) -> tuple[int, str]:
        """Pid and status ("starting", "ready", "stopping"; "" when unknown) from the server's pid file."""
        try:
            lines = (self._cluster / "postmaster.pid").read_text().splitlines()
            pid = int(lines[0])
        except (OSError, ValueError, IndexError):
            return 0, ""
        status_line = 7
        return pid, lines[status_line].strip() if len(lines) > status_line else ""

    def _holds_cluster(self, deadline: float) -> bool:
        process = self.process
        while process is not None and process.poll() is None:
            pid, status = self._postmaster()
            if (pid == process.pid and status) or time.monotonic() > deadline:
                return True
            time.sleep(0.005)
        return False

    def _open_log(self) -> BinaryIO:
        """Open the log for appending, and remember where what is said from now on begins."""
        with suppress(FileNotFoundError):
            if self.log_path.stat().st_size > _LOG_LIMIT_BYTES:
                self.log_path.replace(self.log_path.with_suffix(".log.1"))
        descriptor = os.open(self.log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._log_offset = os.fstat(descriptor).st_size
        return os.fdopen(descriptor, "ab")

    def _last_complaint(self) -> str:
        try:
            with self.log_path.open("rb") as log:
                log.seek(self._log_offset)
                lines = log.read(64 * 1024).decode(errors="replace").splitlines()
        except OSError as error:
            return f"no log: {error.strerror}"
        lines = [line for line in lines if line.strip()] or ["it said nothing"]
        loud = [line for line in lines if any(word in line for word in ("FATAL", "PANIC", "error:"))]
        return (loud or lines)[-1].strip()
