"""The README, followed to the letter: its commands run top to bottom on a real sandbox and print what it shows.

A comment above a code block says what is done with it; a block of `sh` without one is run in the terminal that a
newcomer types into.

    terminal 1      starts the sandbox; the one of this test stands in for it
    terminal N      runs beside the rest until the end
    file NAME       is saved
    ends with CODE  its last command ends with this exit code instead of 0
    needs COMMAND   is left out, with its output, where the command is not installed
    not run         is left alone
    output          is what the block before prints, apart from identifiers, times and ports;
                    a line `…` stands for any lines
    output of terminal N

All blocks become one bash script, so that variables last from one to the next.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from processes import Sandbox, environment, free_port, wait_until

README = Path(__file__).parents[2] / "README.md"
ROOT = README.parent
TIMEOUT_S = 120
_LISTENS_ON = {"terminal 2": "9000", "terminal 4": "9001"}
_FENCE = re.compile(
    r"(?:^<!-- (?P<mark>.*?) -->\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```\n", re.MULTILINE | re.DOTALL
)
_MARKS = re.compile(
    r"terminal \d|file [\w.-]+|ends with \d+|needs \w+|not run|output|output of terminal \d", re.ASCII
)
_DIFFERS = [
    (re.compile(pattern, re.ASCII), instead)
    for pattern, instead in (
        (r"\b(pay|acq|evt)_[0-9a-f]{36}", r"\1_ID"),
        (r"\bsandbox_[0-9a-f]{24}", "sandbox_ID"),
        (r"\bcli-\d{8}-\d{6}-[0-9a-f]{8}", "cli-ID"),
        (r"\border-\d{10}\b", "order-TIME"),
        (r"\b[0-9a-f]{64}\b", "FINGERPRINT"),
        (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "INSTANT"),
        (r"^\d\d:\d\d:\d\d\b", "CLOCK"),
        (r"127\.0\.0\.1:\d+", "HOST"),
        (r"^payaccept \d\S*: ", "payaccept VERSION: "),
        (r"\S*/sandbox/", "DATA/"),
        (r"(?<=@merchant\.example  )\S{20}$", "PASSWORD"),
    )
]


class Block(NamedTuple):
    """A code block, with the line it begins in and what the comment above it says."""

    line: int
    mark: str
    language: str
    text: str


def blocks() -> list[Block]:
    page = README.read_text(encoding="utf-8")
    return [
        Block(page.count("\n", 0, found.start()) + 1, found["mark"] or "", found["language"], found["text"])
        for found in _FENCE.finditer(page)
    ]


BLOCKS = blocks()


def is_left_out(block: Block) -> bool:
    """Whether it needs a command that is not there."""
    kind, _, command = block.mark.partition(" ")
    return kind == "needs" and shutil.which(command) is None


class Visit:
    """A newcomer's visit: ports of its own in the README's commands, a directory, and what was printed."""

    def __init__(self, sandbox: Sandbox, directory: Path) -> None:
        self.directory = directory
        self.sandbox = sandbox
        self._listen_port = str(free_port())
        self._ports = {"8080": str(sandbox.api_port), "9000": self._listen_port, "9001": str(free_port())}
        activate = directory / ".venv" / "bin" / "activate"
        activate.parent.mkdir(parents=True)
        activate.write_text(f"PATH='{Path(sys.executable).parent}':$PATH\n", encoding="utf-8")

    def follow(self) -> None:
        """Do everything that the README says."""
        self._save_files()
        script = self.directory / "readme.sh"
        script.write_text(self._script(), encoding="utf-8")
        process = subprocess.Popen(
            ["bash", script],
            cwd=self.directory,
            env=environment(PAYACCEPT_DATA_DIR=str(self.sandbox.data_dir), PYTHONWARNINGS="ignore"),
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # its background terminals are ended with it, as a group
        )
        try:
            assert process.wait(TIMEOUT_S) == 0
            wait_until(lambda: "order-1001" in self.printed("terminal 4"), "the last webhook")
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def printed(self, name: str | int) -> str:
        """What a terminal, or the block that begins in a line, has printed."""
        return (self.directory / f"{name}.out").read_text(encoding="utf-8")

    def exit_code(self, line: int) -> int:
        """How the block that begins in a line has ended."""
        return int((self.directory / f"{line}.code").read_text())

    def _script(self) -> str:
        return "\n".join(self._lines_for(block) for block in BLOCKS if block.language == "sh")

    def _lines_for(self, block: Block) -> str:
        text = self._on_our_ports(block.text)
        if block.mark in {"terminal 1", "not run"} or is_left_out(block):
            return ""
        if block.mark.startswith("terminal"):
            port = self._ports[_LISTENS_ON[block.mark]]
            is_open = f"(: </dev/tcp/127.0.0.1/{port}) 2>/dev/null"
            return f"(\n{text}) >'{block.mark}.out' 2>&1 &\nuntil {is_open}; do sleep 0.1; done"
        return f"{{\n{text}}} >{block.line}.out 2>&1\necho $? >{block.line}.code"

    def _on_our_ports(self, text: str) -> str:
        text = re.sub(r"\b(8080|9000|9001)\b", lambda found: self._ports[found[0]], text)
        return text.replace("payaccept listen", f"payaccept listen --port {self._listen_port}")

    def _save_files(self) -> None:
        """Save the programs that the README says to save."""
        for block in BLOCKS:
            kind, _, name = block.mark.partition(" ")
            if kind == "file":
                (self.directory / name).write_text(self._on_our_ports(block.text), encoding="utf-8")


@pytest.fixture(scope="module")
def visit() -> Iterator[Visit]:
    if None in map(shutil.which, ("bash", "curl", "openssl")):
        pytest.skip("bash, curl and openssl are needed to follow the README")
    made = Path(tempfile.mkdtemp(prefix="payaccept-readme-"))
    try:
        with pytest.MonkeyPatch.context() as patch:
            if os.environ.get("PYTHONDONTWRITEBYTECODE"):
                # A newcomer's Python compiles each module once, and not again for each of these commands.
                patch.delenv("PYTHONDONTWRITEBYTECODE")
                patch.setenv("PYTHONPYCACHEPREFIX", str(made / "pycache"))
            with Sandbox(made / "sandbox") as sandbox:
                newcomer = Visit(sandbox, made)
                newcomer.follow()
        yield newcomer
    finally:
        shutil.rmtree(made)


def comparable(text: str) -> list[str]:
    """The lines, with what differs from run to run taken out."""
    for pattern, instead in _DIFFERS:
        text = "\n".join(pattern.sub(instead, line.rstrip()) for line in text.splitlines())
    return text.splitlines()


def agrees(shown: str, printed: str) -> bool:
    """Whether the page shows what was printed; `…` on a line of its own stands for any lines."""
    pattern = "".join(r"(?:.*\n)*?" if line == "…" else re.escape(line) + r"\n" for line in comparable(shown))
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in comparable(printed))) is not None


def outputs() -> list[tuple[Block, Block]]:
    """Each block of output with the block that prints it."""
    by_terminal = {block.mark: block for block in BLOCKS if block.mark.startswith("terminal")}
    pairs = []
    for before, block in pairwise(BLOCKS):
        if block.mark == "output":
            pairs.append((before, block))
        elif block.mark.startswith("output of "):
            pairs.append((by_terminal[block.mark.removeprefix("output of ")], block))
    return pairs


def run_here() -> list[Block]:
    """The blocks that are run in the terminal that a newcomer types into."""
    return [
        block
        for block in BLOCKS
        if block.language == "sh" and not block.mark.startswith(("terminal", "not run"))
    ]


def test_every_block_is_one_we_know_what_to_do_with():
    assert BLOCKS
    for block in BLOCKS:
        assert not block.mark or _MARKS.fullmatch(block.mark), block
        assert block.mark or block.language == "sh", f"line {block.line}: what is this block for?"
    assert BLOCKS[0].mark == "terminal 1"


@pytest.mark.slow
@pytest.mark.parametrize("block", run_here(), ids=lambda block: f"line-{block.line}")
def test_the_commands_end_as_they_should(visit: Visit, block: Block):
    if is_left_out(block):
        pytest.skip(f"this block {block.mark}, which is not installed")
    expected = int(block.mark.removeprefix("ends with ")) if block.mark.startswith("ends with") else 0
    assert visit.exit_code(block.line) == expected, visit.printed(block.line)


@pytest.mark.slow
@pytest.mark.parametrize("pair", outputs(), ids=lambda pair: f"line-{pair[1].line}")
def test_the_output_is_as_shown(visit: Visit, pair: tuple[Block, Block]):
    command, output = pair
    if is_left_out(command):
        pytest.skip(f"the command {command.mark}, which is not installed")
    if command.mark == "terminal 1":
        printed = visit.sandbox.output.read_text(encoding="utf-8").partition("\n\n")[0]
        assert agrees(output.text.partition("\n\n")[0], printed), printed
        return
    printed = visit.printed(command.mark if command.mark.startswith("terminal") else command.line)
    if command.mark == "terminal 2":  # goes on after what the page shows
        printed = "\n".join(printed.splitlines()[: output.text.count("\n")])
    assert agrees(output.text, printed), printed


def test_links_lead_somewhere():
    page = README.read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)]+)\)", page):
        path, _, heading = link.partition("#")
        target = ROOT / path if path else README
        assert target.exists(), link
        if heading:
            titles = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert heading in {re.sub(r"[^a-z0-9 -]", "", t.lower()).replace(" ", "-") for t in titles}, link
