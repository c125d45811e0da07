"""Test the command as a user calls it."""

import json
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from embedding_kit.prices import hosted_models, load_prices
from embedding_kit.settings import ModelSettings
from operations.cost.command import main
from operations.cost.forecast import price_notes
from operations.cost.workload import model_speed
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
    amounts = {}
    for line in output.splitlines():
        name, amount = line[:46].strip(), line[46:56].strip().replace(",", "")
        if amount.replace(".", "", 1).replace("-", "").isdigit():
            amounts[name] = float(amount)
    return amounts


def test_the_table_has_every_way_to_serve(cost):
    """Lambda in its three ways, Fargate, and the hosted APIs."""
    status, out, _ = cost("dev", "--requests", "3M", "--tokens", "128")
    assert status == 0
    amounts = values(out)
    for name in (
        "Lambda on demand",
        "Lambda SnapStart",
        "Lambda provisioned",
        "Fargate, 1 vCPU, load balancer",
        "Bedrock Titan Embeddings V2",
        "OpenAI text-embedding-3-small",
        "OpenAI text-embedding-3-large",
        "Voyage AI voyage-4",
        "Google gemini-embedding-001",
    ):
        assert amounts[name] > 0
    assert amounts["OpenAI text-embedding-3-small"] == pytest.approx(
        3e6 * 128 * 0.02 / 1e6, abs=0.01
    )


def test_a_classifier_has_no_hosted_embedding_model_beside_it(cost):
    """Their vectors are no labels."""
    status, out, _ = cost("dev", "--model", "unitary/toxic-bert")
    assert status == 0
    assert values(out)["Fargate, 1 vCPU, load balancer"] > 0
    assert "mbedding" not in out


def test_json_has_the_numbers_of_the_table(cost):
    """For a check in CI: the sum is that of the items, and break-even points are requests."""
    value = json.loads(cost("dev", "--json")[1])
    assert (value["environment"], value["region"]) == ("dev", "us-east-1")
    assert value["usd"] == pytest.approx(sum(item["usd"] for item in value["items"]))
    assert f"dev costs ${value['usd']:,.2f} a month" in cost("dev")[1]
    assert value["alternatives"].keys() - value["cheaper_from_requests"] == {"Lambda on demand"}
    assert 0 < value["cold_start_share"] < 1


def test_the_environments_own_bill_adds_what_is_easy_to_forget(cost):
    """Logs, alarms, dashboard, metrics and image; the sum is that of its lines."""
    _, out, _ = cost("dev", "--requests", "3M")
    own = values(out.partition("This environment")[2])
    assert {
        "CloudWatch alarms, by metrics", "dashboard", "image", "logs, written", "logs, kept",
        "metrics", "requests", "duration",
    } <= own.keys()  # fmt: skip
    total = own.pop("sum")
    assert sum(own.values()) == pytest.approx(total, abs=0.05)


def test_what_is_watched_is_counted_in_the_templates(cost):
    """The essential alarms read what an account has free; a recipient adds a page and a key."""
    default = values(cost("dev")[1])
    assert default["CloudWatch alarms, by metrics"] == 1.5
    assert not {"composite alarm", "SNS topic's KMS key"} & default.keys()
    essential = values(cost("essential")[1])
    assert essential["CloudWatch alarms, by metrics"] == 1
    # Seven metrics of warnings, and two anomalies with two bounds each.
    warned = values(cost("warned")[1])
    assert warned["CloudWatch alarms, by metrics"] == pytest.approx(2.8)
    with_emails = values(cost("told")[1])
    assert with_emails["CloudWatch alarms, by metrics"] == 1.5
    assert with_emails["composite alarm"] == 0.5
    assert with_emails["SNS topic's KMS key"] == 1


