"""Turn the configured callers into the principals that are granted the URL."""

from aws_cdk import aws_iam as iam

from embedding_kit.settings import Callers

__all__ = ["principals"]


def principals(callers: Callers) -> list[iam.IPrincipal]:
    """Return the principals of the callers: first roles, then accounts, then the organization."""
    found: list[iam.IPrincipal] = [iam.ArnPrincipal(arn) for arn in callers.roles]
    found += [iam.AccountPrincipal(account) for account in callers.accounts]
    if callers.organization:
        found.append(iam.OrganizationPrincipal(callers.organization))
    return found
