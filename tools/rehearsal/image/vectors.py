"""Compare the vectors of the image's answers with those computed on this machine."""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["COSINE", "SHORT_TEXTS", "TEXTS", "body_of", "least_cosine", "vectors_of"]

#: The minimum cosine between two processors, whose int8 kernels round differently.
COSINE = {"fp32": 0.9999, "int8": 0.999}

#: Short and long texts, many scripts, and unusual characters.
TEXTS = (
    "hello world",
    "a",
    "A function that parses a date out of a string, given a format. " * 12,
    "Wie spät ist es? 今日は良い天気ですね。 Где находится библиотека? كم الساعة",
    "naïve café 👩‍👩‍👧‍👦 \t\u200b e\u0301 ﬁ ½ \u00a0 zero-width\u200djoiner",
    "SELECT * FROM vectors WHERE cosine(a, b) > 0.5; -- comment <html>&amp;</html>",
)

#: For floating-point weights. Without ARM hardware, an emulator computes each of their products in
#: software: a token of MiniLM takes seconds.
SHORT_TEXTS = tuple(text for text in TEXTS if len(text) < 60)


def body_of(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Read the JSON body of an answer to a Function URL event.

    Raises:
        ValueError: The answer is not a JSON object with a status.
    """
    if "statusCode" not in answer:
        raise ValueError(f"the handler failed: {json.dumps(answer)[:1000]}")
    text = answer.get("body") or "{}"
    raw = base64.b64decode(text) if answer.get("isBase64Encoded") else text
    body = json.loads(raw)
    if not isinstance(body, dict):
        raise ValueError(  # noqa: TRY004  (the answer is wrong, not an argument)
            f"the answer's body is not an object: {str(body)[:200]}"
        )
    return body


def vectors_of(answers: Sequence[Mapping[str, Any]]) -> npt.NDArray[np.float64]:
    """Return the embeddings of answers, one per row.

    Raises:
        ValueError: An answer is not 200, or has no embedding.
    """
    rows = []
    for answer in answers:
        body = body_of(answer)
        if answer["statusCode"] != 200 or "embedding" not in body:
            raise ValueError(f"status {answer['statusCode']}: {json.dumps(body)[:1000]}")
        rows.append(body["embedding"])
    return np.array(rows, dtype=np.float64)


def least_cosine(one: npt.NDArray[np.float64], other: npt.NDArray[np.float64]) -> float:
    """Return the smallest cosine between corresponding rows.

    Raises:
        ValueError: The shapes differ.
    """
    if one.shape != other.shape:
        raise ValueError(f"vectors of different shapes: {one.shape} and {other.shape}")
    products = np.sum(one * other, axis=1)
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return float(np.min(products / lengths))
