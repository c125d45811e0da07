"""The arguments for credentials, of each command that calls an endpoint."""

from typing import Any

__all__ = ["URL_VARIABLE", "add_credentials"]

#: The environment variable with the endpoint's URL.
URL_VARIABLE = "EMBED_URL"


def add_credentials(parser: Any) -> None:
    """Add who signs, or which key is sent, to a parser or a group of its arguments."""
    parser.add_argument("--profile", help="an AWS profile; default: $AWS_PROFILE")
    parser.add_argument(
        "--region", help="default: that in the URL or the ARN, or the configured one"
    )
    parser.add_argument(
        "--api-key-env",
        metavar="VARIABLE",
        help="send the API key in this environment variable instead of a signature",
    )
    parser.add_argument(
        "--allow-plain-http",
        action="store_true",
        help="call another machine without TLS, where texts and keys travel in the clear",
    )
