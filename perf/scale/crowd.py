"""Many connections of one process: each asks for metadata once, then rests until stdin ends, then asks again.

Usage: crowd.py COUNT PORT...
"""

import resource
import sys
import time

from wire import METADATA, Connection, array, metadata

count, ports = int(sys.argv[1]), [int(port) for port in sys.argv[2:]]
limit = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (limit[1], limit[1]))
begun = time.monotonic()
crowd = []
for number in range(count):
    connection = Connection(("127.0.0.1", ports[number % len(ports)]))
    metadata(connection, [])
    crowd.append(connection)
print(f"{count} connections made and answered in {time.monotonic() - begun:.2f} s", flush=True)
sys.stdin.read()
begun = time.monotonic()
# All at once: then the answers.
for connection in crowd:
    connection.send(METADATA, 4, array([]) + b"\0")
for connection in crowd:
    connection.receive()
print(f"all asked at once again: answered in {time.monotonic() - begun:.2f} s", flush=True)
