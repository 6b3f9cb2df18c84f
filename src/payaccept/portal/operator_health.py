"""The operator's overview: whether all parts are there, what is left to do, how it has been going."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Final

from litestar import get
from litestar.di import NamedDependency
from litestar.params import QueryParameter
from msgspec import Struct

from payaccept.domain.health import KEPT_FOR, Figure, Process, Span
from payaccept.operations.health import HOUR, REACHES
from payaccept.portal.access import PortalRequest, staff
from payaccept.portal.health_charts import charts_of, quantiles_of, results_of, share_within
from payaccept.portal.key_views import ago
from payaccept.portal.navigation import OPERATOR
from payaccept.portal.rendering import Page, page
from payaccept.portal.services import Services
from payaccept.portal.webhook_views import duration

_KINDS: Final = (("api", "API"), ("worker", "Worker"), ("portal", "Portal"))
_PROMISE_S: Final = 0.25
"""Within which a notification is usually acknowledged."""


class PartRow(Struct, frozen=True, kw_only=True):
    """One kind of process: how many live, and how that is."""

    name: str
    living: int
    silent: int
    told: str
    kind: str


class Backlog(Struct, frozen=True, kw_only=True):
    """What is left to do: the worst of the last minute or two."""

    due: int
    leased: int
    waiting: int
    dead: int
    oldest_due: str
    is_late: bool


@get(OPERATOR, guards=[staff()])
async def show(
    request: PortalRequest,
    services: NamedDependency[Services],
    reach: Annotated[str, QueryParameter(max_length=8)] = HOUR.name,
) -> Page:
    """Show the deployment at a glance."""
    now = services.clock()
    chosen = REACHES.get(reach, HOUR)
    processes = await services.health.list_processes()
    spans = await services.health.list_spans(chosen, now)
    recent = spans if chosen is HOUR else await services.health.list_spans(HOUR, now)
    whole = spans[:-1]  # the present one is not over
    return page(
        request,
        "operator/health.html",
        reach=chosen,
        reaches=list(REACHES.values()),
        is_ready=await services.health.is_database_ready(),
        parts=[_part(name, [p for p in processes if p.kind == kind], now) for kind, name in _KINDS],
        processes=[(process, ago(process.seen_at, now)) for process in processes],
        versions={process.version for process in processes if not process.is_silent(now)},
        backlog=_backlog(recent[-2:]) if _lives(processes, "worker", now) else None,
        acknowledged=quantiles_of(spans, Figure.ACKNOWLEDGED),
        within=share_within(spans, Figure.ACKNOWLEDGED, _PROMISE_S),
        results=results_of(spans),
        charts=charts_of(whole, chosen.step_min),
        lanes=await services.events.list_failing_lanes(),
        kept_days=KEPT_FOR.days,
    )


def _lives(processes: Sequence[Process], kind: str, now: datetime) -> bool:
    return any(process.kind == kind and not process.is_silent(now) for process in processes)


def _part(name: str, processes: Sequence[Process], now: datetime) -> PartRow:
    silent = [process for process in processes if process.is_silent(now)]
    living = len(processes) - len(silent)
    if living and silent:
        told, kind = f"{len(silent)} silent", "warn"
    elif living:
        told, kind = "Running", "good"
    elif silent:
        told, kind = f"Silent since {ago(max(one.seen_at for one in silent), now)}", "bad"
    else:
        told, kind = "None has ever been here", "bad"
    return PartRow(name=name, living=living, silent=len(silent), told=told, kind=kind)


def _backlog(spans: Sequence[Span]) -> Backlog:
    def worst(figure: Figure, label: str) -> int:
        return max((span.of(figure, label) for span in spans), default=0)

    oldest = timedelta(milliseconds=worst(Figure.OLDEST_DUE, "closed"))
    return Backlog(
        due=worst(Figure.DELIVERIES, "due"),
        leased=worst(Figure.DELIVERIES, "leased"),
        waiting=worst(Figure.DELIVERIES, "waiting"),
        dead=worst(Figure.DELIVERIES, "dead"),
        oldest_due=duration(oldest),
        is_late=oldest >= timedelta(minutes=1),
    )


routes = (show,)
