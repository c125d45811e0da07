"""The recipes of docs/front.md for databases, with the events that AWS documents."""

import json
from collections.abc import Callable
from typing import Any

import httpx2
import numpy as np
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.docs.pages import BLOCK, ROOT

from .conftest import FACTS, KEYS, Served

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs" / "front.md").read_text("utf-8").partition("## From a database")[2]
CODE = [(one["language"], one["code"]) for one in BLOCK.finditer(PAGE)]
SQL, (ADAPTER,), (CONNECTOR,) = (
    [code for language, code in CODE if language == wanted] for wanted in ("sql", "python", "json")
)
EXTENSION = "CREATE EXTENSION IF NOT EXISTS aws_lambda CASCADE;"
#: `aws_lambda.invoke` with the form of
#: https://docs.aws.amazon.com/AmazonRDS/latest/AuroraUserGuide/PostgreSQL-Lambda-functions.html.
#: It tells the event, of which the program below gets the function's answer, and returns that.
INVOKE = """
CREATE SCHEMA aws_lambda;
CREATE TABLE aws_lambda.answers (event text, answer json);
CREATE FUNCTION aws_lambda.invoke(
  function_name text, event json, region text DEFAULT NULL,
  invocation_type text DEFAULT 'RequestResponse', log_type text DEFAULT 'None',
  context json DEFAULT NULL, qualifier varchar(128) DEFAULT NULL,
  OUT status_code int, OUT payload json, OUT executed_version text, OUT log_result text)
LANGUAGE plpgsql AS $$ BEGIN
  RAISE NOTICE '%', event;
  SELECT 200, answer INTO status_code, payload FROM aws_lambda.answers a WHERE a.event = $2::text;
END $$;
CREATE TABLE notes (id int, body text, embedding vector(384));
"""
PROGRAM = """
import json, os, boto3, psycopg

notices = []
database = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)
database.add_notice_handler(lambda notice: notices.append(notice.message_primary))
embed, use, invoke, facts = json.loads(os.environ["SCRIPT"])
database.execute("CREATE EXTENSION IF NOT EXISTS vector")
database.execute(invoke)
database.execute(embed)
for number, fact in enumerate(facts):
    database.execute("INSERT INTO notes VALUES (%s, %s)", (number, fact))

def run(statement):
    try:
        return database.execute(statement)
    except psycopg.errors.RaiseException:
        event = notices[-1]
        answer = boto3.client("lambda").invoke(FunctionName="embedder:live", Payload=event)
        answer = answer["Payload"].read().decode()
        database.execute("INSERT INTO aws_lambda.answers VALUES (%s, %s)", (event, answer))
        return database.execute(statement)

update, search = use.split(";\\n\\n")
run(update)
print(run(search).fetchone()[0])
print([row[0] for row in database.execute("SELECT embedding::text FROM notes ORDER BY id")])
try:
    run("SELECT embed(ARRAY['a'], 'no such kind')")
except psycopg.errors.RaiseException as error:
    print(error)
"""


def aws(served: Served) -> dict[str, str]:
    """Return the variables with which Lambda's API is the local endpoint's."""
    return {**KEYS, "AWS_DEFAULT_REGION": "us-east-1", "AWS_ENDPOINT_URL_LAMBDA": served.url}


def test_aurora_embeds_and_searches(served, run, database, tmp_path):
    """The function's SQL runs in PostgreSQL; its event gets the vectors, and an error its text."""
    assert EXTENSION in SQL[0]
    script = [SQL[0].replace(EXTENSION, ""), SQL[1], INVOKE, FACTS]
    variables = {"SCRIPT": json.dumps(script), "DATABASE_URL": database}
    printed = run(PROGRAM, tmp_path, **aws(served), **variables)
    found, vectors, error, *_ = printed.splitlines()
    assert found == "A violin has four strings."
    np.testing.assert_allclose(
        [json.loads(vector) for vector in eval(vectors)], served.vectors, atol=1e-6
    )
    assert "input_type" in error


@pytest.fixture
def udf(served: Served, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], Any]:
    """Return the function between Redshift and the endpoint, called with rows."""
    for name, value in aws(served).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ALIAS_ARN", "arn:aws:lambda:us-east-1:111122223333:function:embedder:live")
    namespace: dict[str, Any] = {}
    exec(ADAPTER, namespace)

    def call(*rows: Any) -> Any:
        # https://docs.aws.amazon.com/redshift/latest/dg/udf-creating-a-lambda-sql-udf.html
        event = {
            "request_id": "23FF1F97-F28A-44AA-AB67-266ED976BF40",
            "cluster": "arn:aws:redshift:xxxx",
            "user": "adminuser",
            "database": "db1",
            "external_function": "public.foo",
            "query_id": 5678234,
            "num_records": len(rows),
            "arguments": rows,
        }
        return json.loads(namespace["handler"](json.loads(json.dumps(event)), None))

    return call


def test_redshift_gets_a_result_for_each_row(served, udf):
    """Rows without a text have none; the others are the vectors, and an error is the UDF's."""
    answer = udf([FACTS[0]], [None], None, [FACTS[1]])
    results = answer.pop("results")
    assert answer == {"success": True, "num_records": 4}
    assert results[1:3] == [None, None]
    vectors = np.array([json.loads(results[0]), json.loads(results[3])], np.float32)
    np.testing.assert_array_equal(vectors, served.vectors)
    assert udf(None)["results"] == [None]
    with pytest.raises(RuntimeError, match="tokens"):
        udf(["word " * 9000])


def test_the_connector_of_opensearch_gets_vectors(served):
    """The default functions fill in a list of texts, and take a list of vectors."""
    connector = json.loads(CONNECTOR)
    (action,) = connector["actions"]
    key, secret, token, _ = KEYS.values()
    request = AWSRequest(
        action["method"],
        served.url + "/" + action["url"].rpartition("/")[2],
        data=action["request_body"].replace("${parameters.input}", json.dumps(FACTS)),
        headers=action["headers"],
    )
    named = connector["parameters"]
    signer = SigV4Auth(Credentials(key, secret, token), named["service_name"], named["region"])
    signer.add_auth(request)
    answer = httpx2.post(request.url, content=request.data, headers=dict(request.headers))
    np.testing.assert_array_equal(np.array(answer.json(), np.float32), served.vectors)
