"""What is counted, for Prometheus. Labels are routes, statuses and pairs: few, and nothing a client can invent."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.01, 0.03, 0.1, 0.2, 0.4, 0.6, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 10.0)
TEXTS = (1, 2, 4, 8, 16, 32, 64)


class Measures:
    """A registry of their own, so that several servers in one program do not meet."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter("headway_requests", "answers given", ["route", "status"], registry=self.registry)
        self.seconds = Histogram(
            "headway_request_seconds", "from request to answer", ["route"], buckets=SECONDS, registry=self.registry
        )
        self.in_flight = Gauge("headway_in_flight", "requests not answered yet", registry=self.registry)
        self.texts = Counter("headway_texts", "texts translated", ["pair"], registry=self.registry)
        self.characters = Counter("headway_characters", "of texts translated", ["pair"], registry=self.registry)
        self.batches = Histogram(
            "headway_batch_texts", "texts that went through a model together", buckets=TEXTS, registry=self.registry
        )
        self.restarts = Counter("headway_restarts", "model processes that died", registry=self.registry)
        self.dropped = Gauge(
            "headway_log_dropped", "records of the log that could not be written", registry=self.registry
        )
        self.processes = Gauge("headway_processes", "model processes at work", registry=self.registry)
        self.waiting = Gauge("headway_waiting_work", "pieces times beam in the queue", registry=self.registry)

    def text(self) -> bytes:
        return generate_latest(self.registry)
