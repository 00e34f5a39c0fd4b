"""Spark pipelines (docs/spark-pipelines.md): their reports to the broker, and lists of them."""

from __future__ import annotations

from embermq.broker.vhost import VirtualHost
from embermq.http.controllers.exchanges import vhost_of
from embermq.http.controllers.overview import visible_vhosts
from embermq.http.metrics.exposition import Exposition, labelled
from embermq.http.metrics.families import COUNTER, GAUGE
from embermq.http.openapi import schemas
from embermq.http.openapi.route_docs import describes
from embermq.http.pipeline_registry import ALIVE, DIED, FAILED, PIPELINES_MAX, RUNNING, STATES, KnownPipelines
from embermq.http.server.request import Request, Response, bad_request, check_field, not_found, require_keys
from embermq.http.views.listing import COLUMNS, LIST, listing, single
from embermq.http.views.thing_name import clean
from embermq.http.views.views import View

TEXT_CHARACTERS_MAX = 1000

COUNTS = ("pid", "batches", "rows", "lag")
NUMBERS = ("rows_per_second", "started_at")
TEXTS = ("host", "source", "sink", "reason")
AMOUNT: schemas.Schema = {"type": "number", "minimum": 0}
QUEUES_MAX = 100
OF_QUEUES = ("lag", "lag_bytes", "arrived_per_second", "read_per_second", "redelivered")
QUEUES: schemas.Schema = {
    "type": "object",
    "maxProperties": QUEUES_MAX,
    "additionalProperties": {"type": "object", "additionalProperties": AMOUNT},
}
TOLD = schemas.fields(
    "state",
    state={"enum": list(STATES)},
    **dict.fromkeys(COUNTS, schemas.COUNT),
    **dict.fromkeys(NUMBERS, AMOUNT),
    **dict.fromkeys(TEXTS, schemas.TEXT),
    queues=QUEUES,
)
PIPELINE = schemas.fields(
    "name vhost state heard_at",
    **{
        **TOLD["properties"],
        "name": schemas.TEXT,
        "vhost": schemas.TEXT,
        "state": {"enum": [*STATES, DIED]},
        "heard_at": schemas.NUMBER,
    },
)

# name, the key in the pipeline's state, kind, about
OF_ALL = (
    ("embermq_pipeline_rows_total", "rows", COUNTER, "Rows that a pipeline has done since it was started"),
    ("embermq_pipeline_batches_total", "batches", COUNTER, "Batches, likewise"),
    ("embermq_pipeline_updated_at_seconds", "heard_at", GAUGE, "When a pipeline was last heard of"),
)
# Not known of a pipeline that has ended.
OF_RUNNING = (
    ("embermq_pipeline_lag", "lag", GAUGE, "Messages that wait for a pipeline"),
    ("embermq_pipeline_rows_per_second", "rows_per_second", GAUGE, "Speed of a pipeline's last batch"),
)
OF_EACH_QUEUE = (
    ("embermq_pipeline_queue_lag", "lag", GAUGE, "Messages of a queue that wait for a pipeline"),
    ("embermq_pipeline_queue_lag_bytes", "lag_bytes", GAUGE, "Their bytes, by the average of the queue"),
    ("embermq_pipeline_queue_read_per_second", "read_per_second", GAUGE, "Messages that it reads there"),
    ("embermq_pipeline_queue_redelivered_total", "redelivered", COUNTER, "Redelivered ones of these"),
)


def is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_amount(value: object) -> bool:
    return is_count(value) or (isinstance(value, float) and value >= 0)


def is_text(value: object) -> bool:
    return isinstance(value, str)


KINDS = ((COUNTS, is_count, "a count"), (NUMBERS, is_amount, "a number"), (TEXTS, is_text, "text"))


def told_in(body: View) -> View:
    """What a pipeline says of itself; a null says nothing."""
    require_keys(body, "state")
    if body["state"] not in STATES:
        raise bad_request(f"state must be one of {', '.join(STATES)}")
    told: View = {"state": body["state"]}
    for names, fits, kind in KINDS:
        for name in names:
            value = body.get(name)
            if value is None:
                continue
            if not fits(value):
                raise bad_request(f"{name} must be {kind}")
            check_field(name, value, 0)
            told[name] = value[:TEXT_CHARACTERS_MAX] if isinstance(value, str) else value
    queues = body.get("queues")
    if queues:
        told["queues"] = queues_in(queues)
    return told


