"""Test the command as a user calls it."""

import json
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from embedding_kit.prices import hosted_models, load_prices
from operations.cost.command import main
from operations.cost.forecast import price_notes
from tools.cost import resources_of

ROOT = Path(__file__).resolve().parents[3]

#: The sizes of all-MiniLM-L6-v2.
MINILM = {
    "model_type": "bert",
    "num_hidden_layers": 6,
    "hidden_size": 384,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
}


def values(output):
    """Return the amounts of a table by their names."""
    found = {}
    for line in output.splitlines():
        name, amount = line[:46].strip(), line[46:56].strip().replace(",", "")
        if amount.replace(".", "", 1).replace("-", "").isdigit():
            found[name] = float(amount)
    return found


def test_the_table_has_every_way_to_serve(cost):
    """Lambda in its three ways, Fargate, EC2 with a load balancer, and the hosted APIs."""
    status, out, _ = cost("dev", "--requests", "3M", "--tokens", "128")
    assert status == 0
    found = values(out)
    for name in (
        "Lambda on demand",
        "Lambda SnapStart",
        "Lambda provisioned",
        "Fargate, 1 vCPU, load balancer",
        "EC2 t4g.small, load balancer",
        "Bedrock Titan Embeddings V2",
        "OpenAI text-embedding-3-small",
        "OpenAI text-embedding-3-large",
        "Voyage AI voyage-4",
        "Google gemini-embedding-001",
    ):
        assert found[name] > 0
    assert found["OpenAI text-embedding-3-small"] == pytest.approx(3e6 * 128 * 0.02 / 1e6, abs=0.01)


def test_the_environments_own_bill_adds_what_is_easy_to_forget(cost):
    """Logs, alarms, dashboard, metrics and image; the sum is that of its lines."""
    _, out, _ = cost("dev", "--requests", "3M")
    own = values(out.partition("This environment")[2])
    assert {
        "CloudWatch alarms, by metrics", "dashboard", "image", "logs, written", "logs, kept",
        "metrics", "requests", "duration",
    } <= own.keys()  # fmt: skip
    free = own.pop("sum, if nothing else uses what is free")
    total = own.pop("sum")
    assert sum(own.values()) == pytest.approx(total, abs=0.05)
    # Ten metrics of alarms, ten custom ones and a dashboard.
    assert total - free == pytest.approx(1 + 3 + 3)


def test_what_is_watched_is_counted_in_the_templates(cost):
    """The essential alarms read what an account has free; a recipient adds a page and a key."""
    least = values(cost("dev")[1])
    assert least["CloudWatch alarms, by metrics"] == 1.5
    assert not {"composite alarm", "SNS topic's KMS key"} & least.keys()
    essential = values(cost("essential")[1])
    assert essential["CloudWatch alarms, by metrics"] == 1
    # Seven metrics of warnings, and two anomalies with two bounds each.
    warned = values(cost("warned")[1])
    assert warned["CloudWatch alarms, by metrics"] == pytest.approx(2.8)
    told = values(cost("told")[1])
    assert told["CloudWatch alarms, by metrics"] == 1.5
    assert told["composite alarm"] == 0.5
    assert told["SNS topic's KMS key"] == 1


def test_a_large_dashboard_is_not_free(cost):
    """CloudWatch has three of up to 50 metrics free; batch jobs and a server add their rows."""
    assert "3 free in an account" in cost("dev")[1]
    assert "3 free in an account" not in cost("large")[1]


@pytest.mark.parametrize(
    ("requests", "shape", "dollars"),
    [("300k", "flat", 0.92), ("1M", "flat", 3.70), ("3M", "flat", 8.74), ("10M", "flat", 14.20)],
)
def test_traces_are_priced_by_lambdas_sampling(cost, requests, shape, dollars):
    """The first request of each second and 5% of the others, $5 a million after 100,000."""
    found = values(cost("traced", "--requests", requests, "--shape", shape)[1])
    assert found["traces of X-Ray"] == pytest.approx(dollars, abs=0.03)
    assert "traces of X-Ray" not in cost("dev", "--requests", requests, "--shape", shape)[1]


def test_a_cost_needs_no_accepted_license(cost):
    """The forecast comes before the decision."""
    status, out, _ = cost("unaccepted", "--requests", "3M")
    assert status == 0
    assert "unaccepted in us-east-1: google/embeddinggemma-300m" in out


