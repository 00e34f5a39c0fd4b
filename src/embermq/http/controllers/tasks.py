"""Background tasks on the messages of a queue: move, copy, delete, return dead letters."""

from __future__ import annotations

from embermq.broker.queue.queue import Queue
from embermq.broker.transfer import COPY, DELETE, MOVE, RETURN, RUNNING, Task
from embermq.broker.vhost import require_access
from embermq.http.controllers.messages import filter_of
from embermq.http.controllers.queues import NO_OWNER, queue_to
from embermq.http.openapi import schemas
from embermq.http.openapi.route_docs import describes
from embermq.http.server.auth import ADMINISTRATOR, may_enter, require_vhost, sees_everything
from embermq.http.server.request import (
    Request,
    Response,
    bad_request,
    integer,
    not_authorised,
    not_found,
    require_keys,
    text,
)
from embermq.http.views.listing import LIST, listing, single
from embermq.http.views.views import View

LIMIT_MAX = 2**53
TASK_DIGITS_MAX = 12


def task_view(task: Task) -> View:
    target = task.target
    return {
        "id": str(task.number),
        "kind": task.kind,
        "state": task.state,
        "reason": task.reason,
        "vhost": task.source.vhost.name,
        "source": task.source.name,
        "destination": None if target is None else target.name,
        "destination_vhost": None if target is None else target.vhost.name,
        "user": task.user.name,
        "limit": task.limit,
        "done": task.done,
        "skipped": task.skipped,
        "scanned": task.scanned,
        "total": task.total,
        "started_at": task.started_ms,
        "ended_at": task.ended_ms or None,
    }


def begin(request: Request, kind: str, source: Queue, target: Queue | None = None) -> Response:
    body = request.json()
    if not source.messages_leave and kind != COPY:
        raise bad_request("messages do not leave a stream; they can be copied")
    limit = integer(body, "limit", 1, LIMIT_MAX) if body.get("limit") is not None else None
    wanted = filter_of(body.get("filter") or {})
    task = request.context.broker.tasks.start(kind, source, request.user, target, wanted, limit)
    return Response.of(task_view(task), 202, (("location", f"/api/tasks/{task.number}"),))


def destination(request: Request, source: Queue) -> Queue:
    body = request.json()
    require_keys(body, "destination")
    name = text(body, "destination_vhost", source.vhost.name)
    require_vhost(request, name)
    vhost = request.context.broker.vhosts[name]
    target = vhost.queue(text(body, "destination"))  # says which one is missing
    if target is source:
        raise bad_request("the destination is the queue itself")
    request.user.require("write", vhost.name, "queue", target.name)
    require_access(target, NO_OWNER)
    return target


@describes("Move messages to another queue.", body=schemas.TRANSFER, answer=schemas.TASK, status=202)
def move(request: Request) -> Response:
    source = queue_to(request, "read")
    return begin(request, MOVE, source, destination(request, source))


@describes("Copy messages to another queue.", body=schemas.TRANSFER, answer=schemas.TASK, status=202)
def copy(request: Request) -> Response:
    source = queue_to(request, "read")
    return begin(request, COPY, source, destination(request, source))


@describes(
    "Return dead letters to the queues they died in.", body=schemas.CHOICE, answer=schemas.TASK, status=202
)
def return_dead_letters(request: Request) -> Response:
    return begin(request, RETURN, queue_to(request, "read"))


@describes("Delete messages that fit a filter.", body=schemas.CHOICE, answer=schemas.TASK, status=202)
def delete(request: Request) -> Response:
    return begin(request, DELETE, queue_to(request, "read"))


@describes(
    "Tasks that are under way, and the last that have ended.", query=LIST, answer=schemas.listed(schemas.TASK)
)
async def all_tasks(request: Request) -> Response:
    tasks = [task for task in request.context.broker.tasks.all() if may_see(request, task)]
    return await listing(request, tasks, task_view, lambda task: task.source.name)


def may_see(request: Request, task: Task) -> bool:
    return sees_everything(request.user) or may_enter(request.user, task.source.vhost.name)


def task_named(request: Request) -> Task:
    digits = request.names["task"]
    if not digits.isascii() or not digits.isdigit() or len(digits) > TASK_DIGITS_MAX:
        raise not_found()
    task = request.context.broker.tasks.get(int(digits))
    if task is None or not may_see(request, task):
        raise not_found()
    return task


@describes("How far a task is.", answer=schemas.TASK)
def one_task(request: Request) -> Response:
    return single(request, task_view(task_named(request)))


@describes("Cancel a task; what it has done stays done.", status=204)
def cancel_task(request: Request) -> Response:
    task = task_named(request)
    if ADMINISTRATOR not in request.user.tags and task.user.name != request.user.name:
        raise not_authorised("User not authorised to access object")
    if task.state == RUNNING:
        task.cancel()
    return Response(204)
