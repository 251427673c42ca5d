"""Writes a line of JSON for each pair of states of a query: the earlier one, and the later one
that the difference makes of it. For a test that knows both:

    past.py URL QUERY LAST
"""

import asyncio
import datetime
import json
import sys

import freshet

url, query, last = sys.argv[1], sys.argv[2], int(sys.argv[3])
server = freshet.Freshet(url)
for start in range(1, last + 1):
    before = server.result(query, seq=start)
    for end in range(start, last + 1):
        difference = server.diff(query, start, end)
        if (difference.start.seq, difference.end.seq) != (start, end):
            sys.exit(f"the difference is one between {difference.start} and {difference.end}")
        if server.result(query, seq=difference.start) != before:
            sys.exit("the same position has another state")
        text = difference.data["to"]["time"]
        at = asyncio.run(freshet.AsyncFreshet(url).diff(query, text)).start.seq
        print(json.dumps({"from": start, "to": end, "before": before.document(), "after": before.apply(difference).document(), "at": at}))
for when in ({"seq": last + 1}, {"at": datetime.datetime.fromtimestamp(0, datetime.timezone.utc)}):
    try:
        server.result(query, **when)
    except freshet.Refused as e:
        print(json.dumps({"status": e.status, "kind": e.kind}))
