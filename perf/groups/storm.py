"""What a rebalance storm on one shard costs a producer on another.

Usage: storm.py HOST:PORT MEMBERS SECONDS. A producer sends one record after the other (acks=all) to a partition whose leader is not
the coordinator of a group; first alone, then while the group rebalances without a pause: all its members of the classic protocol
join again and again. Three turns each. A line of JSON: milliseconds of the produces, and how many rebalances there were.
"""

import json
import multiprocessing
import sys
import time
import uuid

from driver import Classic, Connection, Group, coordinator
from wire import batch, create_topics, metadata, produce

host, port = sys.argv[1].rsplit(":", 1)
address, members, seconds = (host, int(port)), int(sys.argv[2]), float(sys.argv[3])


def elsewhere(topic, coordinator_at):
    """A partition that another broker leads, and where."""
    brokers, topics = metadata(Connection(address), [topic])
    for partition, leader in topics[topic].items():
        if brokers[leader] != coordinator_at:
            return partition, brokers[leader]
    raise RuntimeError("one shard alone: there is no other")


def produces(topic, partition, at, seconds, answers):
    connection, parts = Connection(at), {topic: {partition: batch([b"x" * 100])}}
    took, until = [], time.monotonic() + seconds
    while (begun := time.monotonic()) < until:
        produce(connection, parts)
        took.append(time.monotonic() - begun)
    took.sort()
    ms = lambda share: round(took[int(len(took) * share)] * 1000, 3)
    answers.put({"produces": len(took), "p50_ms": ms(0.5), "p99_ms": ms(0.99)})


topic = f"perf-{uuid.uuid4()}"
create_topics(Connection(address), {topic: 8})
group = Group(address, Classic, members, topic, members)
partition, leader = elsewhere(topic, coordinator(address, group.name))
group.settle()
answers = multiprocessing.Queue()
for storms in [False, True] * 3:
    producer = multiprocessing.Process(target=produces, args=(topic, partition, leader, seconds, answers))
    producer.start()
    rebalances = 0
    while producer.is_alive():
        if storms:
            group.again()
            rebalances += 1
        else:
            producer.join()
    print(json.dumps({"members": members, "storm": storms, "rebalances": rebalances, **answers.get()}))
group.close()
