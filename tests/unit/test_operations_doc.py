"""The catalogue of figures, docs/operations.md, the alert rules and the dashboard say the same."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from payaccept.figures import catalogue
from payaccept.figures.exposition import BUILD_INFO, PROCESSES
from payaccept.figures.metric import Kind, Metric
from payaccept.wire.messages import REQUESTS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
RULES = yaml.safe_load((ROOT / "ops" / "prometheus" / "alerts.yaml").read_text(encoding="utf-8"))
PROMETHEUS = yaml.safe_load((ROOT / "ops" / "prometheus" / "prometheus.yaml").read_text(encoding="utf-8"))
DASHBOARD = json.loads((ROOT / "ops" / "grafana" / "payaccept.json").read_text(encoding="utf-8"))

METRICS = {metric.name: metric for layout in (catalogue.API, catalogue.WORKER) for metric in layout.metrics}
BY_READER = {
    BUILD_INFO: Metric(
        name=BUILD_INFO,
        kind=Kind.GAUGE,
        meaning="Which version runs, and what it is.",
        labels=(("version", ()), ("process", ("api", "worker"))),
    ),
    PROCESSES: Metric(
        name=PROCESSES,
        kind=Kind.GAUGE,
        meaning="Processes whose figures these are; killed ones stay in the totals.",
    ),
}
EXPOSED = {**METRICS, **BY_READER}
ALERTS = {rule["alert"]: rule for group in RULES["groups"] for rule in group["rules"]}
BY_PROMETHEUS = {"job", "instance"}
SAMPLE = re.compile(r"\b(payaccept_[a-z_]+)(?:\{([^}]*)\})?")
MATCHER = re.compile(r'([a-z_]+)(=~|!~|!=|=)"([^"]*)"')


def series() -> dict[str, Metric]:
    """The names that Prometheus knows, a histogram's three among them."""
    named = {}
    for name, metric in EXPOSED.items():
        if metric.kind is Kind.HISTOGRAM:
            named.update({name + suffix: metric for suffix in ("_bucket", "_count", "_sum")})
        else:
            named[name] = metric
    return named


SERIES = series()


def panels() -> Iterator[dict[str, Any]]:
    yield from DASHBOARD["panels"]


EXPRESSIONS = [
    *((f"alert {name}", rule["expr"]) for name, rule in ALERTS.items()),
    *(
        (f"panel {panel['title']}", target["expr"])
        for panel in panels()
        for target in panel.get("targets", [])
    ),
]


def test_the_names_are_those_prometheus_asks_for():
    for name, metric in EXPOSED.items():
        assert re.fullmatch(r"payaccept_[a-z_]+", name)
        assert name.endswith("_total") == (metric.kind is Kind.COUNTER)
        assert not name.endswith(("_bucket", "_count", "_sum"))
        assert metric.meaning.endswith(".")
        assert list(metric.bounds) == sorted(set(metric.bounds))


def test_what_both_kinds_of_process_count_is_the_same_figure():
    api = {metric.name: metric for metric in catalogue.API.metrics}
    worker = {metric.name: metric for metric in catalogue.WORKER.metrics}
    for name in api.keys() & worker.keys():
        assert api[name] == worker[name]


def test_every_figure_has_its_row_and_every_row_is_a_figure():
    rows = re.findall(r"^\| `(payaccept_\w+)` \| (\w+) \| (.+?) \| (.+?) \|$", TEXT, re.MULTILINE)
    told = {name: (kind, labels, meaning) for name, kind, labels, meaning in rows}
    assert len(told) == len(rows)
    assert told == {
        name: (metric.kind, ", ".join(f"`{label}`" for label in metric.label_names) or "—", metric.meaning)
        for name, metric in EXPOSED.items()
    }


def test_every_label_is_told_and_every_value_of_those_that_are_listed():
    section = TEXT.partition("What the labels say")[2].partition("## Alerts")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", section, re.MULTILINE))
    labels: dict[str, set[str]] = {}
    for metric in METRICS.values():
        for label, values in metric.labels:
            labels.setdefault(label, set()).update(values)
    assert rows.keys() == labels.keys()
    listed = {"method": labels["method"], "outcome": labels["outcome"], "state": labels["state"]}
    listed |= {"breaker": labels["breaker"], "operation": labels["operation"] - set(REQUESTS)}
    for label, values in listed.items():
        assert set(re.findall(r"`(\w+)`", rows[label])) == values


@pytest.mark.parametrize(("where", "expression"), EXPRESSIONS, ids=[where for where, _ in EXPRESSIONS])
def test_what_is_asked_for_exists_with_these_labels(where, expression):
    asked = SAMPLE.findall(expression)
    assert asked or expression.startswith(("sum(up", "absent(up"))
    for name, matchers in asked:
        assert name in SERIES, name
        labels = {label: set(values) for label, values in SERIES[name].labels}
        found = MATCHER.findall(matchers)
        assert MATCHER.sub("", matchers).strip(", ") == ""
        for label, operator, wanted in found:
            if label in BY_PROMETHEUS:
                continue
            for value in wanted.split("|") if operator in {"=~", "!~"} else [wanted]:
                assert value in labels[label], f"{name} has no {label} {value}"
    for grouped in re.findall(r"\bby \(([^)]*)\)", expression):
        known = {label for name, _ in asked for label in SERIES[name].label_names} | BY_PROMETHEUS | {"le"}
        assert set(re.split(r",\s*", grouped)) <= known


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_says_how_urgent_it_is_and_where_to_read_what_to_do(name):
    rule = ALERTS[name]
    assert rule["labels"]["severity"] in {"page", "ticket"}
    assert rule["annotations"]["summary"]
    where = re.match(r"docs/operations\.md, ([^.]+)\.", rule["annotations"]["runbook"])
    assert where is not None
    assert where[1] == name or f"\n## {where[1]}\n" in TEXT
    assert re.search(rf"^\| `{name}` \| {rule['labels']['severity']} \| .+ \|$", TEXT, re.MULTILINE)


def test_every_alert_that_is_told_is_a_rule():
    assert set(re.findall(r"^\| `(Payaccept\w+)` \|", TEXT, re.MULTILINE)) == set(ALERTS)


def test_the_jobs_are_those_that_the_rules_go_by():
    jobs = {config["job_name"] for config in PROMETHEUS["scrape_configs"]}
    assert jobs == {"payaccept-api", "payaccept-worker"}
    for _, expression in EXPRESSIONS:
        assert set(re.findall(r'job="([^"]*)"', expression)) <= jobs


def test_the_dashboards_panels_do_not_overlap():
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
    identifiers = [panel["id"] for panel in panels()]
    assert len(set(identifiers)) == len(identifiers)


def test_the_files_that_are_named_exist():
    for target in re.findall(r"\]\(([^)#]+)", TEXT):
        assert (ROOT / "docs" / target).exists(), target
