"""Freshet's client for Python: it follows SPARQL queries of a Freshet server and keeps
their results up to date. Python 3.9 or later, no dependencies.

    from freshet import Freshet

    with Freshet("http://127.0.0.1:8080", token=token).follow("departures") as updates:
        for update in updates:
            print(update.added, update.removed)
            table = update.result.values()

The iteration survives broken connections and restarts of the server. An update holds the
difference to the one before it, also when changes in between were missed, so a copy that
applies all differences stays true. update.save() returns the state as plain JSON:
follow("departures", saved=state) goes on from there.

AsyncFreshet has the same methods for asyncio.
"""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import datetime
import decimal
import hashlib
import http.client
import json
import random
import socket
import ssl
import threading
import urllib.parse
from dataclasses import dataclass, field
from typing import Any, AsyncIterator, Dict, Iterator, List, Optional, Tuple, Union

__all__ = [
    "AsyncFreshet", "Busy", "Change", "Difference", "Follower", "Forbidden", "Freshet", "FreshetError", "Gap", "Mismatch",
    "Moment", "NotFound", "Position", "Refused", "Result", "Unreachable", "Update", "python_value",
]


class FreshetError(Exception):
    """The base class of all errors of this module."""


class Unreachable(FreshetError):
    """The server cannot be reached, or the connection broke."""


class Mismatch(FreshetError):
    """A change does not fit the result that it is applied to."""


class Refused(FreshetError):
    """The server refused a request.

    status: the HTTP status; kind: the problem type, such as "not-found"; detail: a
    sentence; errors: the fields that are wrong, as [{"pointer": …, "detail": …}].
    """

    def __init__(self, status: int, problem: Dict[str, Any], retry_after: Optional[float] = None):
        self.status = status
        self.kind = str(problem.get("type", "")).rsplit("/", 1)[-1]
        self.detail = str(problem.get("detail") or problem.get("title") or http.client.responses.get(status, status))
        self.errors = problem.get("errors", [])
        self.retry_after = retry_after
        super().__init__(": ".join(x for x in (str(problem.get("title", "")), self.detail) if x))


class NotFound(Refused):
    """There is no such query, or it has no result yet (kind "no-result")."""


class Forbidden(Refused):
    """The token is missing, wrong, or has no sufficient role."""


class Gap(Refused):
    """The log does not reach back to the position."""


class Busy(Refused):
    """The server cannot answer now. retry_after is in seconds, or None."""


def _refused(status: int, body: bytes, retry_after: Optional[str]) -> Refused:
    try:
        problem = json.loads(body)
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        problem = {"detail": body[:200].decode("utf-8", "replace").strip()}
    seconds = float(retry_after) if retry_after and retry_after.isdigit() else None
    of = {401: Forbidden, 403: Forbidden, 404: NotFound, 410: Gap, 429: Busy}.get(status, Busy if status >= 500 else Refused)
    return of(status, problem, seconds)


@dataclass(frozen=True)
class Position:
    """A position in a query's log."""

    epoch: str
    seq: int

    def __str__(self) -> str:
        return f"{self.epoch}:{self.seq}"


_XSD = "http://www.w3.org/2001/XMLSchema#"
_INTEGERS = {_XSD + name for name in (
    "integer nonPositiveInteger negativeInteger long int short byte nonNegativeInteger unsignedLong unsignedInt "
    "unsignedShort unsignedByte positiveInteger").split()}


def python_value(term: Dict[str, str]) -> Any:
    """Returns the Python value of a term of SPARQL 1.1 Query Results JSON: int, Decimal,
    float, bool, datetime, date, or else the text. A literal whose text does not fit its
    datatype stays text."""
    text, datatype = term["value"], term.get("datatype", "")
    try:
        if datatype in _INTEGERS:
            return int(text)
        if datatype == _XSD + "decimal":
            return decimal.Decimal(text)
        if datatype in (_XSD + "double", _XSD + "float"):
            return float(text)
        if datatype == _XSD + "boolean":
            return {"true": True, "1": True, "false": False, "0": False}[text]
        if datatype == _XSD + "dateTime":
            return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
        if datatype == _XSD + "date":
            return datetime.date.fromisoformat(text)
    except (ValueError, KeyError, decimal.InvalidOperation):
        pass
    return text


def _row_texts(form: str, rows: Dict[str, Any]) -> List[str]:
    """The canonical text of each row of {head, results} or {triples}."""
    if form != "SELECT":
        return list(rows["triples"])
    names = rows["head"]["vars"]
    return [_json({name: row[name] for name in names if name in row}) for row in rows["results"]["bindings"]]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True)