@pytest.mark.parametrize(
    ("environment", "options", "expected"),
    [
        # A firewall of four rules.
        (
            "front",
            ["--requests", "1M"],
            {
                "API, requests": 3.5,
                "API, access log, written": 0.3,
                "firewall": 5,
                "firewall, rules": 4,
                "firewall, requests": 0.6,
            },
        ),
        # Each release keeps two versions for three billed hours.
        (
            "snapstart",
            ["--releases", "10"],
            {"second snapshot in a release": 10 * 3 * 3600 * 2 * 0.0000015046},
        ),
        # The zip of this version and those of a year's releases.
        (
            "zip",
            ["--releases", "10"],
            {
                "zip and artifact": 0.05 * 0.023,
                "those of a year's releases": 120 * 0.05 * 0.023,
                "image": None,
            },
        ),
        # Two environments of 2 GB.
        ("provisioned", ["--requests", "100k"], {"provisioned": 35.04, "budget": 100}),
        # A million texts: their duration, executions and requests to S3.
        (
            "batch",
            ["--batch-texts", "1M", "--milliseconds", "50"],
            {"batch, duration": 1.15, "batch, their duration": 0.05},
        ),
        # Two tasks of one vCPU and 2 GB, and a load balancer.
        (
            "server",
            [],
            {
                "server, vCPU": 2 * 730 * 0.03238,
                "server, memory": 2 * 730 * 2 * 0.00356,
                "server, load balancer": 730 * 0.0225,
                "server, public addresses": None,
            },
        ),
        # Three in three zones; one in two for callers alone.
        ("network", [], {"VPC endpoints": 3 * 3 * 730 * 0.01}),
        ("invoked", [], {"VPC endpoints": 2 * 730 * 0.01}),
        # Ten million vectors of 384 numbers and 1 kB of metadata are 25 GB.
        (
            "index",
            ["--vectors", "10M", "--searches", "100k"],
            {
                "index, vectors": 25.36 * 0.06,
                "index, loading them": 25.36 * 0.20,
                "index, searches": 0.25,
                "index, data searched": 25.36e-3 * 1e5 * 0.004,
                "VPC endpoints": None,
            },
        ),
        (
            "dev",
            [],
            dict.fromkeys(["API, requests", "batch, duration", "server, vCPU", "index, vectors"]),
        ),
    ],
)
def test_what_an_environment_has_is_priced(cost, environment, options, expected):
    """To the cent, where it is switched on; None is not on the bill."""
    found = values(cost(environment, *options)[1].partition("This environment")[2])
    for name, dollars in expected.items():
        assert found.get(name) == (dollars and pytest.approx(dollars, abs=0.01)), name


def test_traffic_beyond_the_provisioned_maximum_is_reported(cost):
    """100 requests a second are the limit of ten environments; two are always there."""
    _, out, _ = cost("provisioned", "--requests", "400M", "--shape", "flat")
    assert values(out)["duration beyond it"] > 10
    assert "provisioned concurrency: 2.0 on average" in cost("provisioned", "--requests", "100k")[1]


def test_documents_are_priced_by_changes_and_nights(cost):
    """A million once with ten chunks each, and a thousand changes a day."""
    once = values(cost("documents", "--changes", "1M", "--chunks", "10M")[1])
    assert once["documents, events"] == pytest.approx(1.0)
    # Two writes of 5 dollars a million, and four reads of 40 cents.
    assert once["documents, writes to S3"] == pytest.approx(10.0)
    assert once["documents, reads from S3"] == pytest.approx(1.6)
    assert once["documents, vectors"] == pytest.approx(25.36 * 0.20, abs=0.01)
    daily = values(cost("documents", "--changes", "30k", "--documents", "1M")[1])
    # Two reads each night of each document, and four of a change.
    assert daily["documents, reads from S3"] == pytest.approx(2 * 0.4 * 730 / 24 + 0.05, abs=0.01)
    # Sixteen of them wait at a time, 0.1 seconds each, with 1,769 MB.
    seconds = (30_000 * 6 + 2e6 * 730 / 24 / 16) * 0.1
    waiting = seconds * 1769 / 1024 * 0.0000133334
    assert daily["documents, waiting for S3"] == pytest.approx(waiting, abs=0.01)
    assert daily["documents, embedding"] < once["documents, embedding"] / 100
    assert daily["documents, executions"] == pytest.approx(1e6 * 730 / 24 / 50 * 1e-6, abs=0.01)
    assert "documents" not in cost("index")[1]


