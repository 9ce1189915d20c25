"""Prometheus metrics for `/metrics`: the engine's counts and the time to first token."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from chatcli.events import TurnRecord

# The keys of `Backend.status`, each with its metric's name and help.
COUNTERS = {
    "requests": ("requests", "Requests answered"),
    "hits": ("hits", "Requests that reused part of their prompt from a checkpoint"),
    "prompt_tokens": ("prompt_tokens", "Prompt tokens"),
    "reused_tokens": ("reused_tokens", "Prompt tokens from a checkpoint"),
    "prefilled_tokens": ("prefilled_tokens", "Prompt tokens prefilled while a client waited"),
    "settled_tokens": ("settled_tokens", "Tokens prefilled while no client waited"),
    "generated_tokens": ("generated_tokens", "Generated tokens"),
}
GAUGES = {
    "active": ("active_requests", "Requests being answered"),
    "queued": ("queued_requests", "Requests waiting"),
    "memory_bytes": ("memory_bytes", "Memory in use"),
    "disk_bytes": ("disk_bytes", "Size of the sessions folder"),
}
SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)


class EngineCollector(Collector):
    """Reads the engine's numbers at each scrape."""

    def __init__(self, status: Callable[[], Mapping[str, Any]]) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        numbers = self._status()
        for key, (name, text) in COUNTERS.items():
            yield CounterMetricFamily(f"chatcli_{name}", f"{text}.", numbers.get(key, 0))
        for key, (name, text) in GAUGES.items():
            yield GaugeMetricFamily(f"chatcli_{name}", f"{text}.", numbers.get(key, 0))


class Metrics:
    """A server's own registry, because a process may have several servers."""

    def __init__(self, status: Callable[[], Mapping[str, Any]]) -> None:
        """`status` is the engine's; it returns no numbers while the model loads."""
        self._registry = CollectorRegistry()
        self._registry.register(EngineCollector(status))
        self._first_token = Histogram(
            "chatcli_time_to_first_token_seconds",
            "Time from a request to its first token.",
            buckets=SECONDS,
            registry=self._registry,
        )

    def answered(self, record: TurnRecord) -> None:
        if record.time_to_first_token is not None:
            self._first_token.observe(record.time_to_first_token)

    def text(self) -> bytes:
        """In Prometheus's text format."""
        return generate_latest(self._registry)