class Result:
    """A query's result. It is immutable; apply returns the next one.

    form: SELECT, ASK, CONSTRUCT or DESCRIBE; rows: the canonical text of each row, JSON of
    a binding or an N-Triples statement; boolean: the answer of an ASK query.
    """

    form: str
    ordered: bool = False
    vars: Tuple[str, ...] = ()
    rows: Tuple[str, ...] = ()
    boolean: bool = False

    @staticmethod
    def of(form: str, ordered: bool, *parts: Dict[str, Any]) -> "Result":
        """Builds a result from documents that hold its rows."""
        if form == "ASK":
            return Result(form, boolean=parts[0]["boolean"] is True)
        rows = [text for part in parts for text in _row_texts(form, part)]
        return Result(form, ordered, tuple(parts[0].get("head", {}).get("vars", ())), tuple(rows if ordered else sorted(rows)))

    @staticmethod
    def parse(form: str, ordered: bool, document: str) -> "Result":
        """Parses what document returned."""
        if form in ("CONSTRUCT", "DESCRIBE"):
            return Result(form, rows=tuple(document.split("\n")[:-1]))
        return Result.of(form, ordered, json.loads(document))

    def __len__(self) -> int:
        return len(self.rows)

    def bindings(self) -> List[Dict[str, Dict[str, str]]]:
        """SELECT: the rows as SPARQL results JSON has them, {variable: {type, value, …}}."""
        return [json.loads(row) for row in self.rows]

    def values(self) -> List[Dict[str, Any]]:
        """SELECT: the rows with Python values. A variable without a value is None."""
        return [{name: python_value(row[name]) if name in row else None for name in self.vars} for row in self.bindings()]

    def document(self) -> str:
        """The canonical text, byte-identical to the server's."""
        if self.form == "ASK":
            return '{"head":{},"boolean":%s}' % _json(self.boolean)
        if self.form == "SELECT":
            return '{"head":{"vars":%s},"results":{"bindings":[%s]}}' % (_json(list(self.vars)), ",".join(self.rows))
        return "".join(row + "\n" for row in self.rows)

    def hash(self) -> str:
        """The hash that the server publishes."""
        return "sha256:" + hashlib.sha256(self.document().encode()).hexdigest()

    def apply(self, change: Union["Change", "Difference"]) -> "Result":
        """Returns the result after a change or a difference. Raises Mismatch if the change does not fit."""
        if change.form == "ASK":
            return Result("ASK", boolean=change.data["boolean"])
        added, removed = _row_texts(change.form, change.data["added"]), _row_texts(change.form, change.data["removed"])
        names = tuple(change.data["added"].get("head", {}).get("vars", ()))
        if "added_at" in change.data:
            rows = _splice(list(self.rows), removed, change.data["removed_at"], added, change.data["added_at"])
            return Result(change.form, True, names, tuple(rows))
        counts = collections.Counter(removed)
        kept = []
        for row in self.rows:
            if counts[row] > 0:
                counts[row] -= 1
            else:
                kept.append(row)
        if sum(counts.values()) > 0:
            raise Mismatch("a removed row is not there")
        return Result(change.form, False, names, tuple(sorted(kept + added)))


def _splice(rows: List[str], removed: List[str], removed_at: List[int], added: List[str], added_at: List[int]) -> List[str]:
    """Deletes the rows at the old indices, then inserts at the new ones. Both are ascending."""
    for row, i in reversed(list(zip(removed, removed_at))):
        if i >= len(rows) or rows[i] != row:
            raise Mismatch(f"row {i} is not the removed one")
        del rows[i]
    for row, i in zip(added, added_at):
        if i > len(rows):
            raise Mismatch("an index is out of range")
        rows.insert(i, row)
    return rows


