"""Turn the configured callers into the principals that are granted the URL."""

from aws_cdk import aws_iam as iam
from constructs import Construct

from embedding_kit.settings import Callers

__all__ = ["principals", "role_of_units"]


def principals(callers: Callers) -> list[iam.IPrincipal]:
    """Return the principals that a permission names: roles, users, accounts, the organization."""
    found: list[iam.IPrincipal] = [iam.ArnPrincipal(arn) for arn in callers.roles]
    found += [iam.AccountPrincipal(account) for account in callers.accounts]
    if callers.organization:
        found.append(iam.OrganizationPrincipal(callers.organization))
    return found


def role_of_units(scope: Construct, callers: Callers) -> iam.Role | None:
    """Create the role that principals of the organizational units assume to call.

    A permission of Lambda has a condition for an organization, and none for a part of one; the
    trust policy of a role can have it.
    """
    if not callers.organizational_units:
        return None
    paths = [f"{path}/*" for path in callers.organizational_units]
    trusted = iam.AnyPrincipal().with_conditions(
        {"ForAnyValue:StringLike": {"aws:PrincipalOrgPaths": paths}}
    )
    return iam.Role(
        scope,
        "CallerRole",
        assumed_by=trusted,
        description="Calls the endpoint for accounts of organizational units",
    )
