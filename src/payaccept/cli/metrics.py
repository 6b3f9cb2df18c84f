"""`--metrics HOST:PORT` of the processes: their figures for Prometheus, on an address apart from the API's."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from payaccept.cli.terminal import Failed, Mistake
from payaccept.figures import catalogue
from payaccept.figures.exposition import Address, Exposition, Figures, read_address
from payaccept.figures.metric import Layout
from payaccept.figures.slab import Slabs, Source

DIRECTORY: Final = "PAYACCEPT_METRICS_DIR"

Option = Annotated[
    str | None,
    typer.Option(
        "--metrics", envvar="PAYACCEPT_METRICS", metavar="HOST:PORT", help="Address for Prometheus to read."
    ),
]


def address_of(text: str | None) -> Address | None:
    """Read the option. Raises: Mistake."""
    if not text:
        return None
    try:
        return read_address(text)
    except ValueError as error:
        raise Mistake(f"--metrics {error}") from None


@contextmanager
def served(address: Address | None, process: str, layout: Layout, source: Source) -> Iterator[None]:
    """Serve figures during the block; without an address do nothing. Raises: Failed."""
    if address is None:
        yield
        return
    exposition = Exposition(address, Figures(process, layout, source))
    try:
        exposition.start()
    except OSError as error:
        raise Failed(f"cannot listen on {address} for --metrics: {error.strerror}") from None
    try:
        yield
    finally:
        exposition.close()


@contextmanager
def served_for_api(address: Address | None) -> Iterator[None]:
    """Serve what the API's processes count, which this process starts during the block. Raises: Failed.

    They find the directory in their environment. It is a new one each time, so nothing is left in it of a
    previous start.
    """
    os.environ.pop(DIRECTORY, None)
    if address is None:
        yield
        return
    directory = tempfile.mkdtemp(prefix="payaccept-figures-")
    try:
        with served(address, "api", catalogue.API, Slabs(catalogue.API, Path(directory))):
            os.environ[DIRECTORY] = directory
            yield
    finally:
        shutil.rmtree(directory, ignore_errors=True)
