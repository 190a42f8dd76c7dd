"""Opens the report of a run in a headless Chromium without a network: browser.py REPORT.html SCREENSHOT.png

Prints OK when the browser had nothing to complain about and the lines and bars of the charts are to be seen on the screenshot.
"""

import re
import struct
import subprocess
import sys
import tempfile
import zlib
from collections import Counter
from pathlib import Path

# The colours of the first lines of a chart and of bars (bench/src/report/html/mod.rs), and how many pixels of each there must be at least.
COLOURS = {(0x1F, 0x6F, 0xEB): 2000, (0xD1, 0x57, 0x0A): 200, (0x1A, 0x7F, 0x37): 200, (0x82, 0x50, 0xDF): 100}

WIDTH, HEIGHT = 1000, 4000


def screenshot(page: Path, target: Path) -> str:
    """What the browser wrote on stderr; a network namespace of its own leaves it nothing to load from."""
    with tempfile.TemporaryDirectory() as profile:
        done = subprocess.run(
            [
                *("unshare", "--net", "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
                *("--enable-logging=stderr", "--disable-background-networking", "--disable-component-update"),
                *("--no-first-run", "--force-color-profile=srgb", f"--user-data-dir={profile}"),
                *(f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={target.absolute()}", page.absolute().as_uri()),
            ],
            capture_output=True,
            text=True,
            timeout=120,
        )
    if done.returncode != 0 or not target.is_file():
        sys.exit(f"chromium: {done.returncode} {done.stderr[-1500:]}")
    return done.stderr


def pixels(png: bytes) -> Counter:
    """How often each colour is there; of a PNG as Chromium writes it: eight bits, RGB or RGBA, not interlaced."""
    width, height, depth, kind, _, _, interlace = struct.unpack(">IIBBBBB", png[16:29])
    if depth != 8 or kind not in (2, 6) or interlace:
        sys.exit("the screenshot is another PNG than Chromium's")
    at, data = 8, b""
    while at < len(png):
        (size,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + size]
        at += 12 + size
    raw, step = zlib.decompress(data), 3 if kind == 2 else 4
    row, counts = bytearray(width * step), Counter()
    for y in range(height):
        start = y * (width * step + 1)
        row = unfiltered(raw[start], bytearray(raw[start + 1 : start + 1 + width * step]), row, step)
        counts.update(zip(row[0::step], row[1::step], row[2::step]))
    return counts


def unfiltered(kind: int, row: bytearray, above: bytearray, step: int) -> bytearray:
    """A row of pixels from its differences (RFC 2083, 6)."""
    for i in range(len(row)):
        left = row[i - step] if i >= step else 0
        corner = above[i - step] if i >= step else 0
        if kind == 1:
            row[i] = row[i] + left & 255
        elif kind == 2:
            row[i] = row[i] + above[i] & 255
        elif kind == 3:
            row[i] = row[i] + (left + above[i]) // 2 & 255
        elif kind == 4:
            guess = left + above[i] - corner
            nearest = min((left, above[i], corner), key=lambda value: abs(guess - value))
            row[i] = row[i] + nearest & 255
    return row


def main() -> None:
    page, target = Path(sys.argv[1]), Path(sys.argv[2])
    said = screenshot(page, target)
    complaints = [line for line in said.splitlines() if "CONSOLE" in line or re.search(r"Refused|ERR_", line)]
    if complaints:
        sys.exit("the console says: " + "; ".join(complaints))
    counts = pixels(target.read_bytes())
    for colour, least in COLOURS.items():
        if counts[colour] < least:
            sys.exit(f"{counts[colour]} pixels of #{bytes(colour).hex()}, where charts have {least} and more")
    print("OK")


if __name__ == "__main__":
    main()