def test_a_second_model_doubles_what_keeps_an_index(cost):
    """But for the events, which are billed once, and the searches, of one of the two."""
    given = ("--changes", "1M", "--chunks", "10M", "--documents", "1M", "--vectors", "1M")
    one, two = (values(cost(name, *given)[1]) for name in ("documents", "standby"))
    once = {"documents, events", "index, searches", "index, data searched", "dashboard"}
    kept = [name for name in one if name.startswith(("documents,", "index,", "image"))]
    assert len(kept) > 12
    for name in kept:
        assert two[name] == pytest.approx(one[name] * (1 if name in once else 2), rel=0.02), name


@pytest.mark.parametrize("model", ["all-MiniLM-L6-v2", "google/embeddinggemma-300m"])
def test_the_watch_costs_less_than_a_dollar_a_month(cost, model):
    """With 200 questions a day, a million chunks of 200 tokens, its alarms and its metrics."""
    amounts = ("--model", model, "--vectors", "1M", "--tokens", "200")
    without, found = (
        values(cost(name, *amounts, *more)[1])
        for name, more in (("documents", ()), ("watch", ("--questions", "200")))
    )
    alarms = "CloudWatch alarms, by metrics"
    own = {name: usd for name, usd in found.items() if name.startswith("watch, ")}
    assert found[alarms] - without[alarms] == pytest.approx(0.5)
    assert own["watch, searches"] + own["watch, data searched"] > 0.05
    assert 0.6 < sum(own.values()) + 0.5 < 1
    assert "watch" not in cost("documents", "--vectors", "1M")[1]


def test_the_break_even_points_are_where_the_bills_cross(cost):
    """Just below the point, the environment's way is cheaper, and just above dearer."""
    answer = json.loads(cost("dev", "--json", "--tokens", "256")[1])
    point = answer["break_even"]["EC2 t4g.small, load balancer"]

    def difference(requests):
        found = json.loads(
            cost("dev", "--json", "--tokens", "256", "--requests", str(int(requests)))[1]
        )["options"]
        first, second = (
            sum(item["usd"] for item in found[name])
            for name in ("Lambda on demand", "EC2 t4g.small, load balancer")
        )
        return first - second

    assert difference(point * 0.97) < 0 < difference(point * 1.03)


def test_json_has_prices_with_dates_and_sources(cost):
    """For programs: all numbers of the table, and each price."""
    answer = json.loads(cost("dev", "--json")[1])
    assert answer["usd"] > 10
    assert answer["prices"]["lambda_duration"]["date"] == "2026-09-19"
    assert answer["prices"]["lambda_duration"]["source"].startswith("AWS price list")


def test_another_region_has_its_own_prices_and_says_which_it_assumes(cost):
    """The environment's region decides."""
    _, out, err = cost("frankfurt")
    assert "frankfurt in eu-central-1" in out
    assert "39 of 42 prices are those of us-east-1" in err
    assert "scripts/cost NAME --refresh" in err
    frankfurt = values(out)["EC2 t4g.small, load balancer"]
    virginia = values(cost("dev")[1])["EC2 t4g.small, load balancer"]
    assert frankfurt - virginia == pytest.approx(2 * (0.0192 - 0.0168) * 730, abs=0.01)


def test_prices_older_than_180_days_are_a_warning():
    """The day after, for AWS's and for the hosted APIs'."""
    prices, models = load_prices(), hosted_models()
    assert not list(price_notes(prices, models, today=date(2026, 11, 22)))
    notes = list(price_notes(prices, models, today=date(2027, 12, 1)))
    assert "42 prices are older than 180 days" in notes[0]
    assert "edit constructs/embedding_kit/prices.json" in notes[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "there is no environment 'nowhere'"),
        (["own-model"], "there are no measured times of acme/own-model; allowed: "),
        (["dev", "--model", "acme/x"], "--model is neither a model of the catalog nor a folder"),
    ],
)
def test_a_mistake_is_an_error_that_says_what_is_allowed(cost, arguments, message):
    """One line on standard error, and status 1."""
    status, out, err = cost(*arguments)
    assert (status, out) == (1, "")
    assert err.startswith(f"error: {message}")


