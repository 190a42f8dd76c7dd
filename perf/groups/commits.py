"""Offset commits a second, each acknowledged before its connection sends the next.

Usage: commits.py HOST:PORT CONNECTIONS SECONDS. Each connection commits one partition for a group of its own. A line of JSON.
"""

import json
import selectors
import struct
import sys
import time
import uuid

from driver import Connection, coordinator
from wire import array, create_topics, text

OFFSET_COMMIT, VERSION = 8, 7
host, port = sys.argv[1].rsplit(":", 1)
address, connections, seconds = (host, int(port)), int(sys.argv[2]), float(sys.argv[3])
topic = f"perf-{uuid.uuid4()}"
create_topics(Connection(address), {topic: 1})
"""What one frame has behind its offset: leader epoch, metadata."""
TAIL = struct.pack(">i", -1) + text("")


class Committer:
    def __init__(self):
        group = f"perf-{uuid.uuid4()}"
        self.socket = Connection(coordinator(address, group)).socket
        body = text(group) + struct.pack(">i", -1) + text("") + struct.pack(">h", -1)
        body += array([text(topic) + array([struct.pack(">iq", 0, 0) + TAIL])])
        header = struct.pack(">hhi", OFFSET_COMMIT, VERSION, 1) + text("perf")
        self.frame = bytearray(struct.pack(">i", len(header) + len(body)) + header + body)
        self.offset = 0

    def send(self):
        self.offset += 1
        struct.pack_into(">q", self.frame, len(self.frame) - len(TAIL) - 8, self.offset)
        self.socket.sendall(self.frame)

    def receive(self):
        # A small answer comes whole; its last two bytes are the partition's code.
        answer = self.socket.recv(4096)
        if len(answer) < 6 or len(answer) != 4 + struct.unpack_from(">i", answer)[0] or answer[-2:] != b"\0\0":
            raise RuntimeError(f"not an answer without error: {answer.hex()}")


committers = [Committer() for _ in range(connections)]
selector = selectors.DefaultSelector()
for committer in committers:
    selector.register(committer.socket, selectors.EVENT_READ, committer)
    committer.send()
"""The first part warms up and does not count."""
begun, counted, done = time.monotonic() + seconds / 4, 0, False
while not done:
    for key, _ in selector.select():
        key.data.receive()
        key.data.send()
        counted += 1
    now = time.monotonic()
    if now < begun:
        counted = 0
    done = now >= begun + seconds
print(json.dumps({"connections": connections, "commits_per_second": round(counted / (now - begun))}))
