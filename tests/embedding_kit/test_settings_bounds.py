"""Test the bounds of each setting: the last value accepted, the first refused, the message.

The bounds are those of AWS or of the embedder. The tables repeat them, so that a test fails if one
changes by one.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import pytest
from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel

from embedding_kit.environment_file import EnvironmentFileError, load_environment
from embedding_kit.settings import (
    AlarmSettings,
    BatchSettings,
    Budget,
    Callers,
    FunctionSettings,
    Model,
    RepositorySettings,
    VectorIndexSettings,
)

#: Not in the catalog, so that an index may have any dimension.
MODEL = {"name": '"example/model"'}
ROLE = "arn:aws:iam::111122223333:role/search"
MEMORY = "a whole number from 128 to 10240"
PERCENT = "a number above 0 and below 100"
UP = "a whole number from 1 up"
MAP = "a whole number from 1 to 10000"
RATE = "a whole number from 250 to 2500"
SHARE = "a number from 0 to 100"
FOLDERS = 'input = "s3://documents"\noutput = "s3://vectors"'
NAME = "a catalog name such as google/embeddinggemma-300m"
TIMEOUT = "Lambda takes a timeout in whole seconds, up to 15 minutes"
SECONDS = "whole seconds, 1s to 15m"
INIT = "Lambda ends an on-demand start after 10s, so the alarm could never fire"
SILENCE = "the alarm counts requests in periods of 5 minutes, over a day at most"
STEPS = "5m to 1d, in steps of 5m"
ACCOUNT = "an account number of 12 digits, as text"
ORGANISATION = (
    "an organization's id such as o-a1b2c3d4e5; its units belong into organizational_units"
)
USER = "arn:aws:iam::111122223333:user/search"
UNIT = "o-a1b2c3d4e5/r-ab12/ou-ab12-11111111"
UNITS = f"an organizational unit's path, such as {UNIT}/ou-ab12-22222222"

#: Setting, a value at the bound, the next value past it, the rule if any, the values allowed.
#: Values are written as in the file; other settings that they need follow.
BOUNDS = [
    ("model.dimensions", "[1]", "[0]", "", "a whole number from 1 to 16384"),
    ("model.dimensions", "[16384]", "[16385]", "", "a whole number from 1 to 16384"),
    ("model.name", f'"{"x" * 128}"', f'"{"x" * 129}"', "", NAME),
    ("function.memory_mb", "128", "127", "", MEMORY),
    ("function.memory_mb", "10240", "10241", "", MEMORY),
    ("function.timeout", '"1s"', '"999ms"', TIMEOUT, SECONDS),
    ("function.timeout", '"2s"', '"1999ms"', TIMEOUT, SECONDS),
    ("function.timeout", '"15m"', '"901s"', TIMEOUT, SECONDS),
    ("function.ephemeral_storage_mb", "512", "511", "", "a whole number from 512 to 10240"),
    ("function.ephemeral_storage_mb", "10240", "10241", "", "a whole number from 512 to 10240"),
    ("function.reserved_concurrency", "1", "0", "", UP),
    ("function.account_concurrency", "1", "0", "", UP),
    ("function.account_memory_mb", "128\nmemory_mb = 128", "127\nmemory_mb = 128", "", MEMORY),
    ("function.account_memory_mb", "10240", "10241", "", MEMORY),
    ("function.max_characters", "1", "0", "", "a whole number from 1 to 6000000"),
    ("function.max_characters", "6000000", "6000001", "", "a whole number from 1 to 6000000"),
    ("function.cache_entries", "0", "-1", "", "a whole number from 0 to 1000000"),
    ("function.cache_entries", "1000000", "1000001", "", "a whole number from 0 to 1000000"),
    ("function.threads", "1", "0", "", "a whole number from 1 to 6"),
    ("function.threads", "6", "7", "", "a whole number from 1 to 6"),
    *(
        case
        for kind in ("error", "throttle", "concurrency", "provisioned", "memory")
        for case in (
            (f"alarms.{kind}_percent", "0.001", "0.0", "", PERCENT),
            (f"alarms.{kind}_percent", "99.999", "100.0", "", PERCENT),
        )
    ),
    ("batch.memory_mb", f"128\n{FOLDERS}", f"127\n{FOLDERS}", "", MEMORY),
    ("batch.memory_mb", f"10240\n{FOLDERS}", f"10241\n{FOLDERS}", "", MEMORY),
    ("batch.max_concurrency", f"1\n{FOLDERS}", f"0\n{FOLDERS}", "", MAP),
    ("batch.max_concurrency", f"500\n{FOLDERS}", f"10001\n{FOLDERS}", "", MAP),
    (
        "batch.reserved_concurrency",
        f"1\nmax_concurrency = 1\n{FOLDERS}",
        f"0\n{FOLDERS}",
        "",
        UP,
    ),
    ("batch.max_rejected_percent", f"0.0\n{FOLDERS}", f"-0.1\n{FOLDERS}", "", SHARE),
    ("batch.max_rejected_percent", f"100.0\n{FOLDERS}", f"100.1\n{FOLDERS}", "", SHARE),
    ("index.dimension", "1", "0", "", "a whole number from 1 to 4096"),
    ("index.dimension", "4096", "4097", "", "a whole number from 1 to 4096"),
    ("index.vectors_per_second", "250\ndimension = 1", "249", "", RATE),
    ("index.vectors_per_second", "2500\ndimension = 1", "2501", "", RATE),
    ("alarms.init_p99", '"9999ms"\ninit_max = "9999ms"', '"10s"', INIT, "less than 10s"),
    ("alarms.init_max", '"9999ms"', '"10s"', INIT, "less than 10s"),
    ("alarms.traffic_every", '"5m"', '"299999ms"', SILENCE, STEPS),
    ("alarms.traffic_every", '"10m"', '"601s"', SILENCE, STEPS),
    ("alarms.traffic_every", '"1d"', '"1445m"', SILENCE, STEPS),
    ("budget.monthly_usd", "1.0", "0.99", "", "a number from 1 to 1000000"),
    ("budget.monthly_usd", "1000000.0", "1000000.01", "", "a number from 1 to 1000000"),
    ("callers.accounts", f'["{"1" * 12}"]', f'["{"1" * 13}"]', "", ACCOUNT),
    ("callers.accounts", f'["{"1" * 12}"]', f'["{"1" * 11}"]', "", ACCOUNT),
    ("callers.organization", f'"o-{"a" * 10}"', f'"o-{"a" * 9}"', "", ORGANISATION),
    ("callers.organization", f'"o-{"a" * 32}"', f'"o-{"a" * 33}"', "", ORGANISATION),
    ("callers.roles", f'["{ROLE}"]', f'["{ROLE[:-7]}/"]', "", f"a role's ARN such as {ROLE}"),
    ("callers.users", f'["{USER}"]', f'["{ROLE}"]', "", f"a user's ARN such as {USER}"),
    ("callers.organizational_units", f'["{UNIT}"]', f'["{UNIT}/"]', "", UNITS),
    ("callers.organizational_units", f'["{UNIT}"]', '["o-a1b2c3d4e5/r-ab12"]', "", UNITS),
    ("callers.organizational_units", f'["{UNIT}"]', '["ou-ab12-11111111"]', "", UNITS),
]
#: The groups of settings in this file; releases and cold starts have separate files.
GROUPS: dict[str, Any] = {
    "model": Model,
    "function": FunctionSettings,
    "alarms": AlarmSettings,
    "batch": BatchSettings,
    "budget": Budget,
    "callers": Callers,
    "repository": RepositorySettings,
    "index": VectorIndexSettings,
}


def _load(folder: Path, setting: str, value: str) -> Any:
    group, key = setting.split(".")
    tables = {"model": dict(MODEL)}
    tables.setdefault(group, {})[key] = value
    text = "\n".join(
        f"[{name}]\n" + "\n".join(f"{key} = {value}" for key, value in table.items())
        for name, table in tables.items()
    )
    folder.mkdir(exist_ok=True)
    (folder / "test.toml").write_text(text)
    return getattr(getattr(load_environment("test", folder=folder), group), key)


@pytest.mark.parametrize("bound", BOUNDS, ids=lambda bound: f"{bound[0]}={bound[2]}"[:60])
def test_a_bound_is_where_it_is_said_to_be(tmp_path, bound):
    """The value at the bound is accepted; the next one is refused with the values allowed."""
    setting, at, past, rule, allowed = bound
    folder = tmp_path / "environments"
    assert _load(folder, setting, at) is not None
    with pytest.raises(EnvironmentFileError) as refused:
        _load(folder, setting, past)
    listed = "[0]" if past.startswith("[") else ""
    shown = past.split("\n")[0].strip("[]")
    found = shown.strip('"') if rule else shown
    found = found if len(found) <= 80 else f"{found[:80]}..."
    expected = f"environments/test.toml: {setting}{listed}: "
    expected += f"{rule}; found: {found}; " if rule else f"found: {found}; "
    assert str(refused.value) == expected + f"allowed: {allowed}"


def test_logs_are_kept_for_the_spans_that_cloudwatch_takes(tmp_path):
    """Exactly the values of PutRetentionPolicy are accepted."""
    # https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html
    spans = {1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827}
    spans |= {2192, 2557, 2922, 3288, 3653}
    near = {day + by for day in spans for by in (-1, 0, 1)}
    accepted = set()
    for days in near:
        try:
            _load(tmp_path / "environments", "function.log_retention_days", str(days))
            accepted.add(days)
        except EnvironmentFileError as error:
            assert "CloudWatch Logs keeps logs for certain spans only" in str(error)  # noqa: PT017
    assert accepted == spans


@pytest.mark.parametrize(
    ("concurrency", "accepted"), [(900, True), (901, False), (0, False), (1, True)]
)
def test_a_reservation_leaves_100_to_the_rest_of_the_account(concurrency, accepted):
    """A reservation may be up to 900: 1,000 minus the 100 that Lambda keeps unreserved."""
    if accepted:
        assert FunctionSettings(reserved_concurrency=concurrency).reserved_concurrency
    else:
        with pytest.raises(ValueError, match=r"1 to 900|greater than or equal to 1"):
            FunctionSettings(reserved_concurrency=concurrency)


def test_every_bound_of_a_number_is_tried():
    """Every numeric bound has a row in the table."""
    bounded = {
        f"{name}.{key}"
        for name, group in GROUPS.items()
        for key, field in group.model_fields.items()
        if any(_bounds([field.annotation, *field.metadata]))
    }
    assert bounded <= {setting for setting, *_ in BOUNDS}
    assert "function.memory_mb" in bounded


def _bounds(parts: list[Any]) -> Iterator[object]:
    for part in parts:
        if isinstance(part, (Ge, Gt, Le, Lt)):
            yield part
        elif hasattr(part, "metadata"):
            yield from _bounds(list(part.metadata))
        elif get_origin(part) is Annotated or (get_args(part) and part is not BaseModel):
            yield from _bounds([*get_args(part), *getattr(part, "__metadata__", ())])
