"""The regions of AWS that lack what an environment needs, each with its source and date.

A test compares the regions of CloudFormation's resource types with those that cfn-lint has. The CDK
has the same, and refuses a region only if it is in the environment's file.

Lambda on ARM64 is missing here: AWS lists its regions only in the menu of a page of prices.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from embedding_kit.settings.base import rule_error


def _set(regions: str) -> frozenset[str]:
    return frozenset(regions.split())


#: The source of `KNOWN_REGIONS`, and of each feature that has a type.
CLOUDFORMATION = "CloudFormation's resource types in cfn-lint 1.58.0 of 2026-10-20"
#: The regions of that source. Of another one, nothing is known.
KNOWN_REGIONS = _set(
    """
    af-south-1 ap-east-1 ap-east-2 ap-northeast-1 ap-northeast-2 ap-northeast-3
    ap-south-1 ap-south-2 ap-southeast-1 ap-southeast-2 ap-southeast-3 ap-southeast-4
    ap-southeast-5 ap-southeast-6 ap-southeast-7 ca-central-1 ca-west-1 cn-north-1
    cn-northwest-1 eu-central-1 eu-central-2 eu-isoe-west-1 eu-north-1 eu-south-1
    eu-south-2 eu-west-1 eu-west-2 eu-west-3 eusc-de-east-1 il-central-1 me-central-1
    mx-central-1 sa-east-1 us-east-1 us-east-2 us-gov-east-1 us-gov-west-1 us-iso-east-1
    us-iso-west-1 us-isob-east-1 us-isob-west-1 us-isof-east-1 us-isof-south-1 us-west-1
    us-west-2
    """
)
#: Partitions that need accounts of their own; a message offers none of their regions.
_OTHER_PARTITIONS = ("cn-", "us-gov-", "us-iso", "eu-iso", "eusc-")


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature that AWS does not have in every region."""

    name: str
    #: The setting that can be left out instead; empty for what every environment needs.
    table: str
    #: The regions that certainly lack it.
    without: frozenset[str]
    source: str = CLOUDFORMATION
    #: Its resource type in CloudFormation; empty if the source is another one.
    type: str = ""
    #: Regions that have the type and lack the feature by another source, which may be out of date.
    doubtful: frozenset[str] = frozenset()
    denied_by: str = ""


URLS = Feature(
    "Lambda Function URLs",
    "",
    without=_set(
        """
        ap-east-2 ap-south-2 ap-southeast-4 ap-southeast-5 ap-southeast-6 ap-southeast-7
        ca-west-1 cn-northwest-1 eu-central-2 il-central-1 me-central-1 mx-central-1
        us-gov-east-1 us-gov-west-1
        """
    ),
    type="AWS::Lambda::Url",
    doubtful=frozenset({"eu-south-2"}),
    denied_by="https://docs.aws.amazon.com/lambda/latest/dg/urls-configuration.html, read "
    "2026-11-29",
)
VECTORS = Feature(
    "S3 Vectors",
    "[index]",
    without=frozenset({"il-central-1", "me-central-1"}),
    type="AWS::S3Vectors::Index",
)
BUDGETS = Feature(
    "CloudFormation's budgets",
    "[budget]",
    without=_set(
        """
        af-south-1 ap-east-1 ap-east-2 ap-northeast-3 ap-south-2 ap-southeast-3
        ap-southeast-4 ap-southeast-5 ap-southeast-6 ap-southeast-7 ca-west-1 eu-central-2
        eu-north-1 eu-south-1 eu-south-2 il-central-1 me-central-1 mx-central-1
        us-gov-east-1 us-gov-west-1
        """
    ),
    type="AWS::Budgets::Budget",
)
#: "All commercial Regions, except …": nothing is said of other partitions.
SNAPSTART = Feature(
    "SnapStart",
    '[cold_start] kind = "snapstart"',
    without=frozenset({"ap-east-2", "ap-southeast-6"}),
    source="https://docs.aws.amazon.com/lambda/latest/dg/snapstart.html, read 2026-11-29",
)
FEATURES = (URLS, VECTORS, BUDGETS, SNAPSTART)


def check_region(region: str, features: Iterable[Feature]) -> None:
    """Refuse a region that certainly lacks a feature; an unknown region passes."""
    features = tuple(features)
    missing = [feature for feature in features if region in feature.without]
    if not missing:
        return
    excluded = frozenset[str]().union(*(feature.without | feature.doubtful for feature in features))
    regions = ", ".join(
        name for name in sorted(KNOWN_REGIONS - excluded) if not name.startswith(_OTHER_PARTITIONS)
    )
    tables = [feature.table for feature in missing]
    lacks = " and ".join(
        feature.name + (f", which {feature.table} needs" if feature.table else "")
        for feature in missing
    )
    rule = f"{region} lacks {lacks}"
    if not all(tables):
        rule += "; without a Function URL, no part of the kit can be deployed"
    raise rule_error(
        f"{rule} ({', '.join(sorted({feature.source for feature in missing}))})",
        found=f"region = {region}",
        allowed=(f"no {' and no '.join(tables)}, or " if all(tables) else "") + regions,
    )


def region_notes(region: str, features: Iterable[Feature]) -> Iterator[str]:
    """Yield what is not certain of a region that is not refused."""
    for feature in features:
        if region in feature.doubtful:
            yield (
                f"{region} may lack {feature.name}: it does by {feature.denied_by}; it does not by "
                f'{feature.source}. If AWS refuses "{feature.type}", deploy to another region'
            )
    if region not in KNOWN_REGIONS:
        names = " and ".join(feature.name for feature in features)
        yield (
            f"whether {region} has {names} is not known here ({CLOUDFORMATION} does not have the "
            "region). If it does not, the deploy fails with AWS's reason"
        )