@dataclass(frozen=True)
class Change:
    """One change of a result as the server sends it; data has all its fields."""

    data: Dict[str, Any] = field(repr=False)

    @property
    def form(self) -> str:
        return self.data["form"]

    @property
    def prev(self) -> int:
        return self.data["prev"]

    @property
    def position(self) -> Position:
        return Position(self.data["epoch"], self.data["seq"])

    @property
    def baseline(self) -> bool:
        """The first complete result of the query."""
        return self.data.get("baseline", False)

    @property
    def truncated(self) -> bool:
        """Its rows exceed what the server sends in one message."""
        return self.data.get("truncated", False)

    @property
    def time(self) -> datetime.datetime:
        """When the change was recorded. Digits beyond microseconds are cut off."""
        whole, _, part = self.data["time"].rstrip("Z").partition(".")
        return datetime.datetime.fromisoformat(whole + "." + (part + "000000")[:6]).replace(tzinfo=datetime.timezone.utc)

    def added(self) -> List[Any]:
        """Bindings, or N-Triples statements."""
        return _rows(self.form, self.data.get("added"))

    def removed(self) -> List[Any]:
        """Bindings, or N-Triples statements."""
        return _rows(self.form, self.data.get("removed"))


def _rows(form: str, rows: Optional[Dict[str, Any]]) -> List[Any]:
    if not rows or form == "ASK":
        return []
    return rows["results"]["bindings"] if form == "SELECT" else rows["triples"]


@dataclass(frozen=True)
class Difference:
    """What changed between two states of a result. data has all fields of the answer.
    result.apply(difference) makes the later state of the earlier one."""

    data: Dict[str, Any] = field(repr=False)

    @property
    def form(self) -> str:
        return self.data["form"]

    @property
    def start(self) -> Position:
        """The earlier state."""
        return Position(self.data["from"]["epoch"], self.data["from"]["seq"])

    @property
    def end(self) -> Position:
        """The later state."""
        return Position(self.data["to"]["epoch"], self.data["to"]["seq"])

    def added(self) -> List[Any]:
        """Bindings, or N-Triples statements."""
        return _rows(self.form, self.data.get("added"))

    def removed(self) -> List[Any]:
        """Bindings, or N-Triples statements."""
        return _rows(self.form, self.data.get("removed"))


Moment = Union[str, int, datetime.datetime, Position]


def _moment(when: Moment) -> str:
    """The text of a moment in an address. A datetime without a zone is in local time."""
    return when.astimezone(datetime.timezone.utc).isoformat() if isinstance(when, datetime.datetime) else str(when)


@dataclass(frozen=True)
class Update:
    """What happened to a result since the update before.

    added and removed: rows as bindings, or N-Triples statements; result: the result now;
    position: its place in the log; change: the server's change, None if the result was
    read as a whole (at first, and after changes that the log no longer holds); filter: the
    options of follow that select rows and changes.
    """

    result: Result
    position: Position
    added: List[Any]
    removed: List[Any]
    change: Optional[Change]
    filter: Dict[str, List[str]] = field(default_factory=dict, repr=False)

    def save(self) -> Dict[str, Any]:
        """The state as plain JSON, for follow(…, saved=…)."""
        r, at = self.result, self.position
        return {"epoch": at.epoch, "seq": at.seq, "form": r.form, "ordered": r.ordered, "document": r.document(),
                **({"filter": self.filter} if self.filter else {})}


def _difference(old: Optional[Result], new: Result) -> Tuple[List[Any], List[Any]]:
    before = collections.Counter(old.rows if old and old.form == new.form else ())  # the name may be that of another query now
    after = collections.Counter(new.rows)
    rows = json.loads if new.form == "SELECT" else str
    return [rows(x) for x in (after - before).elements()], [rows(x) for x in (before - after).elements()]


