"""`payaccept report`: files for a merchant's bookkeeping."""

import os
import sys
from contextlib import suppress
from datetime import date, datetime
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from payaccept.cli.deployment import DatabaseUrlOption, DataDirOption, administer
from payaccept.cli.terminal import Failed, Mistake
from payaccept.domain.errors import DayIncomplete
from payaccept.domain.totals import DayMalformed, parse_day
from payaccept.wiring import Administration

app = typer.Typer(
    help="Write files for a merchant's bookkeeping.", no_args_is_help=True, rich_markup_mode=None
)


@app.callback()
def _group() -> None:
    """Keep the name of the one command, so that others can be added beside it."""


@app.command()
def reconciliation(
    client_id: Annotated[str, typer.Argument(metavar="CLIENT_ID")],
    day: Annotated[str, typer.Option("--day", metavar="YYYY-MM-DD", help="A day in UTC that is over.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Instead of standard output.")
    ] = None,
    so_far: Annotated[
        bool, typer.Option("--so-far", help="Also when the day is not complete yet: what there is.")
    ] = False,
    data_dir: DataDirOption = None,
    database_url: DatabaseUrlOption = None,
) -> None:
    """Write what a merchant captured on a day, as CSV.

    A row for each captured payment, then the totals. A day is complete 15 minutes after it ends, and its file is
    always the same from then on.
    """
    wanted = _day(day)

    async def write(administration: Administration, now: datetime, file: BinaryIO) -> None:
        merchant = await administration.merchants.get(client_id)
        async for lines in administration.reports.reconcile(merchant, wanted, now, so_far=so_far):
            file.write(lines)

    async def work(administration: Administration, now: datetime) -> None:
        if output is None:
            await write(administration, now, sys.stdout.buffer)
            sys.stdout.buffer.flush()
            return
        # Under another name until it is whole.
        unfinished = output.with_name(f".{output.name}.{os.getpid()}")
        try:
            with unfinished.open("xb") as file:
                await write(administration, now, file)
            unfinished.replace(output)
        finally:
            with suppress(FileNotFoundError):
                unfinished.unlink()

    try:
        administer(data_dir, database_url, work)
    except DayIncomplete:
        raise Failed(f"{day} is not complete yet: --so-far writes what there is") from None
    except OSError as error:
        raise Failed(f"{output}: {error.strerror or error}") from None


def _day(text: str) -> date:
    try:
        return parse_day(text)
    except DayMalformed:
        raise Mistake("--day takes a day like 2026-01-31") from None
