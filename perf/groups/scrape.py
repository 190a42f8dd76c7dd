"""What a scrape of `/metrics` costs with many partitions and groups: its time and size, and what a client sees meanwhile.

Usage: scrape.py [GROUPS [PARTITIONS]]: each group has committed four partitions of a topic of PARTITIONS. A client asks a shard
for its API versions without a pause: the slowest of its answers says how long the shard was busy with something else at most.
Asks for SCALE_BIN and SCALE_DATA as the scripts of ../scale do.
"""

import os
import struct
import sys
import threading
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../scale"))
from driver import coordinator
from node import Node, empty, say
from wire import Connection, array, create_topics, text

GROUPS = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
PARTITIONS = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
OFFSET_COMMIT, API_VERSIONS, WINDOW = 8, 18, 64


def fill(node):
    first = node.connect()
    create_topics(first, {"wide": PARTITIONS})
    connections, under_way = {}, []
    for number in range(GROUPS):
        group = f"group-{number}"
        at = coordinator(node.addresses[0], group)
        if at not in connections:
            connections[at] = Connection(at)
        numbers = ((4 * number + step) % PARTITIONS for step in range(4))
        entries = (struct.pack(">iqi", partition, 7, -1) + text("") for partition in numbers)
        body = text(group) + struct.pack(">i", -1) + text("") + struct.pack(">h", -1)
        connections[at].send(OFFSET_COMMIT, 7, body + array([text("wide") + array(entries)]))
        under_way.append(connections[at])
        if len(under_way) == WINDOW:
            under_way.pop(0).receive()
    for connection in under_way:
        connection.receive()


def answers(node, until):
    """Seconds of each answer to a request that costs nothing, one after the other, until told."""
    connection, seconds = node.connect(), []
    while not until():
        begun = time.monotonic()
        connection.call(API_VERSIONS, 0, b"")
        seconds.append(time.monotonic() - begun)
    seconds.sort()
    return seconds


def slowest(seconds):
    ms = lambda value: round(value * 1000, 2)
    return {"p50_ms": ms(seconds[len(seconds) // 2]), "p99_ms": ms(seconds[len(seconds) * 99 // 100]), "max_ms": ms(seconds[-1])}


empty()
with Node() as node:
    fill(node)
    over = time.monotonic() + 2
    say(scraped=False, **slowest(answers(node, lambda: time.monotonic() > over)))
    took, page, done = [], b"", threading.Event()

    def scrape():
        global page
        host, port = node.http
        for _ in range(5):
            begun = time.monotonic()
            page = urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=60).read()
            took.append(round(time.monotonic() - begun, 3))
        done.set()

    thread = threading.Thread(target=scrape)
    thread.start()
    seen = answers(node, done.is_set)
    thread.join()
    series = page.count(b"\nstrandline_group_lag{")
    say(scraped=True, seconds=took, page_mib=round(len(page) / (1 << 20), 1), lag_series=series, **slowest(seen))
    assert series == 4 * GROUPS, series
empty()
