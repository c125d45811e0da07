"""Test the settings of batches: folders in S3, keys, and the concurrency that callers keep."""

import pytest

from embedding_kit.settings import BatchSettings, FunctionSettings, Provisioned
from embedding_kit.settings.compatibility import check_batch

IN, OUT = "s3://documents/texts/", "s3://vectors"


def settings(**changes) -> BatchSettings:
    return BatchSettings(**{"input": IN, "output": OUT, **changes})


@pytest.mark.parametrize(
    ("url", "bucket", "prefix"),
    [
        ("s3://abc", "abc", ""),
        ("s3://my.bucket-1/", "my.bucket-1", ""),
        ("s3://abc/a", "abc", "a/"),
        ("s3://abc/a/b_c.d(1)!/", "abc", "a/b_c.d(1)!/"),
    ],
)
def test_a_folder_is_a_bucket_with_a_prefix(url, bucket, prefix):
    """The prefix of a folder ends with a slash, whether the URL does or not."""
    assert settings(input=url).source == (bucket, prefix)
    assert settings(output=url).destination == (bucket, prefix)


@pytest.mark.parametrize(
    ("batch", "function", "cold_start", "most"),
    [
        ("max_concurrency", FunctionSettings(), None, 500),
        ("max_concurrency", FunctionSettings(reserved_concurrency=100), None, 900),
        ("max_concurrency", FunctionSettings(account_concurrency=10), None, 5),
        ("reserved_concurrency", FunctionSettings(), None, 900),
        ("reserved_concurrency", FunctionSettings(reserved_concurrency=100), None, 800),
        ("reserved_concurrency", FunctionSettings(), Provisioned(maximum=50), 850),
    ],
)
def test_a_batch_leaves_concurrency_to_callers(batch, function, cold_start, most):
    """Callers keep half of the account's concurrency, or what is reserved for them."""

    def of(number: int) -> BatchSettings:
        return settings(**{"max_concurrency": 1, batch: number})

    check_batch(of(most), function, cold_start)
    with pytest.raises(ValueError, match=rf"batch\.{batch} = {most + 1}.*allowed: 1 to {most}"):
        check_batch(of(most + 1), function, cold_start)
