"""Members of one group on connections of their own, driven by one thread: the same for every broker.

A member does what clients do: it joins, takes its assignment, sends heartbeats, and joins again when it is told to. Two
protocols: `Classic` (JoinGroup, SyncGroup, Heartbeat) and `Consumer` (ConsumerGroupHeartbeat, KIP-848).
"""

import os
import selectors
import socket
import struct
import sys
import time
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../scale"))
from wire import Connection, Reader, array, text

FIND_COORDINATOR, JOIN, HEARTBEAT, SYNC, CONSUMER_HEARTBEAT = 10, 11, 12, 14, 68
REBALANCE_IN_PROGRESS, MEMBER_ID_REQUIRED = 27, 79
RETRIABLE = (14, 15, 16)
"""How long a run may take."""
LIMIT_SECONDS = 120


def coordinator(address, group):
    """Where the coordinator of a group listens, once it serves: a topic of offsets that was just made takes a moment."""
    connection, until = Connection(address), time.monotonic() + 30
    while True:
        answer = connection.call(FIND_COORDINATOR, 1, text(group) + b"\0")
        answer.take("i")
        code, _, _, host, port = answer.take("h"), answer.text(), answer.take("i"), answer.text(), answer.take("i")
        if code == 0:
            found = Connection((host, port))
            nobody = text(group) + struct.pack(">i", 1) + text("nobody") + struct.pack(">h", -1)
            answer = found.call(HEARTBEAT, 3, nobody)
            answer.take("i")
            code = answer.take("h")
            found.close()
            if code not in RETRIABLE:
                connection.close()
                return host, port
        elif code not in RETRIABLE:
            raise RuntimeError(f"coordinator of {group}: error {code}")
        if time.monotonic() > until:
            raise RuntimeError(f"coordinator of {group}: still error {code}")
        time.sleep(0.05)


def compact(value):
    return varint(len(value.encode()) + 1) + value.encode()


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out + bytes([number]))


class Flexible(Reader):
    def varint(self):
        value = shift = 0
        while True:
            byte = self.take("B")
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def text(self):
        size = self.varint() - 1
        if size < 0:
            return None
        self.at += size
        return self.data[self.at - size : self.at].decode()

    def tags(self):
        for _ in range(self.varint()):
            self.varint()
            self.at += self.varint()


class Member:
    """A connection with at most one request under way."""

    def __init__(self, group, address):
        self.group, self.name, self.id = group, group.name, ""
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received, self.busy, self.due = bytearray(), None, None

    def send(self, api, version, body, flexible=False):
        header = struct.pack(">hhi", api, version, 1) + text("perf") + (b"\0" if flexible else b"")
        self.busy, self.due = api, None
        self.socket.sendall(struct.pack(">i", len(header) + len(body)) + header + body)

    def readable(self):
        more = self.socket.recv(1 << 20)
        if not more:
            raise ConnectionError("the broker closed the connection")
        self.received += more
        if len(self.received) < 4:
            return
        (size,) = struct.unpack_from(">i", self.received)
        if len(self.received) >= 4 + size:
            frame, self.received = bytes(self.received[4 : 4 + size]), self.received[4 + size :]
            api, self.busy = self.busy, None
            self.answered(api, frame)

    def rest(self):
        """The next heartbeat, some time later."""
        self.due = time.monotonic() + self.group.heartbeat_seconds


class Classic(Member):
    def __init__(self, group, address):
        super().__init__(group, address)
        self.generation, self.assigned, self.joined = -1, None, None

    def join(self):
        self.assigned = None
        # A changed subscription is what makes a coordinator rebalance a stable group.
        subscription = struct.pack(">h", 0) + array([text(self.group.topic)]) + struct.pack(">ii", 4, self.group.round)
        protocol = text("range") + struct.pack(">i", len(subscription)) + subscription
        body = text(self.name) + struct.pack(">ii", 45_000, 60_000) + text(self.id) + struct.pack(">h", -1)
        self.send(JOIN, 5, body + text("consumer") + array([protocol]))

    def sync(self, assignments=()):
        body = text(self.name) + struct.pack(">i", self.generation) + text(self.id) + struct.pack(">h", -1)
        self.send(SYNC, 3, body + array(assignments))

    def beat(self):
        body = text(self.name) + struct.pack(">i", self.generation) + text(self.id) + struct.pack(">h", -1)
        self.send(HEARTBEAT, 3, body)

    def answered(self, api, frame):
        answer = Reader(frame)
        answer.take("i"), answer.take("i")
        code = answer.take("h")
        if api == JOIN and code in (0, MEMBER_ID_REQUIRED):
            self.generation = answer.take("i")
            answer.text()
            leader, self.id = answer.text(), answer.text()
            if code:
                return self.join()
            if leader != self.id:
                return self.sync()
            members = []
            for _ in range(answer.take("i")):
                members.append(answer.text())
                answer.text()
                size = answer.take("i")
                answer.at += size
            return self.sync(self.group.assign(members))
        if code == REBALANCE_IN_PROGRESS:
            return self.join()
        if code:
            raise RuntimeError(f"API {api}: error {code}")
        if api == SYNC:
            self.assigned = self.generation
            self.group.has_changed = True
        self.rest()


