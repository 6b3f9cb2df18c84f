"""`payaccept sandbox`: the whole service in one process tree, on a PostgreSQL of its own."""

import dataclasses
import os
import shlex
import shutil
import signal
import socket
import sys
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from msgspec.structs import replace

from payaccept import __version__
from payaccept.adapters.postgres.embedded import EmbeddedPostgres, EmbeddedPostgresError, default_data_dir
from payaccept.adapters.vault import VaultError, make_master_key
from payaccept.cli import demo_merchant, terminal
from payaccept.cli.deployment import MASTER_KEY, SANDBOX_KEY_LEAD_S
from payaccept.cli.merchant_options import FILE_NAME
from payaccept.cli.processes import GRACE_S, prepare_database
from payaccept.cli.terminal import Failed, Mistake
from payaccept.config import SettingInvalid, Settings, from_environ, read_setting
from payaccept.figures.exposition import PATH as METRICS_PATH
from payaccept.figures.exposition import Address
from payaccept.supervisor import (
    Child,
    DataDirectoryInUseError,
    Event,
    SingleInstance,
    Supervisor,
    SupervisorError,
    command,
)

LAYOUT: Final = 1  # of the data directory; a newer one is not touched
_TOLD: Final = frozenset({Event.EXITED, Event.RESTARTING, Event.FAILED, Event.KILLED})


def _sandbox_defaults(host: str, portal_port: int, api_port: int = 8080) -> Settings:
    """A local sandbox takes notifications on this very machine, and its callers are not strangers."""
    return Settings(
        allow_http=True,
        allow_private=True,
        failure_limit=60_000,
        provider_key_lead_s=SANDBOX_KEY_LEAD_S,
        web_base_url=f"http://{_for_url(host)}:{portal_port}",
        api_base_url=f"http://{_for_url(host)}:{api_port}",
    )


def sandbox(
    data_dir: Annotated[
        Path | None,
        typer.Option(
            "--data-dir", envvar="PAYACCEPT_DATA_DIR", metavar="DIR", help="Where everything is kept."
        ),
    ] = None,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    api_port: Annotated[int, typer.Option("--api-port", min=1, max=65535, help="Port of the API.")] = 8080,
    portal_port: Annotated[
        int, typer.Option("--portal-port", min=1, max=65535, help="Port of the web pages.")
    ] = 8081,
    api_workers: Annotated[
        int, typer.Option("--api-workers", min=1, help="Processes that serve the API.")
    ] = 1,
    settle_delay: Annotated[
        str | None,
        typer.Option("--settle-delay", metavar="SECONDS", help="After how long payments complete."),
    ] = None,
    order_expiry: Annotated[
        str | None,
        typer.Option("--order-expiry", metavar="SECONDS", help="After how long an unpaid order expires."),
    ] = None,
    retry_schedule: Annotated[
        str | None, typer.Option("--retry-schedule", metavar="S,S,…", help="When webhooks are sent again.")
    ] = None,
    webhook_timeout: Annotated[
        str | None,
        typer.Option("--webhook-timeout", metavar="SECONDS", help="What a receiver has to answer in."),
    ] = None,
    database_url: Annotated[
        str | None,
        typer.Option(
            "--database-url", envvar="PAYACCEPT_DATABASE_URL", metavar="URL", help="A PostgreSQL of yours."
        ),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            "--metrics-port", min=1, max=65534, help="Port of the API's figures; the worker's is the next."
        ),
    ] = None,
) -> None:
    """Run the whole service here, to try it out: API, worker and database, with a demo merchant."""
    given = {
        "PAYACCEPT_SETTLE_DELAY_S": settle_delay,
        "PAYACCEPT_ORDER_EXPIRY_S": order_expiry,
        "PAYACCEPT_RETRY_SCHEDULE_S": retry_schedule,
        "PAYACCEPT_WEBHOOK_TIMEOUT_S": webhook_timeout,
    }
    try:
        environ = os.environ | {name: text for name, text in given.items() if text is not None}
        for name, text in given.items():
            if text is not None:
                read_setting(name, text)
        settings = from_environ(environ, _sandbox_defaults(host, portal_port, api_port))
    except SettingInvalid as error:
        raise Mistake(str(error)) from None
    if metrics_port in {api_port, api_port - 1}:
        raise Mistake("--metrics-port and the next port must not be the API's")
    directory = (data_dir or default_data_dir()).absolute()
    _Sandbox(directory, settings, host, api_port, portal_port, api_workers, database_url, metrics_port).run()


