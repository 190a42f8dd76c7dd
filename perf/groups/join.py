"""Seconds from the first join until every member has its assignment.

Usage: join.py HOST:PORT MEMBERS [classic|consumer]. A line of JSON: `start`, all members of a new group join at once;
`again` (classic only), all join a stable group again at once.
"""

import json
import sys
import uuid

from driver import Classic, Connection, Consumer, Group
from wire import create_topics

address, size = sys.argv[1].rsplit(":", 1), int(sys.argv[2])
address = (address[0], int(address[1]))
kind = Consumer if sys.argv[3:] == ["consumer"] else Classic
topic = f"perf-{uuid.uuid4()}"
create_topics(Connection(address), {topic: size})
group = Group(address, kind, size, topic, size)
figures = {"members": size, "start": round(group.settle(), 4)}
if kind is Classic:
    figures["again"] = round(group.again(), 4)
group.close()
print(json.dumps(figures))
