"""Diagrams: pure functions from a snapshot, a selection and a palette to a plain Plotly dict."""
