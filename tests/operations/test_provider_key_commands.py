"""`payaccept provider-key`: on a terminal it explains and asks, in a script it does what it is told."""

import json
import os
import pty
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple

import pytest

from deployment import fetch_all
from payaccept.cli import main
from payaccept.domain.durations import in_words
from payaccept.wire import timestamps
from processes import PAYACCEPT, environment, one_line

MEMBERS = ["keyVersion", "status", "publicKeyPem", "createTime", "activateTime"]


class Ran(NamedTuple):
    """How a command went."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        assert self.err == ""
        return json.loads(self.out)

    @property
    def statuses(self) -> dict[int, str]:
        return {key["keyVersion"]: key["status"] for key in self.json}


Run = Callable[..., Ran]


@pytest.fixture
def url(fresh_database) -> str:
    return fresh_database()


@pytest.fixture
def environ(url, master_key_file) -> dict[str, str]:
    return {"PAYACCEPT_DATABASE_URL": url, "PAYACCEPT_MASTER_KEY_FILE": str(master_key_file), "NO_COLOR": "1"}


@pytest.fixture
def run(environ, monkeypatch, capsys) -> Run:
    """Run a command as a script does: nobody is at a terminal."""

    def run(*arguments: object, **changes: str) -> Ran:
        with monkeypatch.context() as patch, ThreadPoolExecutor(1) as thread:
            for name, value in (environ | changes).items():
                patch.setenv(name, value)
            # In a thread of its own, for it runs an event loop of its own.
            ended = thread.submit(main, ["provider-key", *map(str, arguments)]).exception()
        assert isinstance(ended, SystemExit)
        captured = capsys.readouterr()
        return Ran(int(ended.code or 0), captured.out, captured.err)

    return run


@pytest.fixture
def type_in(environ) -> Callable[..., Ran]:
    """Run a command on a terminal and type an answer when it asks. Returns all that is to be seen there."""

    def run(answer: str, *arguments: object) -> Ran:
        ours, theirs = pty.openpty()
        with subprocess.Popen(
            [*PAYACCEPT, "provider-key", *map(str, arguments)],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment(**environ),
        ) as process:
            os.close(theirs)
            seen = b""
            asked = False
            with suppress(OSError):  # the terminal's end, on Linux
                while piece := os.read(ours, 4096):
                    seen += piece
                    if b"[y/N]" in seen and not asked:
                        asked = True
                        os.write(ours, f"{answer}\n".encode())
            code = process.wait(60)
        os.close(ours)
        assert asked or not answer
        return Ran(code, seen.decode().replace("\r\n", "\n"), "")

    return run


def versions(url: str) -> list[int]:
    return [version for (version,) in fetch_all(url, "SELECT key_version FROM provider_keys ORDER BY 1")]


# In a script


def test_a_script_rotates_without_being_asked_and_reads_the_same_members_as_ever(run):
    new = run("rotate", "--json").json
    assert list(new) == MEMBERS
    assert (new["keyVersion"], new["status"]) == (2, "PUBLISHED")
    lead = timestamps.parse(new["activateTime"]) - timestamps.parse(new["createTime"])
    assert lead.total_seconds() == 3600
    old, listed = run("list", "--json").json
    assert listed == new
    assert list(old) == [*MEMBERS, "retireTime", "withdrawTime"]
    assert old["retireTime"] == new["activateTime"]
    kept = timestamps.parse(old["withdrawTime"]) - timestamps.parse(old["retireTime"])
    assert kept.total_seconds() == 1_090_220


def test_the_settings_and_the_option_say_how_long(run):
    changes = {"PAYACCEPT_PROVIDER_KEY_LEAD_S": "100", "PAYACCEPT_PROVIDER_KEY_KEEP_S": "1000"}
    assert run("rotate", "--json", "--lead", 0, **changes).json["status"] == "ACTIVE"
    old, new = run("list", "--json").json
    assert old["retireTime"] == new["activateTime"] == new["createTime"]
    kept = timestamps.parse(old["withdrawTime"]) - timestamps.parse(old["retireTime"])
    assert kept.total_seconds() == 1000


def test_without_a_terminal_the_words_say_what_comes_next_and_nothing_is_asked(run):
    done = run("rotate", "--lead", "600")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == "keyVersion 2 is published."
    assert lines[1].startswith("   1  ACTIVE     signs since ")
    assert lines[2].startswith("   2  PUBLISHED  signs from ")
    assert "Next, by itself:" in lines
    assert "in 10 min        keyVersion 2 signs, and no older one" in lines[-2]
    assert "in 12 d 15 h     keyVersion 1 is not published any more" in lines[-1]
    assert "provider-key withdraw 2" in done.err
    listed = run("list")
    assert listed.out.splitlines()[:2] == lines[1:3]


def test_a_second_rotation_is_refused_until_the_first_is_taken_back(run, url):
    run("rotate")
    refused = run("rotate")
    assert refused.code == 1
    assert "withdraw 2` takes it back" in one_line(refused.err)
    assert run("withdraw", 2, "--json").json["status"] == "WITHDRAWN"
    assert run("rotate", "--json").json["keyVersion"] == 3
    assert versions(url) == [1, 2, 3]


def test_the_key_that_signs_is_withdrawn_by_name_and_with_another_in_its_place(run):
    refused = run("withdraw", 1)
    assert refused.code == 1
    assert "--replace, and keyVersion 2 signs at once" in one_line(refused.err)
    gone = run("withdraw", 1, "--replace", "--json").json
    assert (gone["keyVersion"], gone["status"]) == (1, "WITHDRAWN")
    assert run("list", "--json").statuses == {1: "WITHDRAWN", 2: "ACTIVE"}
    shown = run("list").out.splitlines()
    assert shown[0].startswith("   1  WITHDRAWN  published until ")
    assert shown[1].startswith("   2  ACTIVE     signs since ")
    assert len(shown) == 2


@pytest.mark.parametrize(
    "arguments", [["withdraw", 7], ["withdraw", 0], ["withdraw"], ["rotate", "--lead", "-1"]]
)
def test_a_mistake_is_told_in_one_line(run, url, arguments):
    done = run(*arguments)
    assert done.code in {1, 2}
    one_line(done.err)
    assert done.out == ""
    assert versions(url) == [1]


def test_a_script_that_wants_no_json_is_warned_and_not_asked(run):
    done = run("withdraw", 1, "--replace")
    assert done.code == 0
    assert "What merchants see" in done.err
    assert "[y/N]" not in done.err
    assert done.out.startswith("keyVersion 1 is withdrawn.\n")


def test_the_master_key_is_needed_only_where_a_key_may_be_made(run):
    run("rotate", "--lead", "0")
    done = run("withdraw", 1, "--json", PAYACCEPT_MASTER_KEY_FILE="/no/such/file")
    assert done.json["status"] == "WITHDRAWN"
    refused = run("withdraw", 2, "--replace", PAYACCEPT_MASTER_KEY_FILE="/no/such/file")
    assert refused.code == 1
    assert "/no/such/file" in refused.err.splitlines()[-1]


# On a terminal


def test_on_a_terminal_the_plan_is_shown_and_nothing_happens_without_a_yes(type_in, url):
    seen = type_in("n", "rotate")
    assert seen.code == 1
    assert "keyVersion 2 will sign webhooks instead of keyVersion 1 (times in UTC):" in seen.out
    assert "2 is made and published; 1 goes on signing" in seen.out
    assert "2 signs, in 1 h; 1 stays published" in seen.out
    assert "1 is not published any more, 12 d 14 h later" in seen.out
    assert "it is good for 5 min" in " ".join(seen.out.split())
    assert "CAREFUL" not in seen.out
    assert seen.out.endswith("payaccept: nothing was changed\n")
    assert versions(url) == [1]


def test_a_yes_rotates_and_the_way_to_watch_it_is_told(type_in, url):
    seen = type_in("y", "rotate", "--lead", "10")
    assert seen.code == 0
    assert "CAREFUL: it signs before every copy of the list is renewed." in seen.out
    assert "keyVersion 2 is published.\n" in seen.out
    assert "payaccept provider-key list" in seen.out
    assert versions(url) == [1, 2]


@pytest.mark.parametrize("option", ["--yes", "--json"])
def test_whoever_says_yes_beforehand_is_not_asked(type_in, url, option):
    seen = type_in("", "rotate", option)
    assert seen.code == 0
    assert "[y/N]" not in seen.out
    assert versions(url) == [1, 2]


def test_what_cannot_be_done_is_refused_before_anybody_is_asked(type_in, url):
    seen = type_in("", "withdraw", 1)
    assert seen.code == 1
    assert "--replace" in seen.out
    assert "[y/N]" not in seen.out


def test_a_withdrawal_says_what_merchants_will_see(type_in, run):
    seen = type_in("n", "withdraw", 1, "--replace")
    words = " ".join(seen.out.split())
    assert "keyVersion 1 stops signing and leaves the published list now, for good." in words
    assert "keyVersion 2 signs at once." in words
    assert "has copied keyVersion 1 by hand refuses every webhook until keyVersion 2 is copied" in words
    assert "up to 5 min where copies are kept" in words
    assert run("list", "--json").statuses == {1: "ACTIVE"}

    run("rotate", "--lead", 0)
    words = " ".join(type_in("y", "withdraw", 1).out.split())
    assert "It signs nothing any more, and keyVersion 2 goes on signing." in words
    run("rotate")
    words = " ".join(type_in("y", "withdraw", 3).out.split())
    assert "keyVersion 2 goes on signing, and merchants notice nothing." in words
    assert run("list", "--json").statuses == {1: "WITHDRAWN", 2: "ACTIVE", 3: "WITHDRAWN"}


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (0.4, "0 s"), (59.6, "1 min"), (90, "1 min 30 s"), (3600, "1 h"), (1_090_220, "12 d 14 h")],
)
def test_a_length_of_time_is_told_by_its_two_largest_units(seconds, words):
    assert in_words(timedelta(seconds=seconds)) == words