class Freshet:
    """A server. Its methods may be called by several threads at the same time.

    token: sent with each request; timeout: seconds until a request without an answer is
    given up; context: for https.
    """

    def __init__(self, server: str, token: Optional[str] = None, timeout: float = 30, context: Optional[ssl.SSLContext] = None):
        self._url = urllib.parse.urlsplit(server.rstrip("/"))
        if self._url.scheme not in ("http", "https") or not self._url.hostname:
            raise ValueError(f"{server!r} is not the address of a server, such as http://127.0.0.1:8080")
        if token and not all("!" <= c <= "~" for c in token):
            raise ValueError("the token has a blank, a line break or a character that no token has")
        self._token, self._timeout, self._context = token, timeout, context

    def register(self, endpoint: str, query: str, **settings: Any) -> Dict[str, Any]:
        """Registers a query and returns it. settings are the fields of POST /v1/queries,
        such as name, tags and max_staleness."""
        return self._json("POST", "/v1/queries", {"endpoint": endpoint, "query": query, **settings})

    def query(self, query: str) -> Dict[str, Any]:
        """Returns a query by its id or name."""
        return self._json("GET", _path(query))

    def release(self, query: str) -> None:
        """Ends the caller's registration."""
        self._json("DELETE", _path(query))

    def result(self, query: str, at: Union[str, datetime.datetime, None] = None, seq: Union[int, Position, None] = None) -> Result:
        """Returns the last complete result, or the one at a time (datetime, or text in
        RFC 3339), after the change with a number, or at a Position. Raises NotFound if there
        was none yet, and Gap if that state is no longer kept."""
        q = self.query(query)
        if not isinstance(q, dict) or not {"id", "form"} <= q.keys():
            raise self._foreign()
        at, seq = (None if x is None else _moment(x) for x in (at, seq))
        return self._result(q["id"], q["form"], q.get("ordered", False), at=at, seq=seq)[0]

    def _result(self, query: str, form: str, ordered: bool, **moment: Any) -> Tuple[Result, Position]:
        graph = form in ("CONSTRUCT", "DESCRIBE")
        moment = {k: v for k, v in moment.items() if v is not None}
        path = _path(query) + "/results." + ("nt" if graph else "srj") + ("?" + urllib.parse.urlencode(moment) if moment else "")
        body, headers = self._request("GET", path)
        try:
            epoch, seq = headers["ETag"].strip('"').split(".")[:2]
            return Result.parse(form, ordered, body.decode()), Position(epoch, int(seq))
        except (AttributeError, LookupError, ValueError) as e:
            raise self._foreign() from e

    def diff(self, query: str, start: Moment, end: Optional[Moment] = None) -> "Difference":
        """Returns what changed between two states, each given by a time (datetime, or text in
        RFC 3339), by the number of a change, or by a Position; end is the newest state by
        default. Raises Gap if a state is no longer kept."""
        of = {"from": _moment(start), **({} if end is None else {"to": _moment(end)})}
        return Difference(self._json("GET", _path(query) + "/changes/diff?" + urllib.parse.urlencode(of)))

    def changes(self, query: str, after: Optional[Position] = None) -> Iterator[Change]:
        """Iterates over the changes that the log holds, oldest first, up to now. Raises Gap
        if it does not reach back to after."""
        while True:
            page = self._json("GET", _path(query) + "/changes" + (f"?after={after}" if after else ""))
            yield from map(Change, page["changes"])
            if not page["changes"]:
                return
            epoch, _, seq = page["next"].partition(":")
            after = Position(epoch, int(seq))

    def follow(self, query: str, saved: Optional[Dict[str, Any]] = None, **options: Any) -> "Follower":
        """Follows a query by its id or name. saved is what Update.save returned. Options are
        the parameters of the event stream: rate="5s", min_rows, min_jaccard, vars, where.
        A state that was saved with another filter is not gone on from: the first update
        is then the difference between it and the whole result."""
        return Follower(self, query, saved, options)

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        if self._url.scheme == "https":
            return http.client.HTTPSConnection(self._url.hostname or "", self._url.port, timeout=timeout, context=self._context)
        return http.client.HTTPConnection(self._url.hostname or "", self._url.port, timeout=timeout)

    def _headers(self, **more: str) -> Dict[str, str]:
        if self._token:
            more["Authorization"] = "Bearer " + self._token
        return {"User-Agent": "freshet.py", **more}

    def _request(self, method: str, path: str, body: Any = None) -> Tuple[bytes, Any]:
        connection = self._connect(self._timeout)
        try:
            headers, sent = self._headers(), None
            if body is not None:
                headers["Content-Type"], sent = "application/json", json.dumps(body).encode()
            connection.request(method, self._url.path + path, sent, headers)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as e:
            raise Unreachable(f"{self._url.geturl()}: {e or type(e).__name__}") from e
        finally:
            connection.close()
        if answer.status >= 300:
            raise _refused(answer.status, content, answer.headers["Retry-After"])
        return content, answer.headers

    def _json(self, method: str, path: str, body: Any = None) -> Any:
        content, _ = self._request(method, path, body)
        try:
            return json.loads(content) if content else None
        except ValueError as e:
            raise self._foreign() from e

    def _foreign(self) -> Unreachable:
        return Unreachable(f"{self._url.geturl()} answers, but not as a Freshet server does: check the address, and a proxy before it")


def _path(query: str) -> str:
    if not isinstance(query, str) or not query:
        raise ValueError(f"a query is named by its id or its name, not by {query!r}")
    return "/v1/queries/" + urllib.parse.quote(query, safe="")


_SILENCE = 75.0  # seconds without a word after which a connection counts as broken; the server sends one every 25
_PAUSES = (0.2, 30.0)  # seconds before another attempt, at first and at most


