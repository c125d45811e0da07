"""A load test by Locust: signed requests of one text. Cold starts have their own row."""

import logging
import random
from typing import Any

import httpx2
from locust import User, constant_throughput, task

from embedding_client import EmbeddingClient, RetryPolicy, SigV4Auth

WORDS = ("the", "of", "to", "and", "with", "search", "text", "document", "answer", "order")
#: The fewest and the most words of a text.
LENGTHS = (4, 200)

logging.getLogger("httpx2").setLevel(logging.WARNING)


class Caller(User):
    """Sends a text each second, or later if the answer before took longer."""

    wait_time = constant_throughput(1)
    # One for all users: it finds the credentials once. A domain of yours needs hosts=["..."];
    # a server, or API Gateway with keys, takes ApiKeyAuth("...").
    auth = SigV4Auth()
    certificates = httpx2.create_ssl_context()

    def on_start(self) -> None:
        """Make the user's client. A retry would hide a throttled request, so there is none."""
        hooks: dict[str, Any] = {"response": [self.note]}
        self.http = httpx2.Client(verify=self.certificates, timeout=60, event_hooks=hooks)
        self.client = EmbeddingClient(
            self.host, auth=self.auth, http_client=self.http, retries=RetryPolicy(attempts=1)
        )

    def on_stop(self) -> None:
        """Close the connections."""
        self.client.close()
        self.http.close()

    def note(self, response: httpx2.Response) -> None:
        """Add to the report of a request what the client does not return."""
        self.report["response_length"] = len(response.read())
        if "x-cold-start" in response.headers:
            self.report["name"] = "embed, cold start"

    @task
    def embed(self) -> None:
        """Embed a text. Locust measures the time, and counts an exception as a failure."""
        text = " ".join(random.choices(WORDS, k=random.randint(*LENGTHS)))  # noqa: S311
        with self.environment.events.request.measure("POST", "embed") as self.report:
            self.client.embed_one(text)
