"""The tags of objects as metadata, with a request to S3 for each look at an object."""

from collections.abc import Collection

import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from jobs.errors import BatchError
from jobs.ingest.documents import RefusedDocumentError, digest
from jobs.storage import Folder, StoredObject, open_folder

#: Requests at a time: a reconciliation compares as many documents.
_CONNECTIONS = 32
_ATTEMPTS = 5


class TaggedFolder(Folder):
    """A folder of S3 in which the wanted tags of an object are user metadata, after its own.

    So their names are in lower case. A change of a wanted tag changes the object's version.
    """

    def __init__(self, url: str, *, wanted: Collection[str], region: str) -> None:
        opened = open_folder(url)
        super().__init__(opened._store, opened.name)
        self._wanted = {name.lower() for name in wanted}
        config = Config(
            retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
            max_pool_connections=_CONNECTIONS,
        )
        self._client = botocore.session.Session().create_client(
            "s3", region_name=region, config=config
        )

    def version(self, key: str) -> tuple[str, int] | None:
        """Return what changes with each write of an object or of a wanted tag, and its size."""
        found = super().version(key)
        tags = self._tags(key) if found else []
        return (f"{found[0]} {digest(tags)}", found[1]) if found and tags else found

    def read_object(self, key: str) -> StoredObject | None:
        """Read an object with its attributes and its wanted tags; None if it does not exist."""
        found = super().read_object(key)
        if found is None:
            return None
        tags = self._tags(key)
        named = {name.lower(): value for name, value in tags}
        if len(named) < len(tags):
            names = ", ".join(name for name, _ in tags)
            raise RefusedDocumentError(
                f"names of tags differ by more than their case; found {names}"
            )
        return found._replace(attributes={**named, **found.attributes})

    def _tags(self, key: str) -> list[tuple[str, str]]:
        """Return the wanted tags of an object in the order of their names."""
        bucket, _, prefix = self.name.removeprefix("s3://").partition("/")
        try:
            answer = self._client.get_object_tagging(
                Bucket=bucket, Key=f"{prefix}/{key}" if prefix else key
            )
        except (BotoCoreError, ClientError) as error:
            if isinstance(error, ClientError) and error.response["Error"]["Code"] == "NoSuchKey":
                return []
            raise BatchError(f"The tags of {self.name}/{key} cannot be read: {error}.") from error
        tags = [(tag["Key"], tag["Value"]) for tag in answer["TagSet"]]
        return sorted(tag for tag in tags if tag[0].lower() in self._wanted)
