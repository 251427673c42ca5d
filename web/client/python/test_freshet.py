"""Tests of freshet.py. With FRESHET_URL, FRESHET_TOKEN and FRESHET_READ_TOKEN they also ask a
server that has the endpoint "city" and a slot only on request."""

import asyncio
import contextlib
import datetime
import decimal
import http.server
import io
import json
import os
import threading
import unittest

import freshet

XSD = "http://www.w3.org/2001/XMLSchema#"


def binding(**values):
    return {k: {"type": "literal", "value": v} for k, v in values.items()}


def table(*rows):
    return {"head": {"vars": ["n"]}, "results": {"bindings": [binding(n=r) for r in rows]}}


def change(added, removed, **more):
    return freshet.Change({"form": "SELECT", "added": table(*added), "removed": table(*removed), **more})


class Results(unittest.TestCase):
    def rows(self, result):
        return [row["n"]["value"] for row in result.bindings()]

    def test_bags(self):
        r = freshet.Result.of("SELECT", False, table("b", "a", "b"))
        self.assertEqual(self.rows(r), ["a", "b", "b"])
        self.assertEqual(self.rows(r.apply(change(["c"], ["b"]))), ["a", "b", "c"])
        with self.assertRaises(freshet.Mismatch):
            r.apply(change([], ["a", "a"]))

    def test_sequences(self):
        r = freshet.Result.of("SELECT", True, table("c", "a", "b"))
        moved = r.apply(change(["c"], ["c"], removed_at=[0], added_at=[2]))
        self.assertEqual(self.rows(moved), ["a", "b", "c"])
        for wrong in (change([], ["x"], removed_at=[0], added_at=[]), change([], ["c"], removed_at=[7], added_at=[]), change(["x"], [], removed_at=[], added_at=[9])):
            with self.assertRaises(freshet.Mismatch):
                r.apply(wrong)

    def test_documents(self):
        for r in (freshet.Result.of("SELECT", False, table("é𝄞\\\u2028\n\"")), freshet.Result("ASK", boolean=True), freshet.Result("CONSTRUCT", rows=("<s> <p> <o> .",))):
            self.assertEqual(freshet.Result.parse(r.form, r.ordered, r.document()), r)
        r = freshet.Result("SELECT", vars=("a", "n"), rows=('{"n":{"type":"literal","value":"4","datatype":"%sinteger"}}' % XSD,))
        self.assertEqual(r.values(), [{"a": None, "n": 4}])

    def test_values(self):
        for datatype, text, want in (
            ("integer", "12", 12), ("decimal", "1.50", decimal.Decimal("1.50")), ("double", "1e3", 1000.0), ("boolean", "1", True), ("int", "x", "x"),
            ("dateTime", "2026-11-20T09:00:00Z", datetime.datetime(2026, 11, 20, 9, tzinfo=datetime.timezone.utc)), ("date", "2026-11-20", datetime.date(2026, 11, 20)),
            ("date", "-0044-03-15", "-0044-03-15"), ("gYear", "2026", "2026"),
        ):
            got = freshet.python_value({"type": "literal", "value": text, "datatype": XSD + datatype})
            self.assertEqual((got, type(got)), (want, type(want)))
        self.assertEqual(freshet.python_value({"type": "uri", "value": "http://x/1"}), "http://x/1")

    def test_times(self):
        at = freshet.Change({"time": "2026-11-20T09:00:00.123456789Z"}).time
        self.assertEqual(at, datetime.datetime(2026, 11, 20, 9, 0, 0, 123456, datetime.timezone.utc))


class Events(unittest.TestCase):
    def test_parsing(self):
        stream = b": comment\r\nevent: alive\r\nid: a:1\r\ndata: {\"seq\":\r\ndata: 1}\r\n\r\nretry: 5\n\nevent: change\ndata: {}\n"
        self.assertEqual(list(freshet._events(io.BytesIO(stream))), [("alive", {"seq": 1})])  # the last one is cut off


