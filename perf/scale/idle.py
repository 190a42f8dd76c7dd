"""What a node with 1,000 partitions costs while nothing happens: processor time and memory.

Usage: idle.py [SECONDS [CONNECTIONS]]; the connections are made by another process and rest.
"""

import subprocess
import sys
import time

from node import HERE, Node, empty, say
from wire import batch, create_topics, metadata, produce_everywhere

SECONDS = int(sys.argv[1]) if len(sys.argv) > 1 else 20
CONNECTIONS = int(sys.argv[2]) if len(sys.argv) > 2 else 0


def measure(node, what):
    before, begun = node.cpu_seconds(), time.monotonic()
    time.sleep(SECONDS)
    spent = time.monotonic() - begun
    percent = 100 * (node.cpu_seconds() - before) / spent
    say(what=what, cpu_percent_of_a_core=round(percent, 2), rss_mib=round(node.rss_mib(), 1))


empty()
with Node() as node:
    measure(node, "empty")
    connections = node.connect_all()
    any_of_them = next(iter(connections.values()))
    create_topics(any_of_them, {"wide": 1000})
    _, topics = metadata(any_of_them, ["wide"])
    measure(node, "1,000 partitions, never written")
    produce_everywhere(connections, "wide", topics["wide"], batch([b"x" * 100]))
    time.sleep(5)
    measure(node, "1,000 partitions, written once")
    if CONNECTIONS:
        ports = [str(port) for _, port in node.addresses]
        command = [sys.executable, f"{HERE}/crowd.py", str(CONNECTIONS), *ports]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as crowd:
            print(crowd.stdout.readline().strip())
            measure(node, f"and {CONNECTIONS} idle connections")
            begun = time.monotonic()
            produce_everywhere(connections, "wide", topics["wide"], batch([b"x" * 100]))
            say(what="a record to each partition beside them", seconds=round(time.monotonic() - begun, 3))
            crowd.stdin.close()
            print(crowd.stdout.readline().strip())
        time.sleep(2)
        say(what="after they left", rss_mib=round(node.rss_mib(), 1))
    stopped = node.stop()
    say(what="stop", seconds=round(stopped, 3))
empty()
