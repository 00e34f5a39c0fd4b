"""Queue templates: seen, set, deleted. Those of the configuration can be seen only."""

from __future__ import annotations

from embermq.broker.queue.template import Templates
from embermq.http.openapi.route_docs import describes
from embermq.http.openapi.schemas import TEMPLATE, TEMPLATE_BODY, listed
from embermq.http.server.request import Request, Response, not_found, table
from embermq.http.views.json_values import plain
from embermq.http.views.listing import COLUMNS, LIST, listing, single
from embermq.http.views.thing_name import clean
from embermq.http.views.views import View


def templates_of(request: Request) -> Templates:
    return request.context.broker.defaults.templates


def template_view(templates: Templates, name: str) -> View:
    arguments = templates.all()[name]
    return {"name": name, "arguments": plain(arguments), "configured": name in templates.configured}


@describes("Queue templates.", query=LIST, answer=listed(TEMPLATE))
async def all_templates(request: Request) -> Response:
    templates = templates_of(request)
    views = [template_view(templates, name) for name in sorted(templates.all())]
    return await listing(request, views, lambda view: view, lambda view: str(view["name"]))


def name_of(request: Request) -> str:
    name = request.names["name"]
    if name not in templates_of(request).all():
        raise not_found()
    return name


@describes("One queue template.", query=COLUMNS, answer=TEMPLATE)
def one_template(request: Request) -> Response:
    return single(request, template_view(templates_of(request), name_of(request)))


@describes("Set a queue template, for queues to come.", body=TEMPLATE_BODY, status=(201, 204))
def put_template(request: Request) -> Response:
    templates, name = templates_of(request), clean(request.names["name"])
    existed = name in templates.all()
    templates.set(name, table(request.json(), "arguments"))
    return Response(204 if existed else 201)


@describes("Delete a queue template; queues keep what they have.", status=204)
def delete_template(request: Request) -> Response:
    templates_of(request).delete(name_of(request))
    return Response(204)
