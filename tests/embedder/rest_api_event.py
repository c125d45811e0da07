"""The event of API Gateway's REST API, from AWS's documentation, for an event of a Function URL."""

from typing import Any


def rest_api_event(event: dict[str, Any]) -> dict[str, Any]:
    """Return the event that the REST API of `[front]` sends for the request of another event.

    The API has the greedy path `/{proxy+}` besides `/`, and the stage `live`.
    """
    path, http = event.get("rawPath") or "/", event["requestContext"]["http"]
    headers = event.get("headers")
    return {
        "resource": "/" if path == "/" else "/{proxy+}",
        "path": path,
        "httpMethod": http["method"],
        "headers": headers,
        "multiValueHeaders": headers and {name: [value] for name, value in headers.items()},
        "queryStringParameters": None,
        "multiValueQueryStringParameters": None,
        "pathParameters": None if path == "/" else {"proxy": path.removeprefix("/")},
        "stageVariables": None,
        "requestContext": {
            "accountId": "123456789012",
            "apiId": "0123456789",
            "domainName": "0123456789.execute-api.us-west-2.amazonaws.com",
            "domainPrefix": "0123456789",
            "extendedRequestId": "JJbxmplHYosFVYQ=",
            "httpMethod": http["method"],
            "identity": {"apiKeyId": "abc1234567", "sourceIp": "192.0.2.1"},
            "path": f"/live{path}",
            "protocol": "HTTP/1.1",
            "requestId": event["requestContext"].get("requestId"),
            "requestTimeEpoch": 1583348638390,
            "resourceId": "1234567890",
            "resourcePath": "/{proxy+}",
            "stage": "live",
        },
        "body": event.get("body"),
        "isBase64Encoded": event.get("isBase64Encoded", False),
    }
