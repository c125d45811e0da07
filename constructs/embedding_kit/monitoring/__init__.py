"""Metrics, alarms, dashboard and budget of an endpoint, and of what runs besides it.

A threshold passes through three files: `settings/observability.py` validates it and derives its
default, `alarm_definitions.py` defines the alarm, and `alarms.py` creates it. The dashboard draws
the thresholds that `alarms.py` used. `parts.py` does the same for jobs, a server and a REST API.
"""
