"""Test reading Lambda's report and the function's answer."""

import json

import pytest

from embedder.function_url import request_from_event
from tuning.errors import TuneError
from tuning.invocation import Report, http_event, parse_answer, parse_report

#: As AWS documents and others have recorded it.
WARM = (
    '{"time":"2024-02-09T08:42:44.080Z","type":"platform.report","record":{"requestId":"d661f7cf",'
    '"status":"success","metrics":{"durationMs":101.317,"billedDurationMs":102,"memorySizeMB":1769,'
    '"maxMemoryUsedMB":168}}}'
)
COLD = WARM.replace('"billedDurationMs":102', '"billedDurationMs":500,"initDurationMs":397.68')


def test_the_report_is_the_last_record_of_its_type():
    """The tail of a log begins within a line, and has the embedder's own lines."""
    log = f'r","level":"INFO"}}\n{{"message":"request"}}\n"text"\n{WARM}\n'
    assert parse_report(log) == Report(101.317, 102, None, 1769, 168)


def test_a_cold_start_has_an_initialization():
    """Its billed time includes it."""
    assert parse_report(COLD) == Report(101.317, 500, 397.68, 1769, 168)


@pytest.mark.parametrize("log", ["", "REPORT RequestId: 1 Duration: 1 ms", '{"type": "other"}'])
def test_a_log_without_a_report_is_an_error(log):
    """The error names the missing part."""
    with pytest.raises(TuneError, match="no report of the invocation"):
        parse_report(log)


def test_the_event_is_that_of_a_function_url():
    """The embedder reads it as a request."""
    request = request_from_event(json.loads(http_event("POST", "/v1/embeddings", {"input": "a"})))
    assert (request.method, request.path) == ("POST", "/v1/embeddings")
    assert json.loads(request.body) == {"input": "a"}


def test_an_answer_is_its_body():
    """With status 200."""
    payload = json.dumps({"statusCode": 200, "body": '{"a": 1}'}).encode()
    assert parse_answer(payload, path="/") == {"a": 1}


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ({"statusCode": 413, "body": '{"error": "too long"}'}, r"/embed with 413: .*too long"),
        (
            {"errorType": "MemoryError", "errorMessage": "full"},
            "failed on /embed: MemoryError: full",
        ),
    ],
)
def test_a_failure_says_what_the_function_said(result, message):
    """An error status, and a crash."""
    with pytest.raises(TuneError, match=message):
        parse_answer(json.dumps(result).encode(), path="/embed")
