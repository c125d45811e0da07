"""The variants of an environment that the release scenarios deploy."""

from collections.abc import Mapping
from typing import Any

from tools.rehearsal.deploy.batch_scenario import BATCH_SETTINGS
from tools.rehearsal.deploy.front_scenario import FRONT_SETTINGS
from tools.rehearsal.deploy.network_checks import INVOKERS
from tools.rehearsal.deploy.variants import Variant

__all__ = ["FAULTY", "SERVING", "release_variants"]

_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
_OTHER_SPACE = {"name": _MODEL, "precision": "fp32"}
_AT_ONCE = {"kind": "all-at-once"}
#: Half of the requests, so that a few of them are enough to find a fault.
_CANARY = {"kind": "canary", "percent": 50, "interval": "5m"}
_PROVISIONED = {"kind": "provisioned", "minimum": 1, "maximum": 2}
#: A fault that the release check cannot find: only requests through the URL fail. The second one
#: is of requests with some text, so that the same commit can be released without them.
_FAULT = """

_answer = handler


def handler(event, context):
    if "domainName" in event["requestContext"] and {words!r} in str(event.get("body")):
        raise RuntimeError("the rehearsal's fault")
    return _answer(event, context)
"""
FAULTY = "a text that the next release cannot embed"
#: Versions at the first experiment: the last one of the first vector space, and the serving one.
#: Each published version takes a number, even if it is rolled back and deleted.
_FIRST_SPACE, SERVING = 2, 9


def _variant(name: str, code: str = "", **settings: object) -> Variant:
    unset = dict.fromkeys(("cold_start", "experiment", "batch", "server", "front", "network"))
    sections = {"release": _AT_ONCE, **unset, **settings}
    return Variant(name=name, code=code, settings={"model": _OTHER_SPACE, **sections})  # type: ignore[dict-item]


_SHIFTED = {"release": _CANARY, "cold_start": _PROVISIONED}


def release_variants(*, server: Mapping[str, Any]) -> tuple[Variant, ...]:
    """Return the variants in the order in which they are deployed.

    Args:
        server: The settings of `[server]`, whose network is created in the emulated AWS.
    """
    # The server takes its place from `[network]`.
    network = {name: server[name] for name in ("vpc", "subnets")}
    placed = {name: value for name, value in server.items() if name not in network}
    return (
        _variant("other-space", "\n# Changed by the rehearsal.\n"),
        _variant(
            "other-space-allowed",
            "\n# Changed by the rehearsal.\n",
            release={**_AT_ONCE, "allow_vector_space_change": True},
        ),
        # In steps, so that it has alarms of its own: no request comes while it shifts.
        _variant("fault", _FAULT.format(words=""), release=_CANARY),
        _variant("fix", "\n# The fix.\n", **_SHIFTED),
        _variant("next", _FAULT.format(words=FAULTY), **_SHIFTED),
        # One deploy creates all three stacks, in a VPC, which saves three.
        _variant(
            "parts",
            # MiniStack ignores a function's VPC, and publishes no version of an unchanged function.
            "\n# In a VPC.\n",
            batch=BATCH_SETTINGS,
            server=placed,
            front=FRONT_SETTINGS,
            network=network,
            callers=INVOKERS,
        ),
        _variant(
            "weights",
            "\n# With an experiment.\n",
            experiment={"version": SERVING, "percent": 20},
        ),
        _variant(
            "weights-across",
            "\n# With an experiment.\n",
            experiment={"version": _FIRST_SPACE, "percent": 20},
        ),
    )
