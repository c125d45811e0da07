"""The alarms of what an app has besides the endpoint, and its row of the dashboard."""

from collections.abc import Iterator
from dataclasses import replace

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from constructs import Construct

from embedding_kit.batch import EmbeddingBatch
from embedding_kit.fargate_service import EmbeddingService
from embedding_kit.front.rest_api import EmbeddingRestApi
from embedding_kit.index_loading import IndexLoading
from embedding_kit.ingestion import Ingestion
from embedding_kit.monitoring.alarm_definitions import AlarmDefinition, watched, with_warnings
from embedding_kit.monitoring.alarms import make_alarm
from embedding_kit.monitoring.front import front_alarms, front_widgets
from embedding_kit.monitoring.jobs import (
    batch_alarms,
    batch_widgets,
    ingest_alarms,
    ingest_widgets,
    load_alarms,
    load_widgets,
    search_alarms,
    search_widgets,
)
from embedding_kit.monitoring.server import server_alarms, server_widgets
from embedding_kit.search_watch import SearchWatch
from embedding_kit.settings import AlarmSettings, Watch

#: What has alarms and a row of the dashboard besides the endpoint.
Part = EmbeddingBatch | IndexLoading | Ingestion | SearchWatch | EmbeddingService | EmbeddingRestApi


class PartAlarms(Construct):
    """Alarms on batch jobs, loads of an index, documents, a watch, a server or a REST API.

    Each notifies a topic itself, without a composite alarm.

    Args:
        part: What the alarms are about.
        settings: The thresholds of a server and of a REST API, and the runbook. Default: those of
            `AlarmSettings`.
        topic: A topic that all alarms notify. Its key must let CloudWatch encrypt. Default: none.
        page_topic: Another topic for the alarm on failed requests of a server or of a REST API,
            also when it is over. Default: `topic`.
        watch: Whether there are only the essential alarms. Default: all of them.
        prefix: Begins the alarms' descriptions and the titles of documents' graphs, to tell two of
            a kind apart. Default: nothing.

    Attributes:
        alarms: Each alarm by its name.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        part: Part,
        settings: AlarmSettings | None = None,
        topic: sns.ITopic | None = None,
        page_topic: sns.ITopic | None = None,
        watch: Watch = "full",
        prefix: str = "",
    ) -> None:
        super().__init__(scope, id)
        settings = settings or AlarmSettings()
        definitions, self._title, self._graphs = _monitoring(part, settings, prefix)
        self.alarms: dict[str, cloudwatch.Alarm] = {}
        for definition in watched(with_warnings(definitions, settings.warning_percent), watch):
            named = replace(definition, condition=f"{prefix}{definition.condition}")
            alarm = make_alarm(self, named, settings.runbook_url)
            self.alarms[definition.name] = alarm
            if definition.page and page_topic:
                alarm.add_alarm_action(actions.SnsAction(page_topic))
                alarm.add_ok_action(actions.SnsAction(page_topic))
            elif topic:
                alarm.add_alarm_action(actions.SnsAction(topic))

    def widgets(self) -> list[cloudwatch.IWidget]:
        """Return the row of a dashboard, for its `add_widgets`."""
        if not self._title:
            return self._graphs
        alarms: list[cloudwatch.IAlarm] = [*self.alarms.values()]
        status = cloudwatch.AlarmStatusWidget(
            title=f"{self._title}: alarms", alarms=alarms, width=24, height=2
        )
        return [status, *self._graphs]


def _monitoring(
    part: Part, settings: AlarmSettings, prefix: str
) -> tuple[Iterator[AlarmDefinition], str, list[cloudwatch.IWidget]]:
    """Return the alarms, the title of their state on the dashboard, if it is shown, and graphs."""
    if isinstance(part, EmbeddingBatch):
        return batch_alarms(part), "Batch", batch_widgets(part)
    if isinstance(part, IndexLoading):
        return load_alarms(part), "", load_widgets(part)
    if isinstance(part, Ingestion):
        return ingest_alarms(part), f"{prefix}Documents", ingest_widgets(part, prefix)
    if isinstance(part, SearchWatch):
        return search_alarms(part), "Search", search_widgets(part)
    if isinstance(part, EmbeddingService):
        return server_alarms(part, settings), "Server", server_widgets(part)
    return front_alarms(part, settings), "API", front_widgets(part)