class Follower:
    """An iterator over the updates of one query. It ends when the query does, and raises
    an error if another attempt would fail too (Refused, but not Busy). close, which
    another thread may call, ends it at once. trouble(error) is called, if it is set, with
    each error after which it tries again."""

    def __init__(self, client: Freshet, query: str, saved: Optional[Dict[str, Any]], options: Dict[str, Any]):
        self.query, self.reason, self.trouble = query, "", None  # reason says why the query ended
        self._client, self._options, self._filter = client, options, _filter(options)
        self._seen: Optional[Result] = None  # the result of the last update
        self._result: Optional[Result] = None
        self._position: Optional[Position] = None
        if saved:
            try:
                self._position = Position(saved["epoch"], int(saved["seq"]))
                self._result = self._seen = Result.parse(saved["form"], saved["ordered"], saved["document"])
                if saved.get("filter", {}) != self._filter:  # what that one left is no part of what this one leaves
                    self._result = self._position = None
            except (LookupError, TypeError, ValueError, AttributeError) as e:
                raise ValueError("saved is not what Update.save returned: leave it out to begin with the whole result") from e
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._socket: Optional[socket.socket] = None
        self._updates = self._run()

    def __iter__(self) -> "Follower":
        return self

    def __next__(self) -> Update:
        return next(self._updates)

    def __enter__(self) -> "Follower":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Ends the iteration."""
        self._closed.set()
        with self._lock:
            if self._socket:
                try:
                    self._socket.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def _run(self) -> Iterator[Update]:
        pause = _PAUSES[0]
        while not self._closed.is_set() and not self.reason:
            wait = pause
            try:
                for update in self._connection():
                    pause = wait = _PAUSES[0]
                    yield update
                    if self._closed.is_set():
                        return
                error: FreshetError = Unreachable("the server ended the stream")
            except Busy as e:
                error, wait = e, max(pause, e.retry_after or 0)
            except Unreachable as e:
                error = e
            except _Again:
                continue
            if self._closed.is_set() or self.reason:
                return
            if self.trouble:
                self.trouble(error)
            self._closed.wait(wait * random.uniform(0.5, 1.5))
            pause = min(2 * pause, _PAUSES[1])

    def _connection(self) -> Iterator[Update]:
        """Yields the updates of one connection."""
        options = dict(self._options)
        if self._position:
            options["after"] = str(self._position)
        path = _path(self.query) + "/changes" + ("?" + urllib.parse.urlencode(options, doseq=True) if options else "")
        connection = self._client._connect(self._client._timeout)
        try:
            connection.request("GET", self._client._url.path + path, headers=self._client._headers(Accept="text/event-stream"))
            with self._lock:
                self._socket = connection.sock
            answer = connection.getresponse()
            if answer.status != 200:
                raise _refused(answer.status, answer.read(), answer.headers["Retry-After"])
            if connection.sock:
                connection.sock.settimeout(_SILENCE)
            elif self._socket:
                self._socket.settimeout(_SILENCE)
            for kind, data in _events(answer):
                update = self._take(kind, data)
                if update:
                    yield update
                if self.reason:
                    return
        except (OSError, ValueError, http.client.HTTPException) as e:
            raise Unreachable(f"{self._client._url.geturl()}: {e or type(e).__name__}") from e
        finally:
            with self._lock:
                self._socket = None
            connection.close()

    def _take(self, kind: str, data: Dict[str, Any]) -> Optional[Update]:
        if kind == "snapshot":
            if data.get("truncated"):  # too large for an event
                self._read(data["form"], data.get("ordered", False))
                return self._update(None)
            self._result = Result.of(data["form"], data.get("ordered", False), data["results"])
            self._position = Position(data["epoch"], data["seq"])
            return self._update(None)
        if kind == "change":
            return self._change(Change(data))
        if kind == "alive" and self._position:
            if data["epoch"] != self._position.epoch or data["seq"] < self._position.seq:
                raise _Again
            self._position = Position(data["epoch"], data["seq"])
        elif kind == "gap":
            self._result = self._position = None
        elif kind == "complete":
            self.reason = str(data.get("reason") or "the query ended")
        return None

    def _read(self, form: str, ordered: bool) -> None:
        """Takes the whole result from its address, which knows no filter."""
        if self._options.get("where"):
            raise FreshetError("the rows that meet where are too many for one event: follow the query without where, "
                               "ask for fewer vars, or have limits.change of the server raised")
        result, self._position = self._client._result(self.query, form, ordered)
        names = self._options.get("vars")
        if names:
            names = ",".join([names] if isinstance(names, str) else names).split(",")
            rows = {"head": {"vars": [name for name in result.vars if name in names]}, "results": {"bindings": result.bindings()}}
            result = Result.of(form, ordered, rows)
        self._result = result

    def _change(self, change: Change) -> Optional[Update]:
        here = self._position
        if here and change.position.epoch == here.epoch and change.position.seq <= here.seq:
            return None
        if not here or change.position.epoch != here.epoch or change.prev != here.seq:
            raise _Again
        before = Result(change.form) if change.baseline else self._result
        try:
            if before is None or change.truncated:
                raise Mismatch("there are no rows to apply it to, or none to apply")
            self._result = before.apply(change)
        except Mismatch:  # the state is not the expected one: start again
            self._result = self._position = None
            raise _Again from None
        self._position = change.position
        return self._update(change)

    def _update(self, change: Optional[Change]) -> Update:
        assert self._result is not None and self._position is not None
        if change:
            added, removed = change.added(), change.removed()
        else:
            added, removed = _difference(self._seen, self._result)
        self._seen = self._result
        return Update(self._result, self._position, added, removed, change, self._filter)


def _filter(options: Dict[str, Any]) -> Dict[str, List[str]]:
    """The options that select rows and changes, as the address has them."""
    names = [name for name in ("min_rows", "min_jaccard", "vars", "where") if options.get(name) is not None]
    return {name: [str(x) for x in (v if isinstance(v, (list, tuple)) else [v])] for name, v in ((name, options[name]) for name in names)}


class _Again(Exception):
    """Subscribe again from the position."""


def _events(lines: Any) -> Iterator[Tuple[str, Dict[str, Any]]]:
    """Parses an event stream, as the HTML standard defines it."""
    kind, data = "", []
    while True:
        line = lines.readline()
        if not line.endswith(b"\n"):  # an event that is cut off does not count
            return
        text = line.rstrip(b"\r\n").decode()
        if not text:
            if data:
                yield kind or "message", json.loads("\n".join(data))
            kind, data = "", []
            continue
        name, _, value = text.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if name == "event":
            kind = value
        elif name == "data":
            data.append(value)


class AsyncFreshet:
    """Freshet for asyncio. Requests and followers run in threads."""

    def __init__(self, server: str, token: Optional[str] = None, timeout: float = 30, context: Optional[ssl.SSLContext] = None):
        self._client = Freshet(server, token, timeout, context)

    async def register(self, endpoint: str, query: str, **settings: Any) -> Dict[str, Any]:
        """See Freshet.register."""
        return await asyncio.to_thread(self._client.register, endpoint, query, **settings)

    async def query(self, query: str) -> Dict[str, Any]:
        """See Freshet.query."""
        return await asyncio.to_thread(self._client.query, query)

    async def release(self, query: str) -> None:
        """See Freshet.release."""
        await asyncio.to_thread(self._client.release, query)

    async def result(self, query: str, at: Union[str, datetime.datetime, None] = None, seq: Union[int, Position, None] = None) -> Result:
        """See Freshet.result."""
        return await asyncio.to_thread(self._client.result, query, at, seq)

    async def diff(self, query: str, start: Moment, end: Optional[Moment] = None) -> Difference:
        """See Freshet.diff."""
        return await asyncio.to_thread(self._client.diff, query, start, end)

    async def changes(self, query: str, after: Optional[Position] = None) -> AsyncIterator[Change]:
        """See Freshet.changes."""
        log, end = self._client.changes(query, after), object()
        while True:
            change = await asyncio.to_thread(next, log, end)
            if change is end:
                return
            yield change  # type: ignore[misc]

    async def follow(self, query: str, saved: Optional[Dict[str, Any]] = None, **options: Any) -> AsyncIterator[Update]:
        """Yields the updates of a query, see Freshet.follow. Leaving the loop closes the
        connection; in a task that goes on, use contextlib.aclosing."""
        follower, end = self._client.follow(query, saved, **options), object()
        loop, pending = asyncio.get_running_loop(), None
        executor = concurrent.futures.ThreadPoolExecutor(1, "freshet")
        try:
            while True:
                pending = loop.run_in_executor(executor, next, follower, end)
                update = await asyncio.shield(pending)
                if update is end:
                    return
                yield update  # type: ignore[misc]
        finally:
            follower.close()
            executor.shutdown(wait=False)
