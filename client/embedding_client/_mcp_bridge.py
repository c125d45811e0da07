"""`embed mcp`: passes an agent's messages to an endpoint's `POST /mcp`, signed.

The agent's side is the protocol's stdio transport, a message a line:
https://modelcontextprotocol.io/specification/2025-06-18/basic/transports#stdio
"""

import argparse
import json
import sys
from typing import IO, Any

import httpx2

from embedding_client._connect import auth_for
from embedding_client._flows import TIMEOUT
from embedding_client._targets import check_url
from embedding_client.errors import ConfigurationError, EmbeddingClientError

#: JSON-RPC's codes of a line that is not JSON, and of an endpoint that cannot answer.
_NOT_JSON, _FAULT = -32700, -32603
_SHOWN = 200


def run_bridge(args: argparse.Namespace) -> int:
    """Run the bridge until the agent closes its end."""
    if not args.url:
        raise ConfigurationError("No endpoint: give --url, or set EMBEDDING_URL.")
    url = check_url(args.url, allow_plain_http=args.allow_plain_http)
    with httpx2.Client(auth=auth_for(url, args), timeout=TIMEOUT) as http:
        bridge(f"{url}/mcp", http, sys.stdin, sys.stdout)
    return 0


def bridge(url: str, http: httpx2.Client, read: IO[str], write: IO[str]) -> None:
    """Answer each line; a failure is an answer too, and the next line is tried anew."""
    for line in read:
        if not line.strip():
            continue
        try:
            number = json.loads(line).get("id")
        except (ValueError, AttributeError):
            answer = _error(None, _NOT_JSON, "the line is not a JSON object")
        else:
            answer = _ask(url, http, line, number)
            if number is None or answer is None:
                continue
        write.write(json.dumps(answer, ensure_ascii=False) + "\n")
        write.flush()


def _ask(url: str, http: httpx2.Client, line: str, number: Any) -> Any:
    try:
        response = http.post(url, content=line, headers={"content-type": "application/json"})
    except (httpx2.HTTPError, EmbeddingClientError) as error:
        # Credentials that have expired are an answer too: they may be renewed meanwhile.
        return _error(number, _FAULT, f"{url} did not respond: {error}")
    if response.status_code == 202:
        return None
    try:
        answer = response.json()
    except ValueError:
        answer = None
    if isinstance(answer, dict) and "jsonrpc" in answer:
        return {**answer, "id": number}
    hint = "; it needs `mcp = true` under [function]" if response.status_code == 404 else ""
    text = f"{url} answered {response.status_code}{hint}: {response.text[:_SHOWN]}"
    return _error(number, _FAULT, text)


def _error(number: Any, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}
