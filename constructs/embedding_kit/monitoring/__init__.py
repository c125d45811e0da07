"""Metrics, alarms, dashboard and budget of an endpoint, and of what runs besides it.

To add a metric to the dashboard: `../endpoint_metrics.py` names the metrics of an endpoint, and
`dashboard.py` draws them. Those of jobs, a server and a REST API are in `jobs.py`, `server.py` and
`front.py`, which draw rows of the same dashboard.

A threshold passes through three files: `settings/observability.py` validates it and derives its
default, `alarm_definitions.py` defines the alarm, and `alarms.py` creates it. The dashboard draws
the thresholds that `alarms.py` used. `parts.py` does the same for jobs, a server and a REST API.
"""
