"""Topics: one of 1,000 partitions until each has acknowledged a produce, then 1,000 topics by one request."""

import sys
import time

from node import Node, empty, say
from wire import batch, create_topics, metadata, produce_everywhere, produce_one_by_one

PARTITIONS = 1000
RECORD = batch([b"first"])


for run in range(int(sys.argv[1]) if len(sys.argv) > 1 else 5):
    empty()
    with Node() as node:
        connections = node.connect_all()
        any_of_them = next(iter(connections.values()))
        use = produce_one_by_one if run % 2 else produce_everywhere
        begun = time.monotonic()
        create_topics(any_of_them, {"wide": PARTITIONS})
        created = time.monotonic()
        _, topics = metadata(any_of_them, ["wide"])
        known = time.monotonic()
        assert use(connections, "wide", topics["wide"], RECORD) == PARTITIONS
        used = time.monotonic()
        create_topics(any_of_them, {f"narrow-{number}": 1 for number in range(1000)})
        all_created = time.monotonic()
        say(
            requests=use.__name__,
            create_s=round(created - begun, 3),
            metadata_s=round(known - created, 3),
            produce_s=round(used - known, 3),
            usable_s=round(used - begun, 3),
            thousand_topics_s=round(all_created - used, 3),
            rss_mib=round(node.rss_mib(), 1),
        )
        node.stop()
empty()
