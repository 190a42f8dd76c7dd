"""A very small Kafka client: as much of the protocol as the scripts here need, with nothing but Python's own library."""

import socket
import struct

PRODUCE, FETCH, METADATA, CREATE_TOPICS = 0, 1, 3, 19
CRC32C = [0] * 256
for number in range(256):
    value = number
    for _ in range(8):
        value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    CRC32C[number] = value


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ CRC32C[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def varint(number):
    number = number << 1 ^ number >> 63
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def batch(values):
    """A record batch of these values, without keys; the same bytes may go to any partition."""
    records = b""
    for delta, value in enumerate(values):
        body = b"\0" + varint(0) + varint(delta) + varint(-1) + varint(len(value)) + value + varint(0)
        records += varint(len(body)) + body
    count = len(values)
    tail = struct.pack(">hiqqqhii", 0, count - 1, 0, 0, -1, -1, -1, count) + records
    tail = struct.pack(">I", crc32c(tail)) + tail
    return struct.pack(">qiib", 0, len(tail) + 5, -1, 2) + tail


def text(value):
    raw = value.encode()
    return struct.pack(">h", len(raw)) + raw


def array(items):
    items = list(items)
    return struct.pack(">i", len(items)) + b"".join(items)


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, code):
        size = struct.calcsize(">" + code)
        (value,) = struct.unpack_from(">" + code, self.data, self.at)
        self.at += size
        return value

    def text(self):
        size = self.take("h")
        if size < 0:
            return None
        self.at += size
        return self.data[self.at - size : self.at].decode()

    def array(self, item):
        return [item() for _ in range(self.take("i"))]


class Connection:
    """One connection; requests may be pipelined by `send` and `receive`."""

    def __init__(self, address, receive_buffer=None):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.connect(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.correlation = 0

    def send(self, api, version, body):
        self.correlation += 1
        header = struct.pack(">hhi", api, version, self.correlation) + text("scale")
        self.socket.sendall(struct.pack(">i", len(header) + len(body)) + header + body)

    def exactly(self, count):
        out = bytearray(count)
        view, got = memoryview(out), 0
        while got < count:
            more = self.socket.recv_into(view[got:])
            if not more:
                raise ConnectionError("the broker closed the connection")
            got += more
        return out

    def receive(self):
        (size,) = struct.unpack(">i", self.exactly(4))
        answer = Reader(self.exactly(size))
        answer.take("i")
        return answer

    def call(self, api, version, body):
        self.send(api, version, body)
        return self.receive()

    def close(self):
        self.socket.close()


def create_topics(connection, topics, timeout_ms=30_000):
    """Creates {name: partitions} by one request."""
    entry = lambda name, count: text(name) + struct.pack(">ih", count, 1) + array([]) + array([])
    body = array(entry(*topic) for topic in topics.items()) + struct.pack(">i?", timeout_ms, False)
    answer = connection.call(CREATE_TOPICS, 4, body)
    answer.take("i")
    for name, code, reason in answer.array(lambda: (answer.text(), answer.take("h"), answer.text())):
        if code:
            raise RuntimeError(f"{name}: error {code}, {reason}")


def metadata(connection, topics=None):
    """Brokers by id, and partitions by topic: {name: {partition: leader}}."""
    body = struct.pack(">i", -1) if topics is None else array(map(text, topics))
    answer = connection.call(METADATA, 4, body + b"\0")
    answer.take("i")

    def broker():
        node, host, port = answer.take("i"), answer.text(), answer.take("i")
        answer.text()
        return node, (host, port)

    brokers = dict(answer.array(broker))
    answer.text(), answer.take("i")

    def partition():
        code, number, leader = answer.take("h"), answer.take("i"), answer.take("i")
        answer.array(lambda: answer.take("i")), answer.array(lambda: answer.take("i"))
        if code:
            raise RuntimeError(f"partition {number}: error {code}")
        return number, leader

    def topic():
        code, name = answer.take("h"), answer.text()
        answer.take("?")
        partitions = answer.array(partition)
        if code:
            raise RuntimeError(f"{name}: error {code}")
        return name, dict(partitions)

    return brokers, dict(answer.array(topic))


def produce_body(parts, acks=-1):
    """The body of a produce: {topic: {partition: batch}}."""

    def entry(number, records):
        return struct.pack(">ii", number, len(records)) + records

    topics = array(
        text(name) + array(entry(*part) for part in partitions.items()) for name, partitions in parts.items()
    )
    return struct.pack(">hhi", -1, acks, 30_000) + topics


def produced(answer):
    """Checks an answer to a produce (v7); how many partitions it acknowledges."""
    count = 0
    for _ in range(answer.take("i")):
        name = answer.text()
        for _ in range(answer.take("i")):
            number, code = answer.take("i"), answer.take("h")
            answer.at += 24
            if code:
                raise RuntimeError(f"{name}-{number}: error {code}")
            count += 1
    return count


def produce(connection, parts):
    return produced(connection.call(PRODUCE, 7, produce_body(parts)))


def fetch_body(parts, max_bytes=50 << 20, partition_bytes=1 << 20, wait_ms=500, min_bytes=1):
    """The body of a fetch (v4): {topic: {partition: offset}}."""

    def entry(number, offset):
        return struct.pack(">iqi", number, offset, partition_bytes)

    topics = array(
        text(name) + array(entry(*part) for part in partitions.items()) for name, partitions in parts.items()
    )
    return struct.pack(">iiiib", -1, wait_ms, min_bytes, max_bytes, 0) + topics


def produce_everywhere(connections, topic, leaders, records):
    """One request a broker with `records` for each of its partitions, all in flight together."""
    parts = {}
    for number, leader in leaders.items():
        parts.setdefault(leader, {})[number] = records
    for leader, of_leader in parts.items():
        connections[leader].send(PRODUCE, 7, produce_body({topic: of_leader}))
    return sum(produced(connections[leader].receive()) for leader in parts)


def produce_one_by_one(connections, topic, leaders, records):
    """One request a partition, pipelined."""
    for number, leader in leaders.items():
        connections[leader].send(PRODUCE, 7, produce_body({topic: {number: records}}))
    return sum(produced(connections[leader].receive()) for leader in leaders.values())
