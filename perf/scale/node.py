"""Starts and stops a broker, and reads what the kernel counts of it."""

import json
import os
import select
import shutil
import signal
import subprocess
import time
import urllib.request

from wire import Connection, metadata

HERE = os.path.dirname(os.path.abspath(__file__))
BINARIES = os.environ.get("SCALE_BIN", os.path.join(HERE, "../../target/release"))
DATA = os.environ.get("SCALE_DATA", "/var/tmp/strandline-scale")
TICKS = os.sysconf("SC_CLK_TCK")
MIB = 1 << 20


def load():
    """The machine's load average over the last minute: others may be at work."""
    return open("/proc/loadavg").read().split()[0]


def empty():
    shutil.rmtree(DATA, ignore_errors=True)


class Node:
    """A broker of two shards, as it starts by default."""

    def __init__(self, *arguments, shards=2):
        self.shards = shards
        command = [os.path.join(BINARIES, "strandline"), "--data-dir", DATA, "--port", "0", "--http-port", "0"]
        command += ["--shards", str(shards), *arguments]
        begun = time.monotonic()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        answered, _, _ = select.select([self.process.stdout], [], [], 60)
        line = self.process.stdout.readline() if answered else "nothing within a minute"
        self.ready_seconds = time.monotonic() - begun
        if not line.startswith("ready:"):
            self.process.kill()
            raise RuntimeError(f"the broker did not start: {line!r}")
        words = line.replace(",", "").split()
        at = words.index("PLAINTEXT") + 1
        self.addresses = [address(word) for word in words[at : at + shards]]
        self.http = address(words[words.index("HTTP") + 1])

    def connect(self, shard=0, **options):
        return Connection(self.addresses[shard], **options)

    def connect_all(self):
        """A connection to each broker, by its id."""
        brokers, _ = metadata(self.connect(), [])
        return {broker: self.connect(shard) for shard, broker in enumerate(sorted(brokers))}

    def status(self, field):
        for line in open(f"/proc/{self.process.pid}/status"):
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024

    def rss_mib(self):
        return self.status("VmRSS") / MIB

    def peak_mib(self):
        return self.status("VmHWM") / MIB

    def forget_peak(self):
        open(f"/proc/{self.process.pid}/clear_refs", "w").write("5")

    def metric(self, name):
        """The sum of a figure over all shards."""
        host, port = self.http
        page = urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=30).read().decode()
        return sum(float(line.split()[-1]) for line in page.splitlines() if line.startswith(f"strandline_{name}{{"))

    def cpu_seconds(self):
        """User and system time so far, of the whole process."""
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def bound_mib(self, budget_mib=None):
        """What the process may take: budget, 64 MiB, and 2 MiB a shard."""
        return (budget_mib or 256 * self.shards) + 64 + 2 * self.shards

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        begun = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        if code:
            raise RuntimeError(f"the broker ended with {code}")
        return time.monotonic() - begun

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.kill()


def address(word):
    host, port = word.rsplit(":", 1)
    return host, int(port)


def say(**figures):
    """One line of JSON, so that runs can be put side by side."""
    print(json.dumps({"load": load(), **figures}), flush=True)
