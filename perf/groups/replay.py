"""How long a coordinator replays a million committed offsets after kill -9.

Usage: replay.py [GROUPS [PARTITIONS]]: each group commits every partition of one topic, in requests of 500. One shard, one
partition of __consumer_offsets, MEMORY_MIB of memory (1024). The figure is the broker's own, from its log line. Asks for SCALE_BIN
and SCALE_DATA as the scripts of ../scale do.
"""

import os
import struct
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../scale"))
from node import Node, empty, say
from wire import array, create_topics, text

GROUPS = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
PARTITIONS = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
MEMORY_MIB = int(os.environ.get("MEMORY_MIB", "1024"))
OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 8, 9, 10
PART, WINDOW = 500, 8
SETTINGS = ["--set", "offsets.topic.num.partitions=1", "--set", f"strandline.memory.bytes={MEMORY_MIB << 20}"]


def commit(connection, group, first):
    entries = (struct.pack(">iqi", number, number, -1) + text("") for number in range(first, min(first + PART, PARTITIONS)))
    body = text(group) + struct.pack(">i", -1) + text("") + struct.pack(">h", -1)
    connection.send(OFFSET_COMMIT, 7, body + array([text("offsets") + array(entries)]))


def committed(connection):
    answer = connection.receive()
    answer.take("i")
    for _ in range(answer.take("i")):
        answer.text()
        for _ in range(answer.take("i")):
            number, code = answer.take("i"), answer.take("h")
            assert code == 0, f"partition {number}: error {code}"


def fetched(connection, group):
    """How many offsets the group has; waits until it is loaded."""
    while True:
        answer = connection.call(OFFSET_FETCH, 2, text(group) + struct.pack(">i", -1))
        count = 0
        for _ in range(answer.take("i")):
            answer.text()
            for _ in range(answer.take("i")):
                number, offset = answer.take("i"), answer.take("q")
                answer.text(), answer.take("h")
                count += number == offset
        code = answer.take("h")
        if code == 0:
            return count
        assert code == 14, f"error {code}"


empty()
with Node(*SETTINGS, shards=1) as node:
    connection = node.connect()
    create_topics(connection, {"offsets": PARTITIONS})
    connection.call(FIND_COORDINATOR, 1, text("group-0") + b"\0")
    under_way, begun = 0, time.monotonic()
    for group in range(GROUPS):
        for first in range(0, PARTITIONS, PART):
            if under_way == WINDOW:
                committed(connection)
                under_way -= 1
            commit(connection, f"group-{group}", first)
            under_way += 1
    for _ in range(under_way):
        committed(connection)
    say(offsets=GROUPS * PARTITIONS, committed_in=round(time.monotonic() - begun, 2), peak_mib=round(node.peak_mib()))
    node.kill()
for _ in range(3):
    with Node(*SETTINGS, shards=1) as node:
        begun = time.monotonic()
        connection = node.connect()
        assert fetched(connection, f"group-{GROUPS - 1}") == PARTITIONS
        say(ready=round(node.ready_seconds, 2), served_after_ready=round(time.monotonic() - begun, 2), peak_mib=round(node.peak_mib()))
        node.kill()
empty()
