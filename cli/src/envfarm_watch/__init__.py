"""Watching a farm: dashboards as code, drawn in Grafana, in the terminal and in the docs alike."""
