"""A load into moto's S3 Vectors, which knows neither our code nor our stand-in."""

import botocore.session
import pytest
from moto import mock_aws

from jobs.errors import BatchError
from tests.jobs.ingest.conftest import ROWS
from tests.jobs.ingest.test_run import SPACE, load

REGION = "eu-central-1"


@pytest.fixture
def client(monkeypatch):
    """Return a client of an account with a vector bucket."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        made = botocore.session.Session().create_client("s3vectors", region_name=REGION)
        made.create_vector_bucket(vectorBucketName="vectors-1")
        yield made


def make_index(client, dimension: int) -> str:
    client.create_index(
        vectorBucketName="vectors-1",
        indexName=f"docs-{dimension}",
        dataType="float32",
        dimension=dimension,
        distanceMetric="cosine",
        metadataConfiguration={"nonFilterableMetadataKeys": ["text"]},
    )
    index = client.get_index(vectorBucketName="vectors-1", indexName=f"docs-{dimension}")["index"]
    return str(index["indexArn"])


def test_moto_takes_the_vectors_and_the_tag(client, embed):
    """Vectors can be deleted by id, and a second load brings them back."""
    arn = make_index(client, 32)
    folder = embed()
    assert load(folder, index=arn).loaded == ROWS
    tags = client.list_tags_for_resource(resourceArn=arn)["tags"]
    assert tags == {"embedding-kit:vector-space": SPACE}
    read = {"indexArn": arn, "keys": ["d1", "d2"], "returnMetadata": True}
    found = {vector["key"]: vector for vector in client.get_vectors(**read)["vectors"]}
    assert found["d1"]["metadata"] == {"text": "text number 1", "lang": "de"}
    client.delete_vectors(indexArn=arn, keys=["d1"])
    assert [vector["key"] for vector in client.get_vectors(**read)["vectors"]] == ["d2"]
    load(folder, index=arn)
    assert len(client.get_vectors(**read)["vectors"]) == 2


def test_another_dimension_is_refused_before_moto_does(client, embed):
    """Nothing is recorded in the index."""
    arn = make_index(client, 64)
    with pytest.raises(BatchError, match="The index has 64 dimensions"):
        load(embed(), index=arn)
    assert client.list_tags_for_resource(resourceArn=arn)["tags"] == {}
