"""`embermq pipeline new`: a directory with a pipeline, a test of it and a page that says how to run both."""

from __future__ import annotations

from pathlib import Path

from pyspark_embermq.errors import AMQPSourceError
from pyspark_embermq.pipelines.spec import NAME

PIPELINE = '''\
# A source, SQL and a sink. The broker and the user are those of the command line (--url, EMBERMQ_USER,
# EMBERMQ_PASSWORD). All options: docs/spark-options.md.
name = "{name}"
trigger = "10 seconds"
checkpoint = "checkpoint"  # where the query keeps its place: on a disk that stays

[source]
queue = "orders"
body = "json"
schema = "id int, total double"
onDecodeError = "null"  # a body that does not fit is a row of nulls

[transform]
sql = """
select to_json(struct(id, total)) as body
from source
where total > 100
"""

[sink]
routingKey = "large-orders"
'''

TEST = '''"""A test of the pipeline, on a broker and a Spark of its own: `pytest {directory}`."""

from dataclasses import replace
from pathlib import Path

from embermq.client import connect
from embermq.testing import EmbeddedBroker
from pyspark_embermq.pipelines import run, spec
from pyspark_embermq.pipelines.session import spark_session

HERE = Path(__file__).parent


def bodies_after_a_run(spark, url, checkpoint):
    pipeline = spec.load(HERE / "{name}.toml")
    source = replace(pipeline.source, options={{**pipeline.source.options, "url": url}})
    sink = replace(pipeline.sink, options={{**pipeline.sink.options, "url": url}})
    pipeline = replace(pipeline, source=source, sink=sink, checkpoint=str(checkpoint))
    with connect(url) as connection, connection.channel() as channel:
        channel.queue_declare("orders", durable=True)
        channel.queue_declare("large-orders", durable=True)
        channel.publish_batch([b'{{"id": 1, "total": 50}}', b'{{"id": 2, "total": 150}}', b"?"], "orders")
        run.start(spark, pipeline, once=True).awaitTermination()
        found = []
        while (message := channel.get("large-orders")) is not None:
            found.append(message.body)
            message.ack()
        return found


def test_{function}(tmp_path):
    with EmbeddedBroker() as broker:
        spark = spark_session("test")
        try:
            assert bodies_after_a_run(spark, broker.url, tmp_path) == [b'{{"id":2,"total":150.0}}']
        finally:
            spark.stop()
'''

README = """# {name}

Large orders, from the queue `orders` to the queue `large-orders`.

    pip install 'embermq[spark]' pytest
    embermq serve &                                # a broker, if there is none
    embermq queue declare orders && embermq queue declare large-orders
    pytest {directory}                             # on a broker of its own
    embermq pipeline run {directory}/{name}.toml    # until Ctrl-C
    embermq pipeline status {name}

Change `{name}.toml`: the source, the SQL, the sink. A new query goes on where the old one was; for another
source, take another `checkpoint`.
"""


def create(directory: Path) -> list[Path]:
    """The files of a new pipeline, called after its directory, which must not be there, or be empty."""
    name = directory.name
    if not NAME.fullmatch(name):
        raise AMQPSourceError(f"the pipeline would be called {name!r}; expected letters, digits, _ . and -")
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise AMQPSourceError(f"{directory} is there already")
    function = "".join(letter if letter.isalnum() else "_" for letter in name)
    words = {"name": name, "function": function, "directory": directory}
    files = {
        f"{name}.toml": PIPELINE.replace("{name}", name),
        f"test_{function}.py": TEST.format(**words),
        "README.md": README.format(**words),
    }
    directory.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        (directory / file).write_text(text)
    return [directory / file for file in files]
