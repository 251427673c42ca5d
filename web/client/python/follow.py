"""Follows one query and writes a line of JSON for each update, for a test that knows the
expected result:

    follow.py URL QUERY py-plain|py-async|py-saved UNTIL

py-saved starts another client from the saved state after each update. UNTIL is the seq at
which to stop. FRESHET_TOKEN may contain a token.
"""

import asyncio
import collections
import contextlib
import json
import os
import sys

import freshet

url, query, way, until = sys.argv[1:]
token = os.environ.get("FRESHET_TOKEN")
freshet._PAUSES = (0.005, 0.1)
copy: collections.Counter = collections.Counter()  # of the rows, made from the differences alone


def check(ok: bool, *what: object) -> None:
    if not ok:
        sys.exit("wrong: " + " ".join(map(str, what)))


def tell(u: freshet.Update) -> bool:
    text = json.dumps if u.result.form == "SELECT" else str
    copy.update(map(text, u.added))
    copy.subtract(map(text, u.removed))
    rows = u.result.bindings() if u.result.form == "SELECT" else u.result.rows
    check(+copy == collections.Counter(map(text, rows)) and min(copy.values(), default=0) >= 0, "the differences do not add up at", u.position)
    if u.change and u.change.data.get("hash"):
        check(u.result.hash() == u.change.data["hash"], "the hash at", u.position)
    print(json.dumps({"seq": u.position.seq, "document": u.result.document()}), flush=True)
    return u.position.seq >= int(until)


def plain() -> None:
    with freshet.Freshet(url, token=token).follow(query) as updates:
        for u in updates:
            if tell(u):
                return


def saved() -> None:
    state = None
    while True:
        with freshet.Freshet(url, token=token).follow(query, saved=state) as updates:
            u = next(updates)
            if tell(u):
                return
            state = json.loads(json.dumps(u.save()))


async def in_a_loop() -> None:
    async with contextlib.aclosing(freshet.AsyncFreshet(url, token=token).follow(query)) as updates:
        async for u in updates:
            if tell(u):
                return


if way == "py-async":
    asyncio.run(in_a_loop())
else:
    {"py-plain": plain, "py-saved": saved}[way]()
