"""The overhead of the endpoint: a 32-token request without the ONNX run.

    python -m tools.bench.endpoint ARTIFACT TEXT...

It runs Lambda's handler on Function URL events and prints, as JSON, the median CPU time of a whole
request and of the ONNX run, in seconds.
"""

import json
import os
import statistics
import sys
import time
from typing import Any

__all__: list[str] = []


def main() -> None:
    """Process one event for each text."""
    os.environ["EMBEDDING_ARTIFACT"] = sys.argv[1]
    os.environ["EMBEDDING_CACHE_ENTRIES"] = "0"
    from embedder.aws_lambda.handler import handler  # noqa: PLC0415 - reads the environment
    from embedder.core.session import Session  # noqa: PLC0415

    spent = [0.0]
    run = Session.run

    def timed(session: Session, *feed: Any) -> Any:
        began = time.process_time()
        result = run(session, *feed)
        spent[0] += time.process_time() - began
        return result

    Session.run = timed  # type: ignore[method-assign, assignment]
    told, sys.stdout = sys.stdout, open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
    whole, inner = [], []
    for text in sys.argv[2:]:
        event = _event(json.dumps({"text": text}))
        spent[0] = 0.0
        began = time.process_time()
        answer = handler(event, None)
        whole.append(time.process_time() - began)
        inner.append(spent[0])
        if answer["statusCode"] != 200:
            raise SystemExit(f"the endpoint answered {answer}")
    outer = [all_of_it - onnx for all_of_it, onnx in zip(whole, inner, strict=True)]
    told.write(
        json.dumps({"overhead": statistics.median(outer), "run": statistics.median(inner)}) + "\n"
    )


def _event(body: str) -> dict[str, Any]:
    """Return a Function URL event, payload format 2.0."""
    return {
        "version": "2.0",
        "rawPath": "/",
        "rawQueryString": "",
        "headers": {"content-type": "application/json"},
        "requestContext": {"http": {"method": "POST", "path": "/"}, "requestId": "bench"},
        "body": body,
        "isBase64Encoded": False,
    }


if __name__ == "__main__":
    main()
