"""The line protocol between the runner and a client library, shared by the Python drivers.

A request is one line `COMMAND key=value ...`, followed by `count` record lines for `produce`. The answer is
`ok N` and N lines, or `error TEXT`. A record line is

    PARTITION-OR-OFFSET TIMESTAMP KEY VALUE [NAME=VALUE]...

with bytes as `x` and hex digits, so that `x` is empty and `-` is null.

`tails topic=T partition=P end=E` reads the partition once from every offset 0 to E - 1 up to the record at E - 1; its answer has a
line for each start, the offsets that were read with commas between.

`drain topics=T,... records=N`, of kafkajs alone: N records of partition 0 of these topics, read in a group of its own; each line
has the number of the topic before the record.

A member of a group lives from `join topic=T group=G [assignor=A] [pattern=P] [create=true|false]` to `leave`, or until the process
dies; the assignor `consumer` stands for the consumer protocol, in which the broker assigns and matches patterns; `create` says whether
the topic may come to be by being subscribed to, where it is not the library that says. `poll ms=M`
gives a line `PARTITION OFFSET` for each record that came, `assigned` a line for each partition it has, `commit`
commits what it was given; its answer has the line `retry` if a rebalance came in between.
"""

import os
import sys
import traceback
from typing import NamedTuple


class Record(NamedTuple):
    """One record; `place` is its partition on the way in and its offset on the way out."""

    place: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list


def to_word(data):
    return "-" if data is None else "x" + bytes(data).hex()


def from_word(word):
    return None if word == "-" else bytes.fromhex(word[1:])


def parse(line):
    place, timestamp, key, value, *headers = line.split()
    pairs = [header.rsplit("=", 1) for header in headers]
    return Record(int(place), int(timestamp), from_word(key), from_word(value), [(name, from_word(word)) for name, word in pairs])


def show(record):
    headers = [f"{name}={to_word(value)}" for name, value in record.headers]
    return " ".join([str(record.place), str(record.timestamp), to_word(record.key), to_word(record.value), *headers])


class Checks:
    """The checks of an admin scenario; one that fails does not hide the next. CHECK_TRIES is the runner's."""

    def __init__(self):
        self.lines = []

    def run(self, name, check):
        for left in reversed(range(int(os.environ.get("CHECK_TRIES", "1")))):
            try:
                found = check()
                line = f"pass {name}" if found is None or found is True else f"fail {name} {found!r}"
            except Exception as error:
                line = f"fail {name} {type(error).__name__}: {error}"
            if line.startswith("pass") or not left:
                self.lines.append(line.replace("\n", " "))
                return


# What every member is configured with: sessions short enough for a test that kills one.
SESSION_MS, HEARTBEAT_MS = 6000, 500


def member_commands(open_member):
    """The commands of a group for one member a process; `open_member(options)` gives an object with the rest."""
    members = []

    def join(options, _records):
        members.append(open_member(options))
        return []

    def leave(_options, _records):
        members.pop().leave()
        return []

    return {
        "join": join,
        "poll": lambda options, _records: [f"{partition} {offset}" for partition, offset in members[-1].poll(int(options["ms"]))],
        "assigned": lambda _options, _records: [str(partition) for partition in sorted(members[-1].assigned())],
        "commit": lambda _options, _records: [] if members[-1].commit() else ["retry"],
        "leave": leave,
    }


def serve(commands):
    """Answers requests until the end of stdin. `commands` maps a name to `function(options, records)`."""
    while line := sys.stdin.readline():
        command, *words = line.split()
        options = dict(word.split("=", 1) for word in words)
        records = [parse(sys.stdin.readline()) for _ in range(int(options.get("count", 0)) if command == "produce" else 0)]
        try:
            lines = commands[command](options, records)
            answer = [f"ok {len(lines)}", *lines]
        except Exception as error:
            traceback.print_exc()
            answer = [f"error {type(error).__name__}: {error}".replace("\n", " ")]
        print("\n".join(answer), flush=True)
