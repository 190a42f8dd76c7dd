"""What a page of metrics says of the lag of groups, as Prometheus' own parser reads it: `scrape.py URL`.

The parser refuses what is no OpenMetrics: labels that are not escaped, a series that comes twice, a type that does not fit. Prints a
line `GROUP TOPIC PARTITION LAG` for each series of the lag, names in hex, and `OK`.
"""

import sys
import urllib.request

from prometheus_client.openmetrics.parser import text_string_to_metric_families

request = urllib.request.Request(sys.argv[1], headers={"Accept": "application/openmetrics-text; version=1.0.0"})
with urllib.request.urlopen(request, timeout=60) as answer:
    kind, page = answer.headers["Content-Type"], answer.read().decode()
if not kind.startswith("application/openmetrics-text"):
    sys.exit(f"the page is {kind}")
for family in text_string_to_metric_families(page):
    if not family.documentation:
        sys.exit(f"{family.name} has no help")
    for sample in family.samples:
        if sample.name == "strandline_group_lag":
            words = [sample.labels[name].encode().hex() for name in ("group", "topic")]
            print(*words, sample.labels["partition"], int(sample.value))
print("OK")