@pytest.mark.parametrize(
    ("requests", "dollars"), [("300k", 0.89), ("1M", 3.45), ("3M", 7.62), ("10M", 12.56)]
)
def test_traces_are_priced_by_lambdas_sampling(cost, requests, dollars):
    """The first request of each second and 5% of the others, $5 a million after 100,000."""
    amounts = values(cost("traced", "--requests", requests)[1])
    assert amounts["traces of X-Ray"] == pytest.approx(dollars, abs=0.03)
    assert "traces of X-Ray" not in cost("dev", "--requests", requests)[1]


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
        ("zip", [], {"image": None}),
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
    amounts = values(cost(environment, *options)[1].partition("This environment")[2])
    for name, dollars in expected.items():
        assert amounts.get(name) == (dollars and pytest.approx(dollars, abs=0.01)), name


def test_traffic_beyond_the_provisioned_maximum_is_reported(cost):
    """100 requests a second are the limit of ten environments; two are always there."""
    _, out, _ = cost("provisioned", "--requests", "400M")
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
    traffic = ("--changes", "1M", "--chunks", "10M", "--documents", "1M", "--vectors", "1M")
    alone, with_standby = (values(cost(name, *traffic)[1]) for name in ("documents", "standby"))
    once = {"documents, events", "index, searches", "index, data searched", "dashboard"}
    doubled = [name for name in alone if name.startswith(("documents,", "index,", "image"))]
    assert len(doubled) > 12
    for name in doubled:
        assert with_standby[name] == pytest.approx(
            alone[name] * (1 if name in once else 2), rel=0.02
        ), name


def test_another_region_says_which_prices_it_assumes(cost):
    """The environment's region decides."""
    _, out, err = cost("frankfurt")
    assert "frankfurt in eu-central-1" in out
    assert err == (
        "33 of 35 prices are those of us-east-1, for constructs/embedding_kit/prices.json has none "
        "of eu-central-1\n"
    )


def test_prices_older_than_180_days_are_a_warning():
    """The day after, for AWS's and for the hosted APIs'."""
    prices, models = load_prices(), hosted_models()
    assert not list(price_notes(prices, models, today=date(2026, 11, 22)))
    (note,) = price_notes(prices, models, today=date(2027, 12, 1))
    assert note.startswith("warning: 40 prices of constructs/embedding_kit/prices.json are older")


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--batch-texts", "1M"], NO_TABLE.format("batch", "--batch-texts")),
        (["--vectors", "1M"], NO_TABLE.format("index", "--vectors")),
        (["--searches", "1M"], NO_TABLE.format("index", "--searches")),
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


def test_a_folder_without_sizes_is_refused(cost, tmp_path):
    """A reranker is refused, too, since its time depends on its pairs. --milliseconds prices it."""
    (tmp_path / "modules.json").write_text("[]")
    assert "there are no measured times of" in cost("dev", "--model", str(tmp_path))[2]
    (tmp_path / "config.json").write_text("{")
    assert "config.json cannot be read" in cost("dev", "--model", str(tmp_path))[2]
    reranker = MINILM | {"architectures": ["BertForSequenceClassification"]}
    (tmp_path / "config.json").write_text(json.dumps(reranker))
    assert "there are no measured times of" in cost("dev", "--model", str(tmp_path))[2]
    assert cost("dev", "--model", str(tmp_path), "--milliseconds", "20")[0] == 0


def test_a_classifier_has_the_time_of_its_text(tmp_path):
    """`task = "classify"` makes a folder with a head of labels a model of single texts."""
    (tmp_path / "config.json").write_text(json.dumps(MINILM))
    embedding = model_speed(ModelSettings(folder=tmp_path))
    head = MINILM | {"architectures": ["BertForSequenceClassification"]}
    (tmp_path / "config.json").write_text(json.dumps(head))
    assert model_speed(ModelSettings(folder=tmp_path, task="classify")) == embedding


def test_the_command_imports_no_cdk():
    """The CDK takes seconds to import."""
    program = (
        "import sys, tools.cost\n"
        "heavy = {'aws_cdk', 'jsii', 'onnx', 'botocore', 'httpx2'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)
