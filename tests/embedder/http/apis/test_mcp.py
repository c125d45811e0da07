"""`POST /mcp`: the Model Context Protocol."""

import json

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embedder.core.engine import Engine
from embedder.http.apis.mcp import VERSIONS
from embedder.http.http_types import Request
from tests.embedder.from_schema import JSON
from tests.embedder.small_model import HashSession, WordTokenizer, manifest_of, router_of

ENGINE = Engine(manifest_of(), WordTokenizer(), HashSession())
ROUTER = router_of(ENGINE, mcp=True)
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
METHODS = ("initialize", "ping", "tools/list", "tools/call", "notifications/initialized")


def send(message, router=ROUTER, **headers):
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    response = router.handle(Request("POST", "/mcp", headers=headers, body=body))
    return response.status, orjson.loads(response.body) if response.body else None


def ask(method, **params):
    status, answer = send({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
    assert (status, answer["id"]) == (200, 7)
    return answer


def test_the_protocols_version_is_agreed():
    """A known one is kept; for another the server names its newest."""
    # A server of 2025-03-26 would have to take lists of messages.
    for version, answered in [(VERSIONS[1], VERSIONS[1]), ("2025-03-26", VERSIONS[0])]:
        result = ask("initialize", protocolVersion=version)["result"]
        assert (result["protocolVersion"], result["capabilities"]) == (answered, {"tools": {}})
    assert send(PING, **{"mcp-protocol-version": "x"})[0] == 400


def test_a_tool_has_the_body_and_the_answer_of_its_operation():
    """An agent sees the schema of the API, closed to other fields, and its answer to the byte."""
    tools = {tool["name"]: tool for tool in ask("tools/list")["result"]["tools"]}
    assert tools.keys() == {"search", "embed", "describe_index"}
    assert "texts" in tools["embed"]["inputSchema"]["properties"]
    for name in ("search", "embed"):
        assert tools[name]["inputSchema"]["additionalProperties"] is False
    result = ask("tools/call", name="embed", arguments={"text": "a"})["result"]
    direct = ROUTER.handle(Request("POST", "/", body=b'{"text": "a"}'))
    assert result == {"content": [{"type": "text", "text": direct.body.decode()}], "isError": False}
    search_result = ask("tools/call", name="search", arguments={"query": "a", "top_k": 1})
    assert json.loads(search_result["result"]["content"][0]["text"])["results"][0]["text"] == "a"


def test_what_is_not_served_is_no_tool():
    """Without an index there is no search; without `mcp` there is no door."""
    bare = router_of(ENGINE, None, mcp=True)
    _, answer = send({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, bare)
    assert {tool["name"] for tool in answer["result"]["tools"]} == {"embed", "describe_index"}
    assert send(PING, router_of(ENGINE))[0] == 404


def test_a_bad_argument_is_a_result_that_an_agent_can_read():
    """With the words of the API, as the protocol wants errors of tools."""
    result = ask("tools/call", name="embed", arguments={"size": 3, "text": "a"})["result"]
    assert result["isError"]
    assert result["content"][0]["text"].startswith('"size" must be one of')


@pytest.mark.parametrize(
    ("message", "status", "code"),
    [
        (b"{", 400, -32700),
        ({"id": 1, "method": "ping"}, 400, -32600),
        ({"jsonrpc": "2.0", "id": [], "method": "ping"}, 400, -32600),
        ({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}, 400, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": "nothing"}, 200, -32601),
        ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}, 200, -32602),
        ({"jsonrpc": "2.0", "id": 1, "method": "tools/call"}, 200, -32602),
        ({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x"}}, 200, -32602),
    ],
)
def test_other_messages_have_json_rpcs_codes(message, status, code):
    """Those without an id in the answer have an HTTP status, too."""
    http_status, answer = send(message)
    assert (http_status, answer["error"]["code"]) == (status, code)


def test_an_id_is_a_text_or_a_whole_number():
    """The error says so, and has the value found."""
    _, answer = send({**PING, "id": 1.5})
    allowed = '"id" must be a string or a whole number; found the number 1.5.'
    assert answer["error"]["message"] == allowed


def test_a_fault_shows_no_internals():
    """It is a server error, and not an answer of the tool."""
    session = HashSession()
    session.failure = RuntimeError("of the model")
    router = router_of(Engine(manifest_of(), WordTokenizer(), session), None, mcp=True)
    call = {"name": "embed", "arguments": {"text": "a"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    status, answer = send(message, router)
    assert (status, answer["error"]["code"]) == (500, -32603)
    assert "of the model" not in answer["error"]["message"]


@settings(max_examples=300, deadline=None)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "jsonrpc": st.just("2.0") | JSON,
            "id": st.integers() | JSON,
            "method": st.sampled_from(METHODS) | JSON,
            "params": JSON
            | st.fixed_dictionaries(
                {"name": st.sampled_from(["embed", "search", "describe_index"]) | JSON},
                optional={"arguments": JSON | st.fixed_dictionaries({"text": st.text() | JSON})},
            ),
        },
    )
    | JSON
    | st.binary(max_size=40)
)
def test_every_message_is_answered_by_json_rpc(message):
    """No message is a fault: each has a result, an error, or needs no answer."""
    status, answer = send(message)
    assert status < 500
    if status != 202:
        assert answer["jsonrpc"] == "2.0"
        assert ("result" in answer) != ("error" in answer)