class Large(unittest.TestCase):
    """A result that is too large for an event is read from its address, which knows no filter."""

    class Client:
        def _result(self, query, form, ordered):
            rows = {"head": {"vars": ["b", "a"]}, "results": {"bindings": [binding(a="1", b="x"), binding(a="1", b="y"), binding(b="z")]}}
            return freshet.Result.of(form, ordered, rows), freshet.Position("e", 3)

    def first(self, **options):
        follower = freshet.Follower(self.Client(), "q", None, options)
        return follower, follower._take("snapshot", {"form": "SELECT", "truncated": True})

    def test_vars(self):
        self.assertEqual(len(self.first()[1].result.vars), 2)
        for names in ("a", ["a"], "other,a", ["other", "a"]):
            follower, update = self.first(vars=names)
            self.assertEqual((update.result.vars, update.result.values()), (("a",), [{"a": "1"}, {"a": "1"}, {"a": None}]))
            change = {"form": "SELECT", "epoch": "e", "prev": 3, "seq": 4}
            for of, rows in (("added", []), ("removed", [binding(a="1")])):
                change[of] = {"head": {"vars": ["a"]}, "results": {"bindings": rows}}
            self.assertEqual(follower._take("change", change).result.values(), [{"a": "1"}, {"a": None}])

    def test_where(self):
        with self.assertRaisesRegex(freshet.FreshetError, "without where"):
            self.first(where="a:>:1")


class Saved(unittest.TestCase):
    """The first update after a saved state is the difference to it."""

    def update(self, saved, rows, **options):
        follower = freshet.Follower(None, "q", saved, options)
        event = {"form": "SELECT", "epoch": "e", "seq": 3, "results": table(*rows)}
        return follower, follower._take("snapshot", event)

    def names(self, rows):
        return [row["n"]["value"] for row in rows]

    def test_filters(self):
        saved = json.loads(json.dumps(self.update(None, ["a", "b"], where="n:>:1", min_rows=1)[1].save()))
        follower = freshet.Follower(None, "q", saved, {"where": ["n:>:1"], "min_rows": "1", "rate": "5s"})
        self.assertEqual(follower._position, freshet.Position("e", 3))
        for other in ({}, {"where": "n:>:2", "min_rows": 1}, {"where": "n:>:1"}):
            follower, update = self.update(saved, ["b", "c"], **other)
            self.assertEqual((self.names(update.added), self.names(update.removed)), (["c"], ["a"]))
            self.assertIsNone(freshet.Follower(None, "q", saved, other)._position)
        plain = self.update(None, ["a"])[1].save()
        self.assertNotIn("filter", plain)
        self.assertIsNotNone(freshet.Follower(None, "q", plain, {"rate": "5s"})._position)
        self.assertIsNone(freshet.Follower(None, "q", plain, {"min_rows": 2})._position)


    def test_another_form(self):
        graph = freshet.Result("CONSTRUCT", rows=("<s> <p> <o> .",))
        saved = freshet.Update(graph, freshet.Position("other", 9), [], [], None).save()
        _, update = self.update(saved, ["a"])
        self.assertEqual((self.names(update.added), update.removed), (["a"], []))
        for form, results in (("CONSTRUCT", {"triples": list(graph.rows)}), ("ASK", {"boolean": True})):
            follower, _ = self.update(None, ["a"])
            update = follower._take("snapshot", {"form": form, "epoch": "f", "seq": 1, "results": results})
            self.assertEqual((update.added, update.removed), (results.get("triples", []), []))


