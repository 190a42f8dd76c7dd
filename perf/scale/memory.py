"""The peak of a node's resident memory under loads that ask for much, each on a fresh node of two shards.

Usage: memory.py [SECONDS [SCENARIO...]]. The bound is the budget, 64 MiB, and 2 MiB a shard.
"""

import os
import socket
import struct
import sys
import threading
import time

from node import Node, empty, say
from wire import FETCH, METADATA, PRODUCE, batch, create_topics, fetch_body, metadata
from wire import produce_body, produced

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 15
LARGE = batch([os.urandom(1000) for _ in range(1000)])
TINY = batch([b"x" * 20])


class Load:
    """Threads that work on one node until the time is over."""

    def __init__(self, node, partitions, seconds=None):
        self.node, self.end, self.done, self.lock = node, time.monotonic() + (seconds or SECONDS), {}, threading.Lock()
        self.connections = node.connect_all()
        first = next(iter(self.connections.values()))
        if partitions:
            create_topics(first, {"wide": partitions})
            _, topics = metadata(first, ["wide"])
            self.of_leader = {}
            for number, leader in topics["wide"].items():
                self.of_leader.setdefault(leader, []).append(number)
            self.leaders = sorted(self.of_leader)
        self.threads, self.taken, self.counted = [], {}, 0.0

    def shard(self, leader):
        return self.leaders.index(leader)

    def more_time(self):
        return time.monotonic() < self.end

    def count(self, what, number=1):
        with self.lock:
            self.done[what] = self.done.get(what, 0) + number

    def start(self, work, *arguments):
        def run():
            try:
                work(self, *arguments)
            except (OSError, ConnectionError) as error:
                self.count(f"ended: {type(error).__name__}")

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        self.threads.append(thread)

    def join(self):
        while any(thread.is_alive() for thread in self.threads) and time.monotonic() < self.end + 60:
            self.counted = max(self.counted, self.node.metric("memory_used_bytes") / (1 << 20))
            time.sleep(0.3)


def produce(load, leader, records, partitions, window):
    """Requests to `partitions` of a broker, `window` of them in flight."""
    connection = load.node.connect(load.shard(leader))
    own, flying = load.of_leader[leader], 0
    # Each of a broker's threads has its own part of the partitions.
    with load.lock:
        first = load.taken.get(leader, 0)
        load.taken[leader] = first + partitions
    body = produce_body({"wide": {own[(first + step) % len(own)]: records for step in range(partitions)}})
    while load.more_time():
        connection.send(PRODUCE, 7, body)
        flying += 1
        if flying >= window:
            load.count("batches", produced(connection.receive()))
            flying -= 1
    while flying:
        load.count("batches", produced(connection.receive()))
        flying -= 1


def fetch(load, leader, partitions, max_bytes):
    """Reads partitions from their start again and again, by large answers."""
    connection = load.node.connect(load.shard(leader))
    own = load.of_leader[leader]
    chosen = {own[step % len(own)]: 0 for step in range(partitions)}
    body = fetch_body({"wide": chosen}, max_bytes=max_bytes, partition_bytes=max_bytes, wait_ms=100)
    while load.more_time():
        connection.send(FETCH, 4, body)
        (size,) = struct.unpack(">i", connection.exactly(4))
        left = size
        while left:
            left -= len(connection.socket.recv(min(left, 1 << 20)))
        load.count("fetched_mib", size / (1 << 20))


def ask_and_never_read(load, shard, api, version, body, requests=4):
    connection = load.node.connect(shard, receive_buffer=4096)
    for _ in range(requests):
        connection.send(api, version, body)
    while load.more_time():
        time.sleep(0.1)
    connection.close()


def half_send(load, shard, announced, sent):
    """A produce that announces much, of which only a part comes."""
    connection = load.node.connect(shard)
    header = struct.pack(">hhi", PRODUCE, 7, 1) + b"\0\1x"
    data = memoryview(struct.pack(">i", announced) + header + bytes(sent))
    connection.socket.settimeout(1)
    at = 0
    while load.more_time() and at < len(data):
        try:
            at += connection.socket.send(data[at : at + 65536])
        except socket.timeout:
            pass
    load.count("half_sent_mib", at / (1 << 20))
    while load.more_time():
        time.sleep(0.1)


def large_produce(node):
    load = Load(node, 40)
    for leader in load.leaders * 8:
        load.start(produce, leader, LARGE, 10, 2)
    return load


def tiny_produce(node):
    load = Load(node, 1000)
    for leader in load.leaders * 8:
        load.start(produce, leader, TINY, 500, 8)
    return load


def filled(node, partitions, seconds):
    """Data to read: more than any cache holds."""
    load = Load(node, partitions, seconds)
    for leader in load.leaders * 2:
        load.start(produce, leader, LARGE, 10, 2)
    load.join()
    load.end, load.threads = time.monotonic() + SECONDS, []
    return load


def large_fetch(node):
    load = filled(node, 40, 10)
    for leader in load.leaders * 25:
        load.start(fetch, leader, 20, 50 << 20)
    return load


def slow_readers(node):
    load = filled(node, 40, 10)
    for leader in load.leaders * 200:
        chosen = {number: 0 for number in load.of_leader[leader]}
        body = fetch_body({"wide": chosen}, partition_bytes=10 << 20, wait_ms=100)
        load.start(ask_and_never_read, load.shard(leader), FETCH, 4, body)
    for leader in load.leaders:
        load.start(fetch, leader, 20, 1 << 20)
    return load


def unread_metadata(node):
    load = Load(node, 5000)
    body = struct.pack(">i", -1) + b"\0"
    for number in range(200):
        load.start(ask_and_never_read, number % 2, METADATA, 4, body, 60)
    return load


def half_sent(node):
    load = Load(node, 40)
    for number in range(200):
        load.start(half_send, number % 2, 100_000_000, 20 << 20)
    for leader in load.leaders:
        load.start(produce, leader, LARGE, 4, 1)
    return load


def mixed(node):
    load = filled(node, 1000, 10)
    for leader in load.leaders * 2:
        load.start(produce, leader, LARGE, 20, 2)
        load.start(produce, leader, TINY, 500, 8)
    for leader in load.leaders * 10:
        load.start(fetch, leader, 20, 50 << 20)
    for leader in load.leaders * 50:
        chosen = {number: 0 for number in load.of_leader[leader][:100]}
        load.start(ask_and_never_read, load.shard(leader), FETCH, 4, fetch_body({"wide": chosen}, wait_ms=100))
    for number in range(50):
        load.start(half_send, number % 2, 100_000_000, 20 << 20)
    return load


SCENARIOS = [large_produce, tiny_produce, large_fetch, slow_readers, unread_metadata, half_sent, mixed]
chosen = sys.argv[2:]
for scenario in SCENARIOS:
    if chosen and scenario.__name__ not in chosen:
        continue
    empty()
    with Node() as node:
        load = scenario(node)
        prepared = node.peak_mib()
        load.join()
        say(
            scenario=scenario.__name__,
            peak_mib=round(node.peak_mib(), 1),
            bound_mib=node.bound_mib(),
            counted_mib=round(load.counted, 1),
            before_mib=round(prepared, 1),
            rss_at_the_end_mib=round(node.rss_mib(), 1),
            **{what: round(number) for what, number in load.done.items()},
        )
        say(stop_s=round(node.stop(), 2))
empty()
