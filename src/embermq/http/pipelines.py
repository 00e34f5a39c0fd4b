"""Pipelines on Spark (docs/spark.md), as far as a broker knows of them.

A pipeline that runs puts its state into the runtime parameter `pipeline` of its name, every few seconds.
"""

from __future__ import annotations

from collections.abc import Iterator

from embermq.broker.vhost import VirtualHost
from embermq.http.exposition import Exposition, labelled
from embermq.http.metric_families import COUNTER, GAUGE

COMPONENT = "pipeline"

# name, the key in the pipeline's state, kind, about
NUMBERS = (
    ("embermq_pipeline_lag", "lag", GAUGE, "Messages that wait for a pipeline"),
    ("embermq_pipeline_rows_per_second", "rows_per_second", GAUGE, "Speed of a pipeline's last batch"),
    ("embermq_pipeline_rows_total", "rows", COUNTER, "Rows that a pipeline has done since it was started"),
    ("embermq_pipeline_batches_total", "batches", COUNTER, "Batches, likewise"),
    ("embermq_pipeline_updated_at_seconds", "updated_at", GAUGE, "When a pipeline was last heard of"),
)


def pipelines(vhosts: list[VirtualHost]) -> Iterator[tuple[str, dict[str, object]]]:
    """(labels, state) of each; what is no state is passed over: anybody may put anything into a parameter."""
    for vhost in vhosts:
        for (component, name), value in sorted(vhost.parameters.values.items(), key=lambda item: item[0]):
            if component == COMPONENT and isinstance(value, dict):
                yield labelled({"vhost": vhost.name, "pipeline": name}), value


def put_pipelines(out: Exposition, vhosts: list[VirtualHost]) -> None:
    ours = Exposition()
    known = list(pipelines(vhosts))
    if not known:
        return
    ours.family("embermq_pipeline_running", GAUGE, "1 while a pipeline runs, 0 when it has ended or failed")
    for labels, state in known:
        ours.sample("embermq_pipeline_running", int(state.get("state") == "running"), labels)
    for metric, key, kind, about in NUMBERS:
        ours.family(metric, kind, about)
        for labels, state in known:
            value = state.get(key)
            if isinstance(value, int | float) and not isinstance(value, bool):
                ours.sample(metric, value, labels)
    out.parts.extend(ours.parts)