class Mistakes(unittest.TestCase):
    def test_arguments(self):
        with self.assertRaises(ValueError) as e:
            freshet.Freshet("http://127.0.0.1:1", token="s3cret\n")
        self.assertNotIn("s3cret", str(e.exception))
        server = freshet.Freshet("http://127.0.0.1:1")
        for query in (None, 5, ""):
            with self.assertRaisesRegex(ValueError, "its id or its name"):
                server.result(query)
        for saved in ({"a": 1}, "state", {"epoch": "e", "seq": 1, "form": "SELECT", "ordered": False, "document": "{"}):
            with self.assertRaisesRegex(ValueError, "what Update.save returned"):
                server.follow("x", saved=saved)

    def test_another_server(self):
        class Page(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"{}" if self.path.endswith("empty") else b"<html>")

            def log_message(self, *_):
                pass

        with http.server.HTTPServer(("127.0.0.1", 0), Page) as other:
            threading.Thread(target=other.serve_forever, daemon=True).start()
            server = freshet.Freshet(f"http://127.0.0.1:{other.server_port}")
            for ask in (server.query, server.result, lambda q: list(server.changes(q)), lambda q: server.diff(q, 1)):
                with self.assertRaisesRegex(freshet.Unreachable, "not as a Freshet server"):
                    ask("x")
            with self.assertRaisesRegex(freshet.Unreachable, "not as a Freshet server"):
                server.result("empty")
            other.shutdown()


@unittest.skipUnless(os.environ.get("FRESHET_URL"), "FRESHET_URL is not set")
class Server(unittest.TestCase):
    def setUp(self):
        self.url = os.environ["FRESHET_URL"]
        self.app = freshet.Freshet(self.url + "/", token=os.environ["FRESHET_TOKEN"])

    def test_errors(self):
        with self.assertRaises(freshet.NotFound) as e:
            self.app.query("none/such")
        self.assertEqual((e.exception.status, e.exception.kind), (404, "not-found"))
        with self.assertRaises(freshet.NotFound):
            next(self.app.follow("none"))
        with self.assertRaises(freshet.Forbidden):
            freshet.Freshet(self.url).query("x")
        with self.assertRaises(freshet.Forbidden):
            freshet.Freshet(self.url, token=os.environ["FRESHET_READ_TOKEN"]).register("city", "ASK {}")
        with self.assertRaises(freshet.Refused) as e:
            self.app.register("city", "SELECT nonsense")
        self.assertEqual((e.exception.status, e.exception.kind), (400, "bad-query"))
        with self.assertRaises(freshet.Unreachable):
            freshet.Freshet("http://127.0.0.1:1").query("x")
        with self.assertRaises(ValueError):
            freshet.Freshet("localhost:8080")

    def test_life(self):
        q = self.app.register("city", "ASK { <http://x/life> ?p ?o }", name="life", tags=["t"])
        self.assertEqual(q["name"], "life")
        with self.assertRaises(freshet.NotFound) as e:
            self.app.result("life")
        self.assertEqual(e.exception.kind, "no-result")
        self.assertEqual(list(self.app.changes("life")), [])
        with self.assertRaises(freshet.Gap):
            list(self.app.changes("life", freshet.Position("other", 1)))
        self.app.release("life")
        with self.assertRaises(freshet.NotFound):
            self.app.query("life")

    def test_close(self):
        q = self.app.register("city", "ASK { <http://x/close> ?p ?o }")
        follower = self.app.follow(q["id"])
        threading.Timer(0.5, follower.close).start()
        self.assertEqual(list(follower), [])

    def test_trouble(self):
        follower = freshet.Freshet("http://127.0.0.1:1").follow("x")
        seen = []
        follower.trouble = lambda e: (seen.append(e), follower.close())
        self.assertEqual(list(follower), [])
        self.assertIsInstance(seen[0], freshet.Unreachable)

    def test_asyncio(self):
        async def run():
            c = freshet.AsyncFreshet(self.url, token=os.environ["FRESHET_TOKEN"])
            q = await c.register("city", "ASK { <http://x/async> ?p ?o }")
            self.assertEqual((await c.query(q["id"]))["id"], q["id"])
            with self.assertRaises(freshet.NotFound):
                await c.result(q["id"])
            self.assertEqual([x async for x in c.changes(q["id"])], [])

            async def wait():
                async with contextlib.aclosing(c.follow(q["id"])) as updates:
                    async for _ in updates:
                        self.fail("an update of a query without a result")

            task = asyncio.create_task(wait())
            await asyncio.sleep(0.3)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            await c.release(q["id"])

        asyncio.run(run())


if __name__ == "__main__":
    unittest.main()