class Consumer(Member):
    def __init__(self, group, address):
        super().__init__(group, address)
        self.id, self.epoch, self.owned, self.told = str(uuid.uuid4()), 0, {}, None

    def join(self):
        self.beat()

    def beat(self):
        body = compact(self.name) + compact(self.id) + struct.pack(">i", self.epoch) + b"\0\0"
        is_first, self.told = self.epoch == 0, dict(self.owned)
        owned = varint(len(self.owned) + 1)
        for topic, numbers in self.owned.items():
            owned += topic + varint(len(numbers) + 1) + struct.pack(f">{len(numbers)}i", *numbers) + b"\0"
        names = varint(2) + compact(self.group.topic) if is_first else b"\0"
        body += struct.pack(">i", 60_000 if is_first else -1) + names + b"\0" + owned + b"\0"
        self.send(CONSUMER_HEARTBEAT, 0, body, flexible=True)

    def answered(self, api, frame):
        answer = Flexible(frame)
        answer.take("i")
        answer.tags()
        answer.take("i")
        code, reason = answer.take("h"), answer.text()
        if code in RETRIABLE:
            # As clients do: the same again, a little later.
            self.due = time.monotonic() + 0.1
            return None
        if code:
            raise RuntimeError(f"API {api}: error {code}, {reason}")
        self.id, self.epoch, _ = answer.text() or self.id, answer.take("i"), answer.take("i")
        if answer.take("b") > 0:
            owned = {}
            for _ in range(answer.varint() - 1):
                topic = answer.data[answer.at : answer.at + 16]
                answer.at += 16
                owned[topic] = [answer.take("i") for _ in range(answer.varint() - 1)]
                answer.tags()
            self.owned = {topic: numbers for topic, numbers in owned.items() if numbers}
        self.group.has_changed = True
        if self.owned != self.told:
            # What was given up or taken is told at once.
            return self.beat()
        return self.rest()


class Group:
    def __init__(self, address, kind, size, topic, partitions, heartbeat_seconds=0.5):
        self.name, self.topic, self.partitions = f"perf-{uuid.uuid4()}", topic, partitions
        self.kind, self.heartbeat_seconds, self.round, self.has_changed = kind, heartbeat_seconds, 0, False
        found = coordinator(address, self.name)
        self.selector = selectors.DefaultSelector()
        self.members = [kind(self, found) for _ in range(size)]
        for member in self.members:
            self.selector.register(member.socket, selectors.EVENT_READ, member)

    def assign(self, members):
        """One partition after the other, member by member; what a leader sends with its SyncGroup."""
        for at, member in enumerate(members):
            own = range(at, self.partitions, len(members))
            body = struct.pack(">h", 0) + array([text(self.topic) + array(struct.pack(">i", p) for p in own)])
            body += struct.pack(">i", -1)
            yield text(member) + struct.pack(">i", len(body)) + body

    def is_settled(self):
        if self.kind is Classic:
            generations = {member.assigned for member in self.members}
            return len(generations) == 1 and None not in generations
        epochs = {member.epoch for member in self.members}
        owned = [number for member in self.members for numbers in member.owned.values() for number in numbers]
        return len(epochs) == 1 and len(owned) == self.partitions == len(set(owned))

    def settle(self):
        """All join now; the seconds until every member has its part of one and the same assignment."""
        begun = time.monotonic()
        for member in self.members:
            member.join()
        while True:
            now = time.monotonic()
            if now - begun > LIMIT_SECONDS:
                raise RuntimeError("the group does not settle")
            due = [member for member in self.members if member.due and member.due <= now]
            for member in due:
                member.beat()
            self.has_changed = False
            for key, _ in self.selector.select(0.005):
                key.data.readable()
            if self.has_changed and self.is_settled():
                return time.monotonic() - begun

    def again(self):
        """A rebalance in which everybody joins at once: what the coordinator itself takes for it."""
        while any(member.busy for member in self.members):
            for key, _ in self.selector.select(0.005):
                key.data.readable()
        self.round += 1
        return self.settle()

    def close(self):
        for member in self.members:
            member.socket.close()
