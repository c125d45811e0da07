"""A job's settings are checked, and its name follows from everything that its output depends on."""

from dataclasses import replace

import pytest

from jobs.embed.job import Job, Shard, job_id
from jobs.errors import BatchError

JOB = Job(source="docs", destination="vectors", metadata=("title",))
SHARD = Shard(number=0, key="a", size=9, etag="e", format="jsonl", start=0, stop=9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtype": "float64"}, "dtype must be one of float, int8, .*; found 'float64'"),
        ({"truncate": "end"}, "truncate must be one of refuse, right, left; found 'end'"),
        ({"max_rejected_percent": 101}, "from 0 to 100; found 101"),
        ({"shard_bytes": 0}, "shard_bytes must be at least 1; found 0"),
        ({"text": ""}, "text and query must name a field; found an empty name"),
        ({"metadata": ("a", "a")}, "metadata must name each field once.*; found a"),
        ({"metadata": ("embedding",)}, "none named id or embedding.*; found embedding"),
    ],
)
def test_a_wrong_setting_is_named(change, message):
    """The error names the setting, the allowed values and the one found."""
    with pytest.raises(BatchError, match=message):
        replace(JOB, **change)


@pytest.mark.parametrize(
    ("change", "is_same"),
    [
        ({"text": "body"}, False),
        ({"id": "id"}, False),
        ({"metadata": ()}, False),
        ({"dimensions": 8}, False),
        ({"dtype": "int8"}, False),
        ({"truncate": "right"}, False),
        ({"prompt": "query"}, False),
        ({"destination": "elsewhere"}, True),
        ({"max_rejected_percent": 50.0}, True),
        ({"shard_bytes": 9}, True),
    ],
)
def test_another_output_is_another_job(change, is_same):
    """Each setting that changes the output changes the job's name, and no other one does."""
    name = job_id(JOB, [SHARD], vector_space="space")
    assert (job_id(replace(JOB, **change), [SHARD], vector_space="space") == name) is is_same


def test_another_input_or_model_is_another_job():
    """A changed file, a further shard and another model change the job's name."""
    names = {
        job_id(JOB, [SHARD], vector_space="space"),
        job_id(JOB, [replace(SHARD, etag="f")], vector_space="space"),
        job_id(JOB, [SHARD, replace(SHARD, number=1)], vector_space="space"),
        job_id(JOB, [SHARD], vector_space="other"),
    }
    assert len(names) == 4
