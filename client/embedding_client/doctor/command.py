"""`embed doctor`."""

import argparse
import json
import os
import sys
from contextlib import suppress
from datetime import UTC, datetime
from urllib.parse import urlsplit

import botocore.exceptions
import botocore.session
import httpx
from tqdm import tqdm

from embedding_client.addresses import check_url
from embedding_client.connect import auth_for
from embedding_client.doctor.checkup import CHECKS, examine
from embedding_client.doctor.facts import Asked, Facts
from embedding_client.doctor.findings import SkippedError, State
from embedding_client.doctor.outside import (
    Aws,
    Outside,
    Web,
    aws_clients,
    handshake,
    resolve,
    web_client,
)
from embedding_client.doctor.report import as_json, as_lines
from embedding_client.errors import ConfigurationError
from embedding_client.shared_arguments import URL_VARIABLE
from embedding_client.signing import region_of
from embedding_client.used_spaces import spaces_file

__all__ = ["report", "run_doctor"]


def run_doctor(args: argparse.Namespace) -> int:
    """Run `embed doctor`; return the exit status.

    Raises:
        ConfigurationError: The arguments do not name an endpoint.
    """
    # $EMBED_URL may be that of another environment.
    url = None
    if args.url and args.environment is None:
        url = check_url(args.url, allow_plain_http=args.allow_plain_http)
    if args.environment is None and url is None:
        raise ConfigurationError(
            f"No endpoint: give --environment or --url, or set {URL_VARIABLE}."
        )
    asked = Asked(
        url=url,
        environment=args.environment,
        artifact=args.artifact,
        vector_space=args.vector_space,
        accept_vector_space=args.accept_vector_space,
        image_days=args.image_days,
        deployer=args.deployer,
    )
    with web_client() as http:
        return report(Facts(asked, _outside(args, url, http)), as_program=args.json)


def report(facts: Facts, *, as_program: bool) -> int:
    """Run all checks and print the report; return 1 if something is ill, else 0."""
    on_terminal = sys.stderr.isatty()
    with tqdm(
        total=len(CHECKS), desc="looking", unit=" checks", leave=False, disable=not on_terminal
    ) as bar:
        results = list(examine(facts, bar.update))
    url, environment = facts.asked.url, facts.asked.environment
    with suppress(SkippedError):
        url = facts.url()
    with suppress(SkippedError):
        environment = facts.environment()
    if as_program:
        print(json.dumps(as_json(results, url=url, environment=environment), indent=2))
    else:
        color = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        title = " at ".join(name for name in (environment, url) if name)
        print("\n".join(as_lines(results, title=title, color=color)))
    return int(any(result.finding.state == State.ILL for result in results))


def _outside(args: argparse.Namespace, url: str | None, http: httpx.Client) -> Outside:
    host = (urlsplit(url).hostname if url else None) or ""
    try:
        session = botocore.session.Session(profile=args.profile)
        region = args.region or _region(host, session)
    except botocore.exceptions.BotoCoreError as error:
        raise ConfigurationError(f"{error}.") from error
    return Outside(
        aws=Aws(aws_clients(session, region)),
        # An environment's own URL is a Function URL, which every signer signs for.
        web=Web(http, auth_for(url or "", args)),
        resolve=resolve,
        handshake=handshake,
        region=region,
        memory=spaces_file(),
        now=lambda: datetime.now(UTC),
    )


def _region(host: str, session: botocore.session.Session) -> str | None:
    with suppress(ConfigurationError):
        return region_of(host, session=session)
    return None
