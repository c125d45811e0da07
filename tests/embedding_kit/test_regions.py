"""Test which regions are refused, and the list of what each one lacks."""

import json
from pathlib import Path

import cfnlint
import cfnlint.version
import pytest

from embedding_kit.settings.regions import (
    BUDGETS,
    FEATURES,
    KNOWN_REGIONS,
    SNAPSTART,
    URLS,
    VECTORS,
    check_region,
    region_notes,
)

_SCHEMAS = Path(cfnlint.__file__).parent / "data" / "schemas" / "providers"
#: One file a region, with the types that it has; `sam` is none.
TYPES = {
    file.stem: set(json.loads(file.read_text()))
    for file in _SCHEMAS.glob("*.json")
    if file.stem != "sam"
}


def test_the_list_is_that_of_cloudformation():
    """A newer cfn-lint with other regions asks for another list, and for its own version there."""
    assert set(TYPES) == KNOWN_REGIONS
    lacking = {
        f.type: {r for r, has in TYPES.items() if f.type not in has} for f in FEATURES if f.type
    }
    assert lacking == {f.type: set(f.without) for f in FEATURES if f.type}
    doubtful = {region for feature in FEATURES for region in feature.doubtful}
    assert doubtful <= KNOWN_REGIONS
    assert f"cfn-lint {cfnlint.version.__version__}" in URLS.source


@pytest.mark.parametrize(
    ("region", "used", "expected"),
    [
        ("il-central-1", [URLS, VECTORS], ["Function URLs", "[index]", "no part of the kit can"]),
        ("us-gov-west-1", [URLS], ["us-gov-west-1 lacks", "no part of the kit can"]),
        (
            "eu-south-1",
            [URLS, BUDGETS],
            ["budgets, which [budget] needs", "allowed: no [budget], or "],
        ),
        (
            "ap-southeast-6",
            [SNAPSTART],
            ['no [cold_start] kind = "snapstart", or ', "snapstart.html"],
        ),
    ],
)
def test_a_region_without_a_needed_feature_is_refused(region, used, expected):
    """The line has the feature, what needs it, the source, and regions that have all features."""
    with pytest.raises(ValueError, match=f"found: region = {region}") as refused:
        check_region(region, used)
    text = str(refused.value)
    assert [words for words in expected if words not in text] == []
    offered = text.rpartition("allowed: ")[2].rpartition(", or ")[2].split(", ")
    assert "us-east-1" in offered
    assert not {name for name in offered if name.startswith(("cn-", "us-gov-", "us-iso"))}
    for name in offered:
        check_region(name, used)
        assert list(region_notes(name, used)) == []


def test_only_what_is_used_counts():
    """A budget, an index or SnapStart that an environment does not have refuses no region."""
    check_region("eu-north-1", [URLS, VECTORS, SNAPSTART])
    assert list(region_notes("eu-north-1", [URLS, VECTORS, SNAPSTART])) == []


def test_what_is_not_known_is_a_note_and_no_refusal():
    """A region that is new, or of which two sources disagree, is left to AWS."""
    check_region("xx-new-1", FEATURES)
    check_region("eu-south-2", [URLS])
    assert "is not known here" in "".join(region_notes("xx-new-1", [URLS]))
    (note,) = region_notes("eu-south-2", [URLS, VECTORS])
    assert "may lack Lambda Function URLs: it does by https://docs.aws" in note
