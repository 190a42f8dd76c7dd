"""How long from the start of the process to its `ready:` line: an empty directory, then the same one again."""

import sys

from node import Node, empty, say

for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 5):
    empty()
    with Node() as node:
        fresh, rss = node.ready_seconds, node.rss_mib()
        stopped = node.stop()
    with Node() as node:
        say(
            fresh_s=round(fresh, 3),
            stop_s=round(stopped, 3),
            again_s=round(node.ready_seconds, 3),
            rss_mib=round(rss, 1),
        )
        node.stop()
empty()