class _Sandbox:
    """One run of the sandbox on one data directory."""

    def __init__(
        self,
        directory: Path,
        settings: Settings,
        host: str,
        api_port: int,
        portal_port: int,
        api_workers: int,
        url: str | None,
        metrics_port: int | None,
    ) -> None:
        self._directory = directory
        self._host = host
        self._api_port = api_port
        self._portal_port = portal_port
        self._api_workers = api_workers
        self._metrics_port = metrics_port
        self._url = url
        self._settings = settings
        self._base_url = f"http://{_for_url(host)}:{api_port}"
        self._portal_url = f"http://{_for_url(host)}:{portal_port}"

    def run(self) -> None:
        """Run until a signal; every failure to start is one line."""
        with ExitStack() as held:
            self._claim_directory(held)
            _require_free(self._host, self._api_port, "--api-port")
            for port in self._metrics_ports():
                _require_free(self._host, port, "--metrics-port")
            _require_free(self._host, self._portal_port, "--portal-port")
            embedded = None if self._url else EmbeddedPostgres(self._directory)
            if embedded is not None:
                held.callback(embedded.stop)
            try:
                url = self._url or (embedded.url() if embedded else "")
                self._settings = replace(
                    self._settings, database_url=url, master_key_file=self._directory / MASTER_KEY
                )
                make_master_key(self._directory / MASTER_KEY)
                Supervisor(self._children(embedded), self._tell).run(self._greet)
            except (EmbeddedPostgresError, SupervisorError, VaultError) as error:
                raise Failed(str(error)) from None
        terminal.say("Stopped.")

    def _claim_directory(self, held: ExitStack) -> None:
        try:
            held.enter_context(SingleInstance(self._directory))
            (self._directory / "logs").mkdir(mode=0o700, exist_ok=True)
            layout = self._directory / "layout"
            if not layout.exists():
                layout.write_text(f"{LAYOUT}\n")
            found = layout.read_text().strip()
        except DataDirectoryInUseError as error:
            raise Failed(str(error)) from None
        except OSError as error:
            raise Failed(f"the data directory {self._directory} cannot be used: {error.strerror}") from None
        if not found.isdecimal() or int(found) > LAYOUT:
            raise Failed(
                f"the data directory {self._directory} was made by a newer version of payaccept: upgrade payaccept"
            )

    def _children(self, embedded: EmbeddedPostgres | None) -> list[Child]:
        environ = {**os.environ, **self._settings.to_environ()}
        environ.pop("PAYACCEPT_METRICS", None)  # one address for both is one too few
        me = [sys.executable, "-m", "payaccept.cli"]
        logs = self._directory / "logs"
        children = []
        if embedded is not None:
            children.append(
                Child(
                    "database",
                    embedded.start,
                    embedded.is_ready,
                    ready_timeout_s=300,
                    stop_signals=(signal.SIGINT, signal.SIGQUIT),
                    stop_timeout_s=30,
                    log_path=embedded.log_path,
                )
            )
        api = [
            *me,
            "api",
            "--host",
            self._host,
            "--port",
            str(self._api_port),
            "--workers",
            str(self._api_workers),
        ]
        worker = [*me, "worker"]
        for child, port in zip((api, worker), self._metrics_ports(), strict=False):
            child += ["--metrics", str(Address(self._host, port))]
        children.append(
            command("worker", worker, env=environ, log_path=logs / "worker.log", stop_timeout_s=GRACE_S)
        )
        children.append(
            command(
                "api",
                api,
                env=environ,
                log_path=logs / "api.log",
                ready=lambda: _answers(f"{self._base_url}/readyz"),
                stop_timeout_s=GRACE_S + 2,
            )
        )
        portal = [*me, "portal", "--host", self._host, "--port", str(self._portal_port)]
        children.append(
            command(
                "portal",
                portal,
                env=environ,
                log_path=logs / "portal.log",
                ready=lambda: _answers(f"{self._portal_url}/readyz"),
                stop_timeout_s=GRACE_S + 2,
            )
        )
        children[-3] = self._prepared(children[-3])
        return children

    def _metrics_ports(self) -> tuple[int, ...]:
        """Return the ports of the API's and the worker's figures; none when nobody asked for them."""
        return () if self._metrics_port is None else (self._metrics_port, self._metrics_port + 1)

    def _prepared(self, worker: Child) -> Child:
        """Have the database migrated, and the demo merchant made, before the first process uses them."""
        done = False

        def start() -> Any:
            nonlocal done
            if not done:
                prepare_database(self._settings)
                demo_merchant.prepare(self._directory, self._settings, self._base_url)
                done = True
            return worker.start()

        return dataclasses.replace(worker, start=start)

    def _tell(self, name: str, event: Event, detail: str) -> None:
        if event in _TOLD:
            terminal.note(f"{name} {event}: {detail}")

    def _greet(self) -> None:
        demo = demo_merchant.tell(self._directory)
        terminal.heading(f"payaccept {__version__}: the sandbox is running.")
        terminal.rows(
            [
                ("portal", demo["portalUrl"]),
                ("sign in as", f"{demo['portalUser']}  {demo['portalPassword']}"),
                ("API", self._base_url),
                ("webhook keys", demo["webhookKeysUrl"]),
                ("OpenAPI", f"{self._base_url}/openapi.json"),
                *(
                    ("figures", f"http://{Address(_for_url(self._host).strip('[]'), port)}{METRICS_PATH}")
                    for port in self._metrics_ports()
                ),
                ("database", (self._url and "yours") or f"PostgreSQL in {self._directory / 'postgres'}"),
                ("logs", self._directory / "logs"),
                ("demo merchant", demo["clientId"]),
                ("its credentials", self._directory / FILE_NAME),
            ]
        )
        terminal.say()
        terminal.say("Take a payment, in another terminal:")
        terminal.say(f"  {_as_typed()} pay qr --wait{self._merchant_option()}")
        terminal.note("Ctrl-C stops everything; the data stays.")
        sys.stdout.flush()

    def _merchant_option(self) -> str:
        """Write what names the demo merchant, where the default does not."""
        if self._directory == default_data_dir():
            return ""
        return f" --merchant {shlex.quote(str(self._directory / FILE_NAME))}"


def _as_typed() -> str:
    """Write this command as another terminal finds it: by its path while it is not on PATH."""
    called = Path(sys.argv[0])
    if called.name != "payaccept" or shutil.which("payaccept"):
        return "payaccept"
    return shlex.quote(str(called))


def _for_url(host: str) -> str:
    """Write a host for a URL that this machine can open."""
    if host in {"0.0.0.0", ""}:  # noqa: S104 - compared, not bound
        return "127.0.0.1"
    if host == "::":
        return "[::1]"
    return f"[{host}]" if ":" in host else host


def _require_free(host: str, port: int, option: str) -> None:
    """Say at once, and plainly, when a port is taken."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
            probe.listen(1)
    except OSError as error:
        raise Failed(
            f"cannot listen on {host} port {port}: {error.strerror}; choose another {option}"
        ) from None


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=1) as answer:  # noqa: S310 - our own address
            return bool(answer.status == 200)  # noqa: PLR2004
    except (urllib.error.URLError, OSError):
        return False
