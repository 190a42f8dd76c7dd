"""The cleaner and retention, each against what it may cost: perf/compaction.md.

Usage: compaction.py speed [MEGABYTES] | tail [MEGABYTES [SECONDS]] | retention [PARTITIONS]
One run; a line of JSON a figure.
"""

import json
import os
import subprocess
import sys
import time

from node import BINARIES, DATA, MIB, Node, empty, say
from wire import PRODUCE, batch, create_topics, metadata, produce_body, produced

BENCH = os.path.join(BINARIES, "strandline-bench")
RECORD_BYTES = 1024
PATIENCE_S = 120
# Until a broker that has just started has filled its journal, and the disk has taken what came before.
REST_S = 5
OFF = ["--set", "log.cleaner.enable=false"]
ON = ["--set", "log.cleaner.enable=true", "--set", "log.cleaner.backoff.ms=20"]


def bench(*arguments):
    command = [BENCH, *arguments, "--json"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    if not run.stdout.strip():
        raise RuntimeError(run.stderr[-2000:])
    return json.loads(run.stdout)


def at(node):
    return ",".join(f"{host}:{port}" for host, port in node.addresses)


def fill(megabytes, keys):
    """A compacted topic of one partition that nobody has cleaned, in segments of 64 MiB."""
    empty()
    with Node(*OFF, shards=1) as node:
        configs = ["cleanup.policy=compact", f"segment.bytes={64 * MIB}", "min.cleanable.dirty.ratio=0.01"]
        records = megabytes * MIB // RECORD_BYTES
        bench(
            "run", "--quiet", "-b", at(node), "--topic", "dirty", "--keep-topic", "--partitions", "1", "--rate", "max",
            "--num-records", str(records), "--record-size", str(RECORD_BYTES), "--batch", "256KiB", "--window", "8", "--keys", f"random:{keys}",
            "--consumers", "0", "--no-verify", "--output", os.path.join(DATA, "bench"), *[word for config in configs for word in ("--topic-config", config)])
        node.stop()


def wait_for(condition):
    until = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > until:
            raise RuntimeError("it does not come to an end")
        time.sleep(0.05)


def speed(megabytes=1000):
    fill(megabytes, megabytes * MIB // RECORD_BYTES // 4)
    limits = bench("limits", "--each", "0.5s", "--data-dir", DATA)
    read, write = limits["sequential_read"]["median"], limits["sequential_write"]["median"]
    with Node(*OFF, shards=1) as node:
        idle = node.rss_mib()
        node.stop()
    with Node(*ON, shards=1) as node:
        wait_for(lambda: node.metric("cleaner_cleanings_total") >= 1)
        was_read, written = node.metric("cleaner_read_bytes_total"), node.metric("cleaner_written_bytes_total")
        seconds = node.metric("cleaner_milliseconds_total") / 1000
        raw_seconds = was_read / read + written / write
        say(
            cleaned_mb_s=round((was_read + written) / seconds / 1e6), raw_read_mb_s=round(read / 1e6), raw_write_mb_s=round(write / 1e6),
            ratio=round(raw_seconds / seconds, 2), read_mb=round(was_read / 1e6), written_mb=round(written / 1e6), seconds=round(seconds, 2),
            records_read=int(node.metric("cleaner_records_read_total")), records_kept=int(node.metric("cleaner_records_kept_total")),
            idle_rss_mib=round(idle, 1), peak_rss_mib=round(node.peak_mib(), 1))
        node.stop()
    empty()


def tail(megabytes=1000, seconds=8):
    """Produce p99 to another topic of the shard, without and with the cleaner at work all the time: its map is so small that it begins anew."""
    figures = {}
    for side, settings in (("without", OFF), ("with", [*ON, "--set", "log.cleaner.dedupe.buffer.size=262144"])):
        fill(megabytes, megabytes * MIB // RECORD_BYTES)
        with Node(*settings, shards=1) as node:
            wait_for(lambda: side == "without" or node.metric("cleaner_cleanings_total") >= 1)
            time.sleep(REST_S)
            before = node.metric("cleaner_read_bytes_total")
            run = bench(
                "run", "--quiet", "-b", at(node), "--topic", "tail", "--partitions", "4", "--rate", "2k", "--record-size", "1KiB", "--duration",
                f"{seconds}s", "--consumers", "0", "--no-verify", "--output", os.path.join(DATA, "bench"))
            after = node.metric("cleaner_read_bytes_total")
            dirty = node.metric("cleaner_max_dirty_percent")
            figures[side] = run["latency"]["response"]
            say(
                side=side, p50_us=figures[side]["p50_ns"] // 1000, p99_us=figures[side]["p99_ns"] // 1000, p999_us=figures[side]["p999_ns"] // 1000,
                valid=run["verdict"]["valid"], cleaned_mb=round((after - before) / 1e6), still_dirty_percent=dirty)
            node.stop()
    say(p99_ratio=round(figures["with"]["p99_ns"] / figures["without"]["p99_ns"], 2))
    empty()


def retention(partitions=10_000):
    """Rounds over so many partitions on one shard, in one of which every partition loses a segment; the longest turn of each task."""
    empty()
    settings = ["log.initial.task.delay.ms=0", "log.retention.check.interval.ms=1000", "log.retention.ms=10000", "log.segment.delete.delay.ms=0"]
    with Node(*[word for setting in settings for word in ("--set", setting)], shards=1) as node:
        connection = node.connect()
        create_topics(connection, {"wide": partitions})
        _, topics = metadata(connection, ["wide"])
        numbers = list(topics["wide"])
        records = batch([b"x" * 200])
        for first in range(0, len(numbers), 1000):
            connection.send(PRODUCE, 7, produce_body({"wide": {number: records for number in numbers[first : first + 1000]}}))
            assert produced(connection.receive()) == len(numbers[first : first + 1000])
        wait_for(lambda: node.metric("retention_segments_by_time_total") >= partitions)
        rounds = node.metric("retention_rounds_total")
        wait_for(lambda: node.metric("retention_rounds_total") >= rounds + 5)
        say(
            partitions=partitions, rounds=int(node.metric("retention_rounds_total")),
            retention_turn_us=int(node.metric("retention_longest_turn_microseconds")),
            checkpoint_turn_us=int(node.metric("write_back_longest_turn_microseconds")))
        node.stop()
    empty()


{"speed": speed, "tail": tail, "retention": retention}[sys.argv[1]](*map(int, sys.argv[2:]))
