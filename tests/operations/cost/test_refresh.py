"""Test the refresh against recorded files, in the format of AWS's price list.

The files in `price_list` have few rows of each kind: our lines in several tiers, and such that look
alike and must not be taken. Their prices are examples.
"""

import json
import math
import shutil
from datetime import date
from pathlib import Path
from unittest.mock import ANY

import httpx
import pytest

from embedding_kit.prices import FILE, load_prices, read_file
from operations.cost import CostError
from operations.cost.command import main
from operations.cost.refresh import format_prices, read_offer, refresh
from tools.cost import resources_of

RECORDED = Path(__file__).parent / "price_list"
PREFIX = "https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/"


class Aws:
    """AWS's public files for one region."""

    def __init__(self):
        self.failing = None

    def __call__(self, request):
        """Answer a request for one of the recorded files."""
        address = str(request.url)
        assert "authorization" not in request.headers
        assert address.startswith(PREFIX)
        offer, current, region, name = address.removeprefix(PREFIX).split("/")
        assert (current, region, name) == ("current", "eu-central-1", "index.csv")
        if offer == self.failing:
            return httpx.Response(503)
        return httpx.Response(200, content=(RECORDED / f"{offer}.csv").read_bytes())


@pytest.fixture
def aws():
    return Aws()


class Refresh:
    """Refreshes a copy of the price file."""

    def __init__(self, file, aws):
        self.file, self._aws = file, aws

    def __call__(self):
        """Return what is printed, and the new prices."""
        read_file.cache_clear()
        client = httpx.Client(transport=httpx.MockTransport(self._aws))
        lines = [*refresh("eu-central-1", file=self.file, client=client)]
        read_file.cache_clear()
        return lines, load_prices("eu-central-1", file=self.file)


@pytest.fixture
def run(aws, tmp_path):
    file = tmp_path / "prices.json"
    shutil.copy(FILE, file)
    return Refresh(file, aws)


def test_what_changed_is_printed(run):
    """Old and new price, new lines, and those that are unchanged."""
    lines, _ = run()
    assert "lambda_requests, US dollars per request: from 2e-07 to 2.4e-07" in lines
    assert "lambda_snapshot, US dollars per GB-second: from none to 1.8383e-06" in lines
    assert "2 prices are unchanged" in lines  # Lambda's duration, and t4g.small.
    assert not [line for line in lines if line.startswith(("lambda_duration", "ec2_t4g_small"))]


def test_the_file_has_the_new_prices(run):
    """With their tiers, the date of publication and their source, and of no other product.

    Windows, reserved, dedicated and spot capacity, local zones, and network load balancers are not
    taken.
    """
    _, prices = run()
    assert prices["lambda_requests"].usd == 0.00000024
    assert [(tier.end, tier.usd) for tier in prices["lambda_duration"].tiers] == [
        (7.5e9, 0.0000133334), (18.75e9, 0.0000120001), (math.inf, 0.0000106667),
    ]  # fmt: skip
    assert prices["lambda_duration"].date == date(2026, 12, 1)
    assert prices["lambda_duration"].source == "AWS price list, AWSLambda"
    assert prices["fargate_vcpu"].usd == 0.03725
    assert prices["key"].usd == 1.0
    assert prices["metric"].tiers[1].usd == 0.1
    assert prices["ec2_t4g_small"].usd == 0.0192
    assert prices["ec2_c7g_large"].usd == 0.0776
    assert prices["load_balancer_capacity"].usd == 0.008
    assert prices["alarm"].usd == 0.10
    assert prices["log_storage"].usd == 0.0324


def test_what_the_files_do_not_say_stays(run):
    """Several prices for one line, none, and lines that AWS's price list does not have."""
    lines, prices = run()
    assert "AmazonS3 has several prices, unchanged: storage_write" in lines
    assert prices["storage_write"] == load_prices()["storage_write"]
    by_hand = next(line for line in lines if line.startswith("not in AWS's price list"))
    assert {"dashboard", "managed_c7g_large"} < set(
        by_hand.partition("prices.json: ")[2].split(", ")
    )


def test_other_regions_stay_as_they_are(run):
    """Only one region's table is written."""
    before = json.loads(run.file.read_text())
    run()
    after = json.loads(run.file.read_text())
    assert after.pop("regions") == before.pop("regions") | {"eu-central-1": ANY}
    assert after == before


def test_a_second_refresh_changes_nothing(run):
    """All prices are unchanged, and the file too."""
    run()
    before = run.file.read_bytes()
    lines, prices = run()
    found = len(prices.lines) - len(prices.assumed)
    assert f"{found} prices are unchanged" in lines
    assert run.file.read_bytes() == before


def test_a_failure_changes_nothing_and_the_same_command_works_again(run, aws):
    """The file is written after all files are read."""
    before = run.file.read_bytes()
    aws.failing = "AmazonECS"
    with pytest.raises(CostError, match=r"AmazonECS in eu-central-1 cannot be read: .*503"):
        run()
    assert run.file.read_bytes() == before
    aws.failing = None
    run()
    assert run.file.read_bytes() != before


def test_what_is_no_price_list_is_an_error(run):
    """Such as a page that a proxy sends, or no network; nothing was changed."""

    def refuse(request):
        raise httpx.ConnectError("no route to host")

    page = httpx.Response(200, content=b"<html>Please sign in</html>")
    for answer, message in (
        (lambda _: page, "found: no price list file of AWSELB"),
        (refuse, "no route to host; nothing was changed"),
    ):
        client = httpx.Client(transport=httpx.MockTransport(answer))
        with pytest.raises(CostError, match=message):
            [*refresh("eu-central-1", file=run.file, client=client)]


def test_us_east_1_has_usage_types_with_and_without_a_prefix():
    """And a free tier of zero dollars is not a price."""
    heading = (RECORDED / "AWSLambda.csv").read_text().splitlines()[:6]
    row = (
        '"S{0}","T","R","OnDemand","","2026-12-01","{1}","{2}","Requests","{3}","USD","","","","",'
        '"","","{4}","","us-east-1",""'
    )
    rows = [
        row.format(1, "0", "1000000", "0", "Request-ARM"),
        row.format(1, "1000000", "Inf", "0.0000002", "Request-ARM"),
        row.format(2, "0", "Inf", "0.00001", "USE1-Lambda-SnapStart-Restored-GB"),
        row.format(3, "0", "Inf", "0.9", "Global-Lambda-SnapStart-Cached-GB-S"),
    ]
    lines = {
        name: line
        for name, line in read_file()["lines"].items()
        if line.get("offer") == "AWSLambda"
    }
    found = read_offer([*heading, *rows], offer="AWSLambda", region="us-east-1", lines=lines)
    assert {name: [entry["usd"] for entry in entries] for name, entries in found.items()} == {
        "lambda_requests": [0.0000002],
        "lambda_restore": [0.00001],
    }


def test_the_file_is_as_the_refresh_writes_it():
    """So that a refresh changes only the lines of prices that changed."""
    text = FILE.read_text(encoding="utf-8")
    assert format_prices(json.loads(text)) == text


@pytest.mark.parametrize(
    ("environment", "region"), [("frankfurt", "eu-central-1"), ("dev", "us-east-1")]
)
def test_the_command_refreshes(monkeypatch, capsys, environments, environment, region):
    """The region of the environment, else us-east-1; it prints the changes."""
    monkeypatch.setattr("operations.cost.refresh.refresh", lambda region: [f"read {region}"])
    arguments = [environment, "--refresh"]
    assert main(arguments, synthesize=resources_of, environments=environments) == 0
    assert capsys.readouterr().out == f"read {region}\n"
