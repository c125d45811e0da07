"""The alarms' thresholds, as set or derived."""

import pytest

from embedding_kit.settings import AlarmSettings, FunctionSettings
from embedding_kit.thresholds import derive_thresholds


@pytest.mark.parametrize(
    ("alarms", "p99", "maximum"),
    [
        ({}, 5000, 8000),
        ({"init_maximum": "3s"}, 3000, 3000),
        ({"init_maximum": "9s"}, 5000, 9000),
        ({"init_p99": "900ms"}, 900, 8000),
    ],
)
def test_the_slowest_hundredth_of_starts_is_never_allowed_more_than_the_slowest(
    alarms, p99, maximum
):
    """With `init_maximum` alone, `init_p99` follows it down."""
    thresholds = derive_thresholds(AlarmSettings.model_validate(alarms), FunctionSettings())
    assert (thresholds.init_p99, thresholds.init_maximum) == (p99, maximum)
