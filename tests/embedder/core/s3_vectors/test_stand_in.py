"""The stand-in for S3 Vectors, called by botocore: what the other tests rest on."""

from collections.abc import Iterator
from typing import Any

import botocore.exceptions
import botocore.session
import numpy as np
import pytest
from botocore.config import Config

from tests.fixtures.s3_vectors.indexes import Index
from tests.fixtures.s3_vectors.model import ShapeError, check, operation
from tests.fixtures.s3_vectors.server import CREDENTIALS, REGION, LocalS3Vectors


@pytest.fixture
def boto(s3_vectors: LocalS3Vectors) -> Iterator[Any]:
    """Return botocore's client, without its own checks of requests."""
    client = botocore.session.Session().create_client(
        "s3vectors",
        region_name=REGION,
        endpoint_url=s3_vectors.url,
        aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        config=Config(parameter_validation=False, retries={"total_max_attempts": 1}),
    )
    yield client
    client.close()


@pytest.fixture
def index(s3_vectors: LocalS3Vectors) -> Index:
    return s3_vectors.create("docs", 4, non_filterable=("text",))


def vector(key: str, *numbers: float, **metadata: Any) -> dict[str, Any]:
    return {"key": key, "data": {"float32": list(numbers)}, "metadata": metadata}


def test_botocore_creates_loads_tags_and_searches(boto: Any, s3_vectors: LocalS3Vectors) -> None:
    """Every operation of the stand-in works with botocore's own client."""
    arn = boto.create_index(
        vectorBucketName="vectors",
        indexName="new",
        dataType="float32",
        dimension=2,
        distanceMetric="cosine",
        metadataConfiguration={"nonFilterableMetadataKeys": ["text"]},
    )["indexArn"]
    assert boto.get_index(indexArn=arn)["index"]["dimension"] == 2
    boto.tag_resource(resourceArn=arn, tags={"space": "m@1/2"})
    assert boto.list_tags_for_resource(resourceArn=arn)["tags"] == {"space": "m@1/2"}
    boto.put_vectors(
        indexArn=arn,
        vectors=[vector("a", 1, 0, text="east"), vector("b", 0, 2, text="north", n=[1, 2])],
    )
    names = {"vectorBucketName": "vectors", "indexName": "new"}
    found = boto.query_vectors(
        **names,
        topK=2,
        queryVector={"float32": [3, 0]},
        returnDistance=True,
        returnMetadata=True,
    )
    assert found["distanceMetric"] == "cosine"
    assert [each["key"] for each in found["vectors"]] == ["a", "b"]
    assert [each["distance"] for each in found["vectors"]] == pytest.approx([0, 1])
    (filtered,) = boto.query_vectors(
        indexArn=arn, topK=2, queryVector={"float32": [3, 0]}, filter={"n": 2}
    )["vectors"]
    assert filtered == {"key": "b"}
    got = boto.get_vectors(indexArn=arn, keys=["b", "c", "b"], returnData=True)["vectors"]
    assert got == [{"key": "b", "data": {"float32": [0.0, 2.0]}}]
    boto.delete_vectors(indexArn=arn, keys=["b"])
    assert [v["key"] for v in boto.list_vectors(indexArn=arn)["vectors"]] == ["a"]


@pytest.mark.parametrize(
    ("name", "request_", "message"),
    [
        ("query_vectors", {"topK": 10_001, "queryVector": {"float32": [1] * 4}}, "at most 10000"),
        ("query_vectors", {"topK": 1, "queryVector": {"float32": [1] * 3}}, "4 dimensions"),
        ("query_vectors", {"topK": 1, "queryVector": {"float32": [0] * 4}}, "zeros"),
        ("query_vectors", {"topK": 1}, "must include queryVector"),
        (
            "query_vectors",
            {"topK": 1, "queryVector": {"float32": [1] * 4}, "filter": {"text": "a"}},
            "Invalid query filter",
        ),
        ("put_vectors", {"vectors": [vector(str(n), 1, 1, 1, 1) for n in range(501)]}, "to 500"),
        ("put_vectors", {"vectors": [vector("k" * 1025, 1, 1, 1, 1)]}, "to 1024"),
        ("put_vectors", {"vectors": [vector("k", 1, 1, 1, 1, a={"b": 1})]}, "metadata a must be"),
        ("put_vectors", {"vectors": [vector("k", 1, 1, 1, 1, a="x" * 2048)]}, "2048 filterable"),
        ("put_vectors", {"vectors": [vector("k", 1, 1, 1, 1, text="x" * 40960)]}, "40960 bytes"),
        ("get_vectors", {"keys": [str(number) for number in range(101)]}, "to 100"),
        ("list_vectors", {"maxResults": 1001}, "to 1000"),
    ],
)
def test_the_limits_of_aws_are_enforced(
    boto: Any, index: Index, name: str, request_: dict[str, Any], message: str
) -> None:
    """A request over a limit is a ValidationException."""
    with pytest.raises(botocore.exceptions.ClientError, match=message) as caught:
        getattr(boto, name)(indexArn=index.arn, **request_)
    assert caught.value.response["Error"]["Code"] == "ValidationException"
    assert index.vectors == {}


def test_the_results_are_exact_and_paginated(boto: Any, index: Index) -> None:
    """All pages together are the nearest vectors by numpy, best first."""
    random = np.random.default_rng(7)
    rows = random.standard_normal((1200, 4)).astype(np.float32)
    for start in (0, 400, 800):
        boto.put_vectors(
            indexArn=index.arn,
            vectors=[
                {"key": str(number), "data": {"float32": rows[number].tolist()}}
                for number in range(start, start + 400)
            ],
        )
    query = rows[5] + 0.1
    pages = boto.get_paginator("query_vectors").paginate(
        indexArn=index.arn, topK=1100, queryVector={"float32": query.tolist()}
    )
    keys = [int(each["key"]) for page in pages for each in page["vectors"]]
    cosines = rows @ query / np.linalg.norm(rows, axis=1)
    assert keys == np.argsort(-cosines, kind="stable")[:1100].tolist()


def test_an_unknown_index_is_not_found(boto: Any) -> None:
    """The error has AWS's name."""
    arn = f"arn:aws:s3vectors:{REGION}:123456789012:bucket/vectors/index/none"
    with pytest.raises(boto.exceptions.NotFoundException):
        boto.get_index(indexArn=arn)


def test_an_answer_that_the_model_does_not_allow_is_found() -> None:
    """The check of answers fails on a missing, an unknown and a wrong member."""
    shape = operation("POST", "/QueryVectors").output_shape
    check({"vectors": [{"key": "a", "distance": 0.5}], "distanceMetric": "cosine"}, shape)
    for answer, message in (
        ({"vectors": []}, "lacks distanceMetric"),
        ({"vectors": [], "distanceMetric": "dot"}, "must be one of"),
        ({"vectors": [{"key": 1}], "distanceMetric": "cosine"}, "must be a string"),
        ({"vectors": [], "distanceMetric": "cosine", "more": 1}, "unknown members: more"),
    ):
        with pytest.raises(ShapeError, match=message):
            check(answer, shape)
