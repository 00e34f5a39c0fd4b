"""What a pipeline tells its broker, also after that was away."""

from __future__ import annotations

from contextlib import closing

from embermq.cli.api import Api
from embermq.testing import EmbeddedBroker
from pyspark_embermq.pipelines.heartbeat import Teller
from pyspark_embermq.pipelines.state import RUNNING, WAITING, State


def test_a_pipeline_reports_again_after_a_restart_of_the_broker() -> None:
    with EmbeddedBroker() as broker:
        api = Api(broker.http_url, "guest", "guest")
        teller = Teller(api.put, "/")

        def shown_after(state: str, rows: int) -> list[int]:
            teller.tell(State("orders", 1, state=state, rows=rows))
            teller.told_state = ""  # as when the interval is over
            with closing(Api(broker.http_url, "guest", "guest")) as reader:
                return [each["rows"] for each in reader.get("/api/pipelines")]

        assert shown_after(RUNNING, 1) == [1]
        broker.stop()
        for _ in range(3):
            teller.tell(State("orders", 1, state=WAITING))
            teller.told_state = ""
        broker.start()
        assert shown_after(RUNNING, 2) == [2]
        broker.restart()  # between two reports: only the connection is gone
        assert shown_after(RUNNING, 3) == [3]
        api.close()
