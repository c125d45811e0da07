"""Metrics, alarms, dashboard and budget of an endpoint, and of what runs besides it.

`../endpoint_metrics.py` names the metrics of an endpoint, and `dashboard.py` draws them. A
threshold passes through three files: `settings/observability.py` validates it and derives its
default, `alarm_definitions.py` defines the alarm, and `alarms.py` creates it. `parts.py` and
`jobs.py` define the alarms and the rows of what runs besides the endpoint, and `parts.py` creates
them.
"""
