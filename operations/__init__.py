"""The work of the scripts around `cdk`: checks before, releases, rollback, promotion, costs."""