def queues_in(queues: object) -> View:
    """Numbers by the name of a queue; what is not known here is left out."""
    if not isinstance(queues, dict) or len(queues) > QUEUES_MAX:
        raise bad_request(f"queues must be an object of at most {QUEUES_MAX} names")
    found: View = {}
    for name, numbers in queues.items():
        if not isinstance(numbers, dict) or not all(is_amount(value) for value in numbers.values()):
            raise bad_request("queues must have numbers for each name")
        check_field("queues", name, 0)
        found[name] = {key: numbers[key] for key in OF_QUEUES if key in numbers}
    return found


async def listed(request: Request, vhosts: list[VirtualHost]) -> Response:
    views = list(request.context.pipelines.views(vhosts))
    return await listing(request, views, lambda view: view, lambda view: str(view["name"]))


@describes("Pipelines that told the broker of themselves.", query=LIST, answer=schemas.listed(PIPELINE))
async def all_pipelines(request: Request) -> Response:
    return await listed(request, visible_vhosts(request))


@describes("Pipelines of a virtual host.", query=LIST, answer=schemas.listed(PIPELINE))
async def pipelines_in(request: Request) -> Response:
    return await listed(request, [vhost_of(request, to_see=True)])


def found(request: Request, *, to_see: bool = False) -> View:
    for view in request.context.pipelines.views([vhost_of(request, to_see=to_see)]):
        if view["name"] == request.names["name"]:
            return view
    raise not_found()


@describes("A pipeline.", query=COLUMNS, answer=PIPELINE)
def one_pipeline(request: Request) -> Response:
    return single(request, found(request, to_see=True))


@describes("Tell how a pipeline is.", body=TOLD, status=(201, 204))
def put_pipeline(request: Request) -> Response:
    vhost, told = vhost_of(request), told_in(request.json())
    known, name = request.context.pipelines, clean(request.names["name"])
    is_new = (vhost.name, name) not in known.heard
    if not known.tell(vhost.name, name, told):
        raise bad_request(f"there are {PIPELINES_MAX} pipelines already")
    return Response(201 if is_new else 204)


@describes("Forget a pipeline.", status=204)
def delete_pipeline(request: Request) -> Response:
    view = found(request)
    del request.context.pipelines.heard[str(view["vhost"]), str(view["name"])]
    return Response(204)


def put_pipelines(out: Exposition, pipelines: KnownPipelines, vhosts: list[VirtualHost]) -> None:
    ours = Exposition()
    known = [
        (labelled({"vhost": str(view["vhost"]), "pipeline": str(view["name"])}), view)
        for view in pipelines.views(vhosts)
    ]
    if not known:
        return
    ours.family("embermq_pipeline_running", GAUGE, "1 while a pipeline runs, 0 when it is over or waits")
    for labels, view in known:
        ours.sample("embermq_pipeline_running", int(view["state"] == RUNNING), labels)
    ours.family("embermq_pipeline_failed", GAUGE, "1 when a pipeline has failed or died")
    for labels, view in known:
        ours.sample("embermq_pipeline_failed", int(view["state"] in (FAILED, DIED)), labels)
    running = [(labels, view) for labels, view in known if view["state"] in ALIVE]
    for families, chosen in ((OF_ALL, known), (OF_RUNNING, running)):
        for metric, key, kind, about in families if chosen else ():
            ours.family(metric, kind, about)
            for labels, view in chosen:
                if view.get(key) is not None:
                    ours.sample(metric, view[key], labels)
    put_queues(ours, running)
    out.parts.extend(ours.parts)


def put_queues(out: Exposition, running: list[tuple[str, View]]) -> None:
    for metric, key, kind, about in OF_EACH_QUEUE:
        samples = [
            (view, queue, numbers[key])
            for _, view in running
            for queue, numbers in view.get("queues", {}).items()
            if key in numbers
        ]
        if samples:
            out.family(metric, kind, about)
        for view, queue, value in samples:
            names = {"vhost": str(view["vhost"]), "pipeline": str(view["name"]), "queue": queue}
            out.sample(metric, value, labelled(names))
