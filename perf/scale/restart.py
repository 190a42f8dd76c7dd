"""Restart after kill -9: so many GB stored in 1,000 partitions, killed under load, again and again.

Usage: restart.py [GIGABYTES [KILLS]]. Each kill comes while produces are in flight: small batches to all partitions, and
large ones on every second turn, so that the journals are as full as a load leaves them. After each restart every record
that was acknowledged is looked for by the log's end offset.
"""

import os
import struct
import sys
import time

from node import DATA, Node, empty, say
from wire import PRODUCE, array, batch, create_topics, metadata, produce_body, produced, text

GIGABYTES = float(sys.argv[1]) if len(sys.argv) > 1 else 10
KILLS = int(sys.argv[2]) if len(sys.argv) > 2 else 5
PARTITIONS = 1000
LIST_OFFSETS = 2
LARGE = batch([os.urandom(1024) for _ in range(500)])
LARGE_RECORDS = 500
SMALL = batch([b"x" * 200])
WINDOW = 4


class Filler:
    """Keeps some produces to each broker in flight, and counts the records that were acknowledged."""

    def __init__(self, connections, leaders):
        self.connections, self.acked = connections, {}
        self.of_leader = {}
        for number, leader in leaders.items():
            self.of_leader.setdefault(leader, []).append(number)
        self.in_flight = {leader: [] for leader in connections}
        self.at = {leader: 0 for leader in connections}

    def send(self, leader, records, count, partitions):
        if len(self.in_flight[leader]) >= WINDOW:
            self.receive(leader)
        own, at = self.of_leader[leader], self.at[leader]
        chosen = {own[(at + step) % len(own)]: records for step in range(min(partitions, len(own)))}
        self.at[leader] += len(chosen)
        self.connections[leader].send(PRODUCE, 7, produce_body({"wide": chosen}))
        self.in_flight[leader].append((chosen, count))

    def receive(self, leader):
        chosen, count = self.in_flight[leader].pop(0)
        assert produced(self.connections[leader].receive()) == len(chosen)
        for number in chosen:
            self.acked[number] = self.acked.get(number, 0) + count

    def drain(self):
        for leader, waiting in self.in_flight.items():
            while waiting:
                self.receive(leader)


def end_offsets(connection, numbers):
    body = struct.pack(">ib", -1, 0) + array([text("wide") + array(struct.pack(">iiq", n, -1, -1) for n in numbers)])
    answer = connection.call(LIST_OFFSETS, 4, body)
    answer.take("i")
    ends = {}
    for _ in range(answer.take("i")):
        answer.text()
        for _ in range(answer.take("i")):
            number, code = answer.take("i"), answer.take("h")
            answer.take("q")
            offset = answer.take("q")
            answer.take("i")
            assert code == 0, f"partition {number}: error {code}"
            ends[number] = offset
    return ends


def stored_gb():
    folders = os.walk(os.path.join(DATA))
    return sum(os.path.getsize(os.path.join(at, name)) for at, _, names in folders for name in names) / 1e9


empty()
node = Node()
acked = {}
try:
    connections = node.connect_all()
    create_topics(next(iter(connections.values())), {"wide": PARTITIONS})
    _, topics = metadata(next(iter(connections.values())), ["wide"])
    filler = Filler(connections, topics["wide"])
    begun = time.monotonic()
    for _ in range(int(GIGABYTES * 1e9 / len(LARGE) / 4 / len(connections))):
        for leader in connections:
            filler.send(leader, LARGE, LARGE_RECORDS, 4)
    filler.drain()
    say(filled_gb=round(stored_gb(), 2), seconds=round(time.monotonic() - begun, 1), peak_mib=round(node.peak_mib(), 1))
    acked = filler.acked
    for kill in range(KILLS):
        filler = Filler(connections, topics["wide"])
        filler.acked = acked
        until = time.monotonic() + 4
        while time.monotonic() < until:
            for leader in connections:
                if kill % 2:
                    filler.send(leader, LARGE, LARGE_RECORDS, 1)
                filler.send(leader, SMALL, 1, PARTITIONS)
        peak = node.peak_mib()
        node.kill()
        node = Node()
        connections = node.connect_all()
        ends = {}
        for leader, numbers in filler.of_leader.items():
            ends.update(end_offsets(connections[leader], numbers))
        lost = sum(ends[number] < count for number, count in acked.items())
        assert not lost, f"{lost} partitions lost acknowledged records"
        say(
            restart_s=round(node.ready_seconds, 3),
            stored_gb=round(stored_gb(), 2),
            peak_before_mib=round(peak, 1),
            peak_of_restart_mib=round(node.peak_mib(), 1),
        )
        acked = {number: ends[number] for number in ends}
    say(stop_s=round(node.stop(), 3))
    node = Node()
    say(clean_restart_s=round(node.ready_seconds, 3), rss_mib=round(node.rss_mib(), 1))
    node.stop()
finally:
    if node.process.poll() is None:
        node.kill()
    empty()
