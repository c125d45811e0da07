"""A function that returns its event, or fails on request."""

import json
import os
import time


def handler(event, context):
    """Handle a request by its path."""
    path = event["rawPath"]
    if path == "/raise":
        raise ValueError("the inside of the function")
    if path == "/exit":
        os._exit(3)
    if path == "/sleep":
        time.sleep(float(event["queryStringParameters"]["seconds"]))
    if path == "/large":
        size = int(event["queryStringParameters"]["bytes"])
        return {"statusCode": 200, "headers": {"content-type": "text/plain"}, "body": "x" * size}
    if path == "/bare":
        return [1, 2, 3]
    if path == "/binary":
        return {"statusCode": 201, "body": "AAEC/w==", "isBase64Encoded": True}
    if path == "/malformed":
        return {"statusCode": "not a number"}
    if path == "/environment":
        return {"statusCode": 200, "body": json.dumps({**os.environ, "pid": os.getpid()})}
    return {
        "statusCode": 200,
        "headers": {"Content-Type": "application/json"},
        "body": json.dumps(event),
    }
