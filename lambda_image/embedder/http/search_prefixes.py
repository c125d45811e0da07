"""The limits of callers that may search the documents below a prefix only.

IAM can allow a search of a whole index or none of it. So the function adds the filter itself, for
the role or user that Lambda names in the event of a Function URL.

Imported on demand: only an endpoint with such limits pays for it.
"""

from __future__ import annotations

from typing import Any

import orjson

from embedder.core.errors import CallerError, SettingsError

#: The metadata key of a document's first folder, as `[ingest]` writes it.
_FOLDER = "tenant"


class SearchPrefixes:
    """The folders that each caller may search; a caller that is not named may search nothing.

    `text` is JSON with the ARNs of roles and users by prefix, such as `{"acme/": ["arn:…"]}`; an
    empty prefix is everything.

    Raises:
        SettingsError: if it is something else.
    """

    def __init__(self, text: str) -> None:
        try:
            limits = [
                (_identity(arn), key) for key, arns in orjson.loads(text).items() for arn in arns
            ]
            self._prefixes = dict(limits)
            # A name with two limits would have one of them.
            valid = len(self._prefixes) == len(limits) and None not in self._prefixes
            valid = valid and all(
                text == "" or text.find("/") == len(text) - 1 > 0
                for text in self._prefixes.values()
            )
        except (AttributeError, TypeError, ValueError):
            valid = False
        if not valid:
            raise SettingsError(
                "EMBEDDING_SEARCH_PREFIXES must be JSON: by prefix, a list of ARNs of roles and "
                'users, each name once. Prefixes are first folders such as "acme/", and "". Found '
                "something else."
            )

    def limited(self, caller: str | None, where: Any) -> Any:
        """Limit a search's filter, None without one, to what the caller may search.

        The caller is the ARN that Lambda names, if any.

        Raises:
            CallerError: if the caller may search nothing.
        """
        prefix = None if caller is None else self._prefixes.get(_identity(caller))
        if prefix is None:
            raise CallerError(
                "Only the roles and users that `prefixes` and `principals` of [callers] name by "
                "their ARNs may search here, by the Function URL; found another caller."
            )
        if not prefix:
            return where
        own = {_FOLDER: {"$eq": prefix[:-1]}}
        return own if where is None else {"$and": [own, where]}


def _identity(arn: str) -> tuple[str, str, str] | None:
    """Return the account, `role` or `user`, and the name; None for another kind of principal.

    A session of a role has an ARN of STS, with the role's name and without its path. Names are
    unique in their account, whatever the path.
    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html
    """
    _, _, service, _, account, resource = (arn.split(":", 5) + [""] * 5)[:6]
    principal_type, *names = resource.split("/")
    if service == "sts" and principal_type == "assumed-role" and len(names) == 2:
        return account, "role", names[0]
    if service == "iam" and principal_type in {"role", "user"} and names:
        return account, principal_type, names[-1]
    return None