NO_TABLE = "without [{}] in environments/dev.toml; found: only {}; allowed: both or none"
REFRESHED = "with --refresh; found: both; allowed: one of them"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--batch-texts", "1M"], NO_TABLE.format("batch", "--batch-texts")),
        (["--vectors", "1M"], NO_TABLE.format("index", "--vectors")),
        (["--searches", "1M"], NO_TABLE.format("index", "--searches")),
        (["--tokens", "32", "--refresh"], REFRESHED),
        (["--json", "--refresh"], REFRESHED),
    ],
)
def test_an_option_without_an_effect_is_refused(cost, arguments, message):
    """It would be ignored; nothing is printed or read."""
    said = f"error: {arguments[0]} has no effect {message}\n"
    assert cost("dev", *arguments) == (1, "", said)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--requests", "many"], "found: many; allowed: a positive number such as 3M"),
        (["--requests", "0"], "found: 0; allowed: a positive number"),
        (["--tokens", "1.5"], "found: 1.5; allowed: a whole number"),
        (["--shape", "round"], "invalid choice: 'round'"),
    ],
)
def test_an_option_with_another_value_is_refused(cost, capsys, arguments, message):
    """Argparse's status is 2."""
    with pytest.raises(SystemExit) as error:
        main(["dev", *arguments], synthesize=resources_of)
    assert error.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["dev", "--tokens", "512"], "the longest measured text has 256 tokens, and 512 are"),
        (["fp32"], "times are those of int8"),
        (["dev", "--milliseconds", "60000"], "a request takes longer than the function's timeout"),
    ],
)
def test_what_is_not_measured_is_a_warning(cost, arguments, message):
    """And the forecast is still printed."""
    status, out, err = cost(*arguments)
    assert status == 0
    assert out
    assert f"warning: {message}" in err


def test_any_model_of_the_catalog_is_priced(cost):
    """A slower one costs more; its license needs no acceptance."""
    dollars = [
        values(cost("dev", "--model", name)[1])["Lambda on demand"]
        for name in ("all-MiniLM-L6-v2", "bge-base-en-v1.5", "embeddinggemma-300m", "bge-m3")
    ]
    assert dollars == sorted(dollars)


@pytest.mark.parametrize(
    ("files", "milliseconds"),
    [
        ({"config.json": MINILM}, "17.5 ms each"),
        ({"0_Transformer/config.json": MINILM}, "17.5 ms each"),
        ({"config.json": {"model_type": "model2vec"}}, "3.2 ms each"),
        (
            {"modules.json": [{"type": "sentence_transformers.models.StaticEmbedding"}]},
            "3.2 ms each",
        ),
    ],
)
def test_a_folder_is_priced_by_the_sizes_of_its_model(cost, tmp_path, files, milliseconds):
    """Its weights are not read."""
    for name, value in {"modules.json": [], **files}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps(value))
    status, out, _ = cost("dev", "--model", str(tmp_path))
    assert status == 0
    assert milliseconds in out


def test_a_request_to_a_reranker_is_of_pairs(cost, tmp_path):
    """100 pairs take 100 times as long as a text of their tokens, without prices of embeddings."""

    def forecast(kind: str, *options: str) -> dict:
        config = MINILM | {"architectures": [kind]}
        (tmp_path / "config.json").write_text(json.dumps(config))
        status, out, error = cost("dev", "--model", str(tmp_path), "--json", *options)
        assert status == 0, error
        return json.loads(out)

    text, pairs = forecast("BertModel"), forecast("BertForSequenceClassification")
    assert [one["scenario"]["month"]["passages"] for one in (text, pairs)] == [None, 100]
    overhead = 0.003
    assert pairs["seconds"] - overhead == pytest.approx(100 * (text["seconds"] - overhead))
    assert len(pairs["options"]) < len(text["options"])
    ten = forecast("BertForSequenceClassification", "--passages", "10")
    assert ten["seconds"] - overhead == pytest.approx((pairs["seconds"] - overhead) / 10)
    assert "--passages is of a reranker" in cost("dev", "--passages", "10")[2]


def test_a_folder_without_sizes_is_refused(cost, tmp_path):
    """A time can be given."""
    (tmp_path / "modules.json").write_text("[]")
    assert "there are no measured times of" in cost("dev", "--model", str(tmp_path))[2]
    (tmp_path / "config.json").write_text("{")
    assert "config.json cannot be read" in cost("dev", "--model", str(tmp_path))[2]
    assert cost("dev", "--model", str(tmp_path), "--milliseconds", "20")[0] == 0


def test_the_command_imports_no_cdk():
    """The CDK takes seconds to import."""
    program = (
        "import sys, tools.cost\n"
        "heavy = {'aws_cdk', 'jsii', 'onnx', 'botocore', 'httpx'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)
