"""What the scripts run around `cdk`: checks before, releases, rollback, promotion, costs."""
