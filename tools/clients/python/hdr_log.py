"""Reads the log of a run of strandline-bench with HdrHistogram's own Python implementation: hdr_log.py RUN.

Prints OK when every distribution has the samples, percentiles and maximum that run.json says.
"""

import json
import math
import sys
from pathlib import Path

from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

DISTRIBUTIONS = {"response": "response", "service": "service", "lag": "lag", "e2e": "end_to_end"}
QUANTILES = {"p50_ns": 0.5, "p90_ns": 0.9, "p99_ns": 0.99, "p999_ns": 0.999, "p9999_ns": 0.9999}


def merged(log: Path, tag: str) -> HdrHistogram:
    """All intervals of one tag."""
    whole = HdrHistogram(1, 3_600_000_000_000, 3)
    reader = HistogramLogReader(str(log), HdrHistogram(1, 3_600_000_000_000, 3))
    while (interval := reader.get_next_interval_histogram()) is not None:
        if interval.get_tag() == tag:
            whole.add(interval)
    reader.close()
    return whole


def value_at(histogram: HdrHistogram, quantile: float) -> int:
    """The smallest value with at least this share of samples up to it. The library's own percentiles round the number of samples to the
    nearest, which among few samples is another sample."""
    wanted = math.ceil(quantile * histogram.get_total_count() - 1e-9)
    value = 0
    for step in histogram.get_recorded_iterator():
        value = step.value_iterated_to
        if step.total_count_to_this_value >= wanted:
            break
    return value


def main() -> None:
    run = Path(sys.argv[1])
    latency = json.loads((run / "run.json").read_text())["latency"]
    for tag, field in DISTRIBUTIONS.items():
        expected = latency[field]
        histogram = merged(run / "latency.hlog", tag)
        found = {
            "count": histogram.get_total_count(),
            # Both implementations keep three digits; a value may be either end of its bucket.
            **{name: value_at(histogram, at) for name, at in QUANTILES.items()},
            "max_ns": histogram.get_max_value(),
        }
        for name, value in found.items():
            right = expected[name] if expected else 0
            if abs(value - right) > right / 1000:
                sys.exit(f"{tag}.{name}: {value}, run.json says {right}")
    print("OK")


if __name__ == "__main__":
    main()
