"""Figures: counted in a slab, summed over processes that live and have died, written for Prometheus."""

import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from payaccept.figures import catalogue
from payaccept.figures.exposition import Address, Exposition, Figures, read_address
from payaccept.figures.metric import Across, Kind, Layout, Metric
from payaccept.figures.slab import Slab, Slabs
from processes import free_port

SIZES = Metric(
    name="test_sizes", kind=Kind.HISTOGRAM, meaning="Sizes.", labels=(("of", ("a", "b")),), bounds=(1.0, 5.0)
)
LAYOUT = Layout(
    (
        Metric(
            name="test_calls_total",
            kind=Kind.COUNTER,
            meaning="Calls.",
            labels=(("path", ("/x", "/y")), ("code", ("A", "B"))),
        ),
        SIZES,
        Metric(name="test_open", kind=Kind.GAUGE, meaning="Open now."),
        Metric(name="test_heard_seconds", kind=Kind.GAUGE, meaning="Heard of.", across=Across.LEAST),
    )
)


def read(source) -> dict[tuple[str, ...], float]:
    """What Prometheus reads: samples by name and values of labels."""
    exposition = Exposition(Address("127.0.0.1", free_port()), Figures("test", LAYOUT, source))
    exposition.start()
    try:
        text = fetch(exposition)
    finally:
        exposition.close()
    return {
        (
            sample.name,
            *(value for name, value in sorted(sample.labels.items()) if name != "version"),
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def fetch(exposition: Exposition, path: str = "/metrics") -> str:
    answer = httpx.get(f"http://{exposition.address}{path}").raise_for_status()
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return answer.text


def test_what_is_counted_is_read_by_name_and_labels():
    slab = Slab(LAYOUT)
    slab.number("test_calls_total", "/x", "B").add()
    slab.number("test_calls_total", "/x", "B").add(2)
    slab.number("test_open").set(7)
    samples = read(slab)
    assert samples["test_calls_total", "B", "/x"] == 3
    assert samples["test_calls_total", "A", "/x"] == 0, "a series is there before it is counted"
    assert samples["test_open",] == 7
    assert samples["payaccept_processes",] == 1
    assert samples["payaccept_build_info", "test"] == 1


def test_a_histogram_holds_in_each_bucket_what_is_not_above_its_bound():
    slab = Slab(LAYOUT)
    for size in (0.5, 1, 1.5, 5, 5.1, 100):
        slab.histogram("test_sizes", "a").observe(size)
    samples = read(slab)
    assert [samples["test_sizes_bucket", bound, "a"] for bound in ("1.0", "5.0", "+Inf")] == [2, 4, 6]
    assert samples["test_sizes_count", "a"] == 6
    assert samples["test_sizes_sum", "a"] == pytest.approx(113.1)
    assert samples["test_sizes_count", "b"] == 0


def test_a_histogram_that_was_counted_elsewhere_is_taken_over():
    slab = Slab(LAYOUT)
    slab.histograms("test_sizes")["b"].set([3, 2, 1], 42)
    samples = read(slab)
    assert [samples["test_sizes_bucket", bound, "b"] for bound in ("1.0", "5.0", "+Inf")] == [3, 5, 6]
    assert samples["test_sizes_sum", "b"] == 42


def test_several_processes_are_summed_and_the_dead_stay_in_the_sums_but_for_their_gauges(tmp_path: Path):
    slabs = Slabs(LAYOUT, tmp_path)
    first, second = Slab(LAYOUT, tmp_path), Slab(LAYOUT, tmp_path)
    for slab, calls in ((first, 3), (second, 4)):
        slab.number("test_calls_total", "/y", "A").add(calls)
        slab.number("test_open").set(calls)
        slab.number("test_heard_seconds").set(100 * calls)
        slab.histogram("test_sizes", "a").observe(calls)
    before = read(slabs)
    assert (before["test_calls_total", "A", "/y"], before["test_open",]) == (7, 7)
    assert before["test_heard_seconds",] == 300
    assert (before["test_sizes_count", "a"], before["test_sizes_sum", "a"]) == (2, 7)
    assert before["payaccept_processes",] == 2

    first.close()
    for _ in range(2):
        after = read(slabs)
        assert (after["test_calls_total", "A", "/y"], after["test_open",]) == (7, 4)
        assert after["test_heard_seconds",] == 400
        assert (after["test_sizes_count", "a"], after["test_sizes_sum", "a"]) == (2, 7)
        assert after["payaccept_processes",] == 1
    assert len(list(tmp_path.iterdir())) == 1, "what is in the sums needs no file any more"
    second.close()
    assert read(slabs)["test_calls_total", "A", "/y"] == 7
    assert list(tmp_path.iterdir()) == []


_KILLED = """
import os, signal, sys
from pathlib import Path
from payaccept.figures import catalogue
from payaccept.figures.slab import Slab
Slab(catalogue.WORKER, Path(sys.argv[1])).number("payaccept_deliveries_died_total").add(5)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_that_is_killed_leaves_what_it_counted(tmp_path: Path):
    done = subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path)], check=False)
    assert done.returncode == -9
    reading = Slabs(catalogue.WORKER, tmp_path).read()
    assert reading.cells[catalogue.WORKER.start("payaccept_deliveries_died_total")] == 5
    assert reading.processes == 0


def test_a_process_of_another_version_is_left_out(tmp_path: Path):
    other = Layout((*LAYOUT.metrics, Metric(name="test_new_total", kind=Kind.COUNTER, meaning="New.")))
    Slab(other, tmp_path).number("test_calls_total", "/x", "A").add()
    own = Slab(LAYOUT, tmp_path)
    own.number("test_calls_total", "/x", "A").add()
    assert read(Slabs(LAYOUT, tmp_path))["test_calls_total", "A", "/x"] == 1


def test_without_a_place_for_its_file_a_process_counts_for_itself(tmp_path: Path, caplog):
    slab = Slab(LAYOUT, tmp_path / "missing")
    slab.number("test_open").set(1)
    assert read(slab)["test_open",] == 1
    assert "not in the figures" in caplog.text


def test_every_number_has_a_cell_of_its_own():
    cells = [cell for metric in LAYOUT.metrics for cell in LAYOUT.cells(metric)]
    assert len(cells) == len(set(cells)) == LAYOUT.size - 1


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9464", Address("127.0.0.1", 9464)),
        (" 0.0.0.0:1 ", Address("0.0.0.0", 1)),
        ("[::1]:65535", Address("::1", 65535)),
        ("metrics.example.com:80", Address("metrics.example.com", 80)),
    ],
)
def test_an_address_is_host_and_port(text, address):
    assert read_address(text) == address
    assert read_address(str(address)) == address


@pytest.mark.parametrize(
    "text", ["", "9464", ":9464", "::1:9464", "[::1]", "host:", "host:0", "host:65536", "host:٣"]
)
def test_anything_else_is_no_address(text):
    with pytest.raises(ValueError, match="must"):
        read_address(text)


@pytest.fixture
def exposition():
    served = Exposition(Address("127.0.0.1", free_port()), Figures("test", LAYOUT, Slab(LAYOUT)))
    served.start()
    yield served
    served.close()


@pytest.mark.parametrize("path", ["/", "/metric", "/metrics/x"])
def test_there_is_nothing_else_at_the_address(exposition, path):
    assert httpx.get(f"http://{exposition.address}{path}").status_code == 404


def test_prometheus_gets_the_format_it_asks_for(exposition):
    answer = httpx.get(
        f"http://{exposition.address}/metrics", headers={"Accept": "application/openmetrics-text"}
    )
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")


def test_readers_that_say_nothing_do_not_keep_others_out(exposition):
    silent = [socket.create_connection((exposition.address.host, exposition.address.port)) for _ in range(4)]
    try:
        assert "test_open" in fetch(exposition)
    finally:
        for connection in silent:
            connection.close()


def test_an_address_in_use_is_told(exposition):
    with pytest.raises(OSError, match="in use"):
        Exposition(exposition.address, Figures("test", LAYOUT, Slab(LAYOUT))).start()
