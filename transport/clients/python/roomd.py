"""The Python client of roomd, for bots, tests and tools: see README.md beside this file.

    async with Client("ws://127.0.0.1:8080/ws", user="ada") as client:
        room = await client.join("42")
        async for change in room:  # at first a snapshot, then each change once and in order
            print(change["type"], room.view.users)

The client connects again by itself, to any of its addresses, and comes back to its seats. A room
says when a seat is lost. A request of which nobody knows whether it was done fails with "unknown".
All times are in seconds. A client belongs to the event loop in which it was connected.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import copy
import inspect
import json
import logging
import math
import random
import secrets
import time
import weakref
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.legacy import client as websocket

__all__ = ["Client", "Lobby", "Room", "RoomdError", "View"]

PROTOCOL = "roomd.v1"
MOST_LAG = 1024  # changes that an iteration may be behind
LONGEST_FRAME = 16 * 1024  # bytes; after a longer one the server closes the connection
STEADY = 10.0  # after which a connection counts as a good one
CLOSE_WAIT = 2.0  # for the server's answer to a close
MOST_UNANSWERED = 64  # requests on their way at once
PAUSE = 0.1  # before a request that came too fast is sent again
RATE_TRIES = 30  # how often it is sent in all
LOBBY_SILENCE = 30.0  # after which a lobby's connection is given up; the server writes every 15 s
# Requests that can be repeated without harm: the client sends them again if the reply is missing.
REPEATABLE = {"join", "match", "leave", "ready", "users", "watch", "unwatch"}
# Close codes. A node that restarts has answered every request that it began.
RESTART, REPLACED, EXPIRED = 1012, 4001, 4003
FAULTS = {1002, 1003, 1007, 1008, 1009, 4009}  # the client's, which would occur again
GARBAGE = (ValueError, TypeError, LookupError, AttributeError)  # of what is no frame
NETWORK = (OSError, EOFError, WebSocketException)  # OSError also has TimeoutError

Frame = dict[str, Any]
log = logging.getLogger("roomd")


class RoomdError(Exception):
    """Why a request has failed, or a room or a client has ended. Programs decide by the code.

    code is the server's (transport/protocol/v1/requests.md), or "unknown" (the request was done or
    it was not), "timeout" (it was not sent in time), "lost" (this client is no member any more, or
    may not watch), "left", "unwatched", "client_closed", "replaced" (newer sessions of the user
    have taken over) or "disconnected" (the server says that the client is at fault).

    retry says whether the same request may succeed soon. details has what is known of "reason",
    "text" and "to" (of "lost" and "conflict": why, in which words, the room to which the user was
    moved), "data", "epoch" and "version" (of "conflict").
    """

    def __init__(self, code: str, message: str, retry: bool = False, **details: Any) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.retry, self.details = code, retry, details


@dataclass(frozen=True)
class View:
    """A room at one version. Later versions are other views; do not change what is in it."""

    epoch: str = ""  # one life of the room: versions of two epochs cannot be compared
    version: int = 0
    # By seats: {"user", "seat"}, and where they apply "away", "ready", "data" and "private".
    users: Sequence[dict[str, Any]] = ()
    data: Any = None
    settings: dict[str, Any] = field(default_factory=dict)  # without those that are zero
    host: str | None = None
    timers: dict[str, float] = field(default_factory=dict)  # when each fires: time.monotonic()
    seat: int | None = None  # the client's own, if it is a member


def _view(listed: Frame) -> View:
    """The room of a list that the server sent."""
    now, private, users = time.monotonic(), listed.get("private", {}), listed.get("users", ())
    users = [u | {"private": private[u["user"]]} if u["user"] in private else u for u in users]
    timers = {name: now + left / 1000 for name, left in listed.get("timers", {}).items()}
    known = _only(listed, "epoch", "version", "data", "settings", "host")
    return View(users=users, timers=timers, **known)


# What a change alters of its member, by type. A value of None goes.
_OF_MEMBER: dict[str, Callable[[Frame], Frame]] = {
    "seat": lambda change: {"seat": change["seat"]},
    "away": lambda change: {"away": True},
    "back": lambda change: {"away": None},
    "member": lambda change: _only(change, "ready", "data"),
    "private": lambda change: {"private": change["data"]},
}


def _applied(view: View, change: Frame) -> View:
    """The view after a change. Types that it does not know alter nothing."""
    kind, name, users = change["type"], change.get("user"), view.users
    if kind in ("settings", "data"):
        return replace(view, **{kind: change.get(kind)})
    if kind == "host":
        return replace(view, host=name)
    if kind in ("countdown", "timer"):
        timers = {timer: ends for timer, ends in view.timers.items() if timer != change["name"]}
        new = {change["name"]: change["ends"]} if "ends" in change else {}
        return replace(view, timers=timers | new)
    if kind == "join":
        users = [*users, _only(change, "user", "seat", "away")]
    elif kind == "leave":
        users = [user for user in users if user["user"] != name]
    elif alter := _OF_MEMBER.get(kind):
        users = [user | alter(change) if user["user"] == name else user for user in users]
        goes = (("ready", False), *((key, None) for key in ("away", "data", "private")))
        users = [{k: v for k, v in user.items() if (k, v) not in goes} for user in users]
    return replace(view, users=sorted(users, key=lambda user: user["seat"]))


class _Changes:
    """One iteration over the changes of a room."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._queue: deque[Frame] = deque()
        self._lagging = False  # a snapshot is due before the queue
        if not room.error:
            self._queue.extend([room._snapshot(), *(room._unread or ())])
            room._unread = None
            room._readers.add(self)

    def push(self, change: Frame) -> None:
        # The snapshot is made when it is read. It covers all until then, but for a seat's loss.
        if self._lagging and not self._queue and change["type"] != "lost":
            return
        self._queue.append(change)
        if len(self._queue) > MOST_LAG:
            self._queue = deque(change for change in self._queue if change["type"] == "lost")
            self._lagging = True

    def __aiter__(self) -> _Changes:
        return self

    async def __anext__(self) -> Frame:
        while not self._lagging and not self._queue:
            if self._room.error:
                raise StopAsyncIteration
            await self._room._news.wait()
        if self._lagging:
            self._lagging = False
            return self._room._snapshot()
        return self._queue.popleft()


class Room:
    """The client's copy of one room, as a member, a watcher, or both, until it is neither.

    Iterate over it to get each change once and in order: dicts as in transport/protocol/v1/
    events.md, with "type", "epoch" and "version". The first has the type "snapshot" and a "view".
    Later snapshots replace missed changes, after a reconnect or if the loop is 1,024 changes
    behind. A "countdown" has "ends", by time.monotonic(); a "lost" has its "reason", and perhaps
    "text" and "to". The iteration ends with the room.

    The methods raise RoomdError, and return when view shows what they did.
    """

    def __init__(self, client: Client, id: str) -> None:
        self.id = id
        self.view = View()
        self.member = self.watching = False
        self.error: Exception | None = None  # why the room has ended
        self._client = client
        self._lost: RoomdError | None = None  # why the latest membership was lost
        self._moved = False  # a move here was announced, and no snapshot has come since
        self._stale = False  # events are missing, and a list has been asked for
        self._restoring = False  # after a reconnect it is not joined or watched again yet
        self._unread: list[Frame] | None = None  # messages for the first iteration
        self._readers: weakref.WeakSet[_Changes] = weakref.WeakSet()
        self._news = asyncio.Event()  # another one after each news

    def __aiter__(self) -> AsyncIterator[Frame]:
        return _Changes(self)

    async def ready(self, value: bool = True) -> None:
        """Says whether the user is ready."""
        await self._do("ready", value=value)

    async def set(
        self, data: Any, *, scope: str | None = None, expect: View | None = None
    ) -> None:
        """Sets the room's data, or those of this member: the scope "member", or "private".

        With expect it fails with "conflict" if somebody has changed the data since that view.
        """
        await self._do("set", data=data, **_given(scope=scope), **_expected(expect))

    async def update(self, change: Callable[[Any], Any]) -> Any:
        """Sets the room's data to change(data), again and again while others are faster.

        change gets a copy. If it returns None, nothing is written. update returns the new data.
        """
        view = self.view
        while (wanted := change(copy.deepcopy(view.data))) is not None:
            try:
                await self.set(wanted, expect=view)
                break
            except RoomdError as error:
                if error.code != "conflict":
                    raise
                now = _only(error.details, "epoch", "version", "data")
                view = replace(view, **{"data": None, **now})
        return wanted

    async def timer(self, name: str, after: float | None, then: Frame | None = None) -> None:
        """Sets a timer, or cancels it (None). then is what it does, such as {"data": …}."""
        left = {"in": None if after is None else round(after * 1000)}
        await self._do("timer", name=name, **left, **_given(then=then))

    async def say(
        self, text: str | None = None, *, data: Any = None, to: Sequence[str] | None = None
    ) -> None:
        """Sends a text, or JSON data, to all or to some users; to=[] sends it to admins only."""
        await self._do("say", **_given(text=text, data=data, to=to))

    async def leave(self) -> None:
        """Gives the seat back. Raises "lost" if it was lost before, for instance by a move."""
        if self.member:
            left, errors = lambda reply: self._client._left(self, reply), ("not_member", "unknown")
            await self._client._ask({"action": "leave", "room": self.id}, left, errors)

    async def unwatch(self) -> None:
        """Ends the watching. A member goes on hearing of the room."""
        if self.watching:
            frame = {"action": "unwatch", "room": self.id}
            await self._client._ask(frame, lambda reply: self._quit("unwatched"))

    async def _do(self, action: str, **fields: Any) -> None:
        if self.error:
            raise self.error
        reply = await self._client._ask({"action": action, "room": self.id, **fields})
        while not self.error and (
            self.view.epoch != reply["epoch"] or self.view.version < reply["version"]
        ):
            await self._news.wait()
            if self.view.epoch != reply["epoch"]:
                return

    def _snapshot(self) -> Frame:
        at = {"epoch": self.view.epoch, "version": self.view.version}
        return {"type": "snapshot", **at, "view": self.view}

    def _tell(self, changes: Iterable[Frame]) -> None:
        for change in changes:
            for reader in [*self._readers]:
                reader.push(change)
            if self._unread is not None and change["type"] == "message":
                self._unread = [*self._unread[1 - MOST_LAG :], change]
        self._news.set()
        self._news = asyncio.Event()

    def _own_seat(self, users: Iterable[Frame]) -> int | None:
        seats = (user["seat"] for user in users if user["user"] == self._client.user)
        return next(seats, self.view.seat) if self.member else None

    def _enter(self, seat: int | None) -> None:
        """Makes the client a member. After a move the seat comes with the snapshot."""
        self.member, self._lost = True, None
        self.view = replace(self.view, seat=seat)

    def _replace(self, listed: Frame, always: bool) -> None:
        """Replaces the copy by a list. Tells the readers if that is news, or always."""
        old, new = self.view, _view(listed)
        said = [{"type": "message", "epoch": new.epoch, **was} for was in listed.get("said", ())]
        news = always or self._stale or (old.epoch, old.version) != (new.epoch, new.version)
        self.view = replace(new if news else old, seat=self._own_seat(new.users))
        self._stale = False
        self._tell([*([self._snapshot()] if news else []), *said])

    def _change(self, event: Frame) -> None:
        view, epoch, version = self.view, event["epoch"], event["version"]
        if self._stale:
            return  # the list that comes has this, too
        begins = view.version == 0 and event["from"] == 0
        if event["from"] != view.version or (epoch != view.epoch and not begins):
            self._stale = True
            self._client._later(self._client._resync(self))
            return
        changes = [{"version": version, **change, "epoch": epoch} for change in event["changes"]]
        for change in changes:
            if change["type"] == "countdown" and change["in"] is not None:
                change["ends"] = time.monotonic() + change["in"] / 1000
            view = _applied(view, change)
        seat = self._own_seat(view.users)
        self.view = replace(view, epoch=epoch, version=version, seat=seat)
        self._tell(changes)

    def _lose(self, event: Frame) -> None:
        """Ends the membership, or the watch, as the server has. Tells the readers once."""
        why = _only(event, "reason", "text", "to")
        told, self._lost = self._lost, RoomdError("lost", f"room {self.id}: {why['reason']}", **why)
        self.member, self.view = False, replace(self.view, seat=None)
        if not told:
            self._tell([{**self._snapshot(), "type": "lost", **why}])
        if not self.watching:
            self._end(self._lost)

    def _quit(self, code: str) -> None:
        """Ends the membership, or the watch, as the program wants."""
        if code == "unwatched":
            self.watching = False
        else:
            self.member, self.view = False, replace(self.view, seat=None)
        if not self.member and not self.watching:
            self._end(RoomdError(code, f"room {self.id}"))

    def _end(self, error: Exception) -> None:
        if not self.error:
            self.error, self.member, self.watching = error, False, False
            self.view = replace(self.view, seat=None)
            self._client.rooms.pop(self.id, None)
            self._tell([])


class _Protocol(websocket.WebSocketClientProtocol):
    """A connection whose handshake says why the server refuses it. It follows no redirects."""

    async def read_http_response(self) -> Any:
        status, headers = await super().read_http_response()
        if status != 101:
            raise _problem(status, await self.reader.read(LONGEST_FRAME))
        return status, headers


@dataclass(eq=False)
class _Request:
    frame: Frame
    text: str  # of the frame, as it was when the program asked
    apply: Callable[[Frame], Any]  # makes the result of the reply, before the next frame is read
    errors: Sequence[str]  # codes of errors that apply gets, too
    own: bool  # the client's own: it ends with the connection
    reply: asyncio.Future[Any]
    since: float  # when it last could have been sent
    id: int = 0  # on its way by the present connection
    doubtful: bool = False  # it was on its way by an earlier one, and may have been done
    tries: int = 0


class Client:
    """A user who stays connected to one of several servers: use it with "async with".

    addresses are those of the servers, such as "wss://a.example/ws". token is a JSON Web Token, or
    a function (of coroutines, too) that gets one for each connection and before the last expires.
    wait is how long a request waits for a connection before it fails with "timeout"; backoff has
    the bounds of the first pause between attempts and of all; heartbeat, how often the client
    pings, and how long it waits for the answer. on_state is called when state changes.

    rooms has those of which the client is a member or watcher, by id: also one to which the user
    was moved, and one whose join was cancelled after it was sent. Many tasks may use a client.
    """

    def __init__(
        self,
        addresses: str | Sequence[str],
        *,
        user: str | None = None,
        token: str | Callable[[], str | Awaitable[str]] | None = None,
        wait: float = 10.0,
        backoff: tuple[float, float] = (0.25, 5.0),
        heartbeat: tuple[float, float] = (6.0, 5.0),
        on_state: Callable[[str], object] = lambda state: None,
    ) -> None:
        addresses = [addresses] if isinstance(addresses, str) else addresses
        self.user = user
        self.rooms: dict[str, Room] = {}
        # "connecting", "connected", "degraded" (the server has no Redis), "reconnecting", "lost"
        self.state = "connecting"
        self.error: Exception | None = None  # why the client is lost
        self._addresses = [_address(address, user) for address in addresses]
        self._given_token, self._wait, self._backoff = token, wait, backoff
        self._heartbeat, self._on_state = heartbeat, on_state
        self._ws: _Protocol | None = None
        self._expires: float | None = None  # when the token does, in seconds since 1970
        self._requests: list[_Request] = []  # without a result, in the order of asking
        self._sent: dict[int, _Request] = {}  # those on their way, by id
        self._wake = asyncio.Event()  # a request may have to be sent
        self._last = 0  # the last id
        self._window, self._rest = 0.0, 0.0  # how many may be on their way, none before this time
        self._lobbies: set[Lobby] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._known = asyncio.Event()  # whether a server accepts the client
        self._closing: asyncio.Task[None] | None = None
        if not self._addresses:
            raise RoomdError("bad_request", "addresses: there is none")

    async def __aenter__(self) -> Client:
        return await self.connect()

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def connect(self) -> Client:
        """Connects. It tries until a server accepts the user, or refuses for good."""
        self._tasks = [asyncio.create_task(work) for work in (self._run(), self._pump())]
        try:
            await self._known.wait()
            if self.error:
                raise self.error
        except BaseException:
            await self.close()
            raise
        return self

    async def close(self) -> None:
        """Leaves all rooms and ends. A program that ends without it keeps seats for the grace."""
        self._closing = self._closing or asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        ws = self._ws
        self._fail(RoomdError("client_closed", "the program closed the client"))
        if ws:
            await asyncio.wait([asyncio.create_task(ws.close(1000))], timeout=CLOSE_WAIT)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def join(
        self, room: str, *, seat: int | None = None, history: int | None = None
    ) -> Room:
        """Takes a seat, that one or any. history: so many earlier messages to iterate over."""
        frame = {"action": "join", "room": room, **_given(seat=seat, history=history)}
        return await self._ask(frame, lambda reply: self._entered(reply, True, history))

    async def match(
        self,
        labels: dict[str, str],
        settings: Frame | None = None,
        *,
        party: str | None = None,
        users: list[str] | None = None,
    ) -> Room:
        """Takes a seat in a room with these labels, or begins one with the settings.

        party: a room in which the user agrees to that; once all these users have, all are moved.
        """
        key = None if party else secrets.token_hex(16)  # a repeated request finds its seat by it
        rest = _given(settings=settings, key=key, party=party, users=users)
        frame = {"action": "match", "labels": labels, **rest}
        return await self._ask(frame, lambda reply: self._entered(reply, True))

    async def watch(self, room: str, *, history: int | None = None) -> Room:
        """Follows a room without a seat."""
        frame = {"action": "watch", "room": room, **_given(history=history)}
        return await self._ask(frame, lambda reply: self._entered(reply, False, history))

    async def users(self, room: str) -> View:
        """Returns the room as it is now."""
        return await self._ask({"action": "users", "room": room}, _view)

    async def request(self, action: str, room: str, **fields: Any) -> Frame:
        """Sends what has no method here: kick, swap, shuffle, txn, configure, close, set, …

        The fields are those of transport/protocol/v1/requests.md. Returns the reply.
        """
        return await self._ask({"action": action, "room": room, **fields})

    def lobby(
        self, *, labels: dict[str, str] | None = None, sort: str = "id", **query: str | int
    ) -> Lobby:
        """Follows the list of rooms, with these labels, sorted by "id", "members" or "age".

        query may have prefix and contains (of ids), and free (how many seats must be free).
        """
        labelled = [("label", f"{name}:{value}") for name, value in (labels or {}).items()]
        return Lobby(self, urlencode([("watch", ""), *query.items(), *labelled]), sort)

    # Connections.

    async def _run(self) -> None:
        self._fail(await self._keep(self._serve))

    async def _keep(
        self,
        attempt: Callable[[str], Awaitable[bool]],
        missed: Callable[[], object] = lambda: None,
    ) -> Exception:
        """Calls attempt with one address after the other, until an error that no other can mend.

        attempt returns when a server that had accepted the client has gone, and whether it did not
        accept the token any more. After one refused token the client asks for another.
        """
        refused = accepted = False
        turn, n = random.randrange(len(self._addresses)), 0
        while True:
            began = time.monotonic()
            try:
                refused = await attempt(self._addresses[turn % len(self._addresses)])
                accepted = True
                n = 0 if time.monotonic() - began >= STEADY else n
            except Exception as error:
                denied = _code(error) == "unauthorized" and callable(self._given_token)
                if isinstance(error, RoomdError):
                    final = not error.retry and (refused or not denied)
                else:  # of the network, or of the program's function for tokens
                    final = not accepted and not isinstance(error, NETWORK)
                if final:
                    return error
                log.warning("attempt %d to connect has failed: %r", n + 1, error)
                refused = refused or denied
                missed()
            if self.error:  # a TaskGroup that ends can swallow the cancellation of its task
                return self.error
            await asyncio.sleep(self._pause(n))
            turn, n = turn + 1, n + 1

    def _pause(self, n: int) -> float:
        """A random time below a bound that doubles, so that clients spread out."""
        base, cap = self._backoff
        return random.random() * min(cap, base * 2 ** min(n, 30))

    async def _token(self) -> str | None:
        token = self._given_token() if callable(self._given_token) else self._given_token
        async with asyncio.timeout(self._wait):
            return await token if inspect.isawaitable(token) else token

    async def _serve(self, address: str) -> bool:
        """Makes a connection, and keeps it until it ends. Its tasks end with it."""
        token = await self._token()
        self._ws = ws = await websocket.connect(
            address,
            create_protocol=_Protocol,
            subprotocols=[PROTOCOL],
            extra_headers=_given(Authorization=token and f"Bearer {token}"),
            compression=None,
            max_size=None,
            ping_interval=None,
            open_timeout=self._wait,
            close_timeout=CLOSE_WAIT,
        )
        self._window = MOST_UNANSWERED
        try:
            if self.error:  # while the library did not notice that it was cancelled
                raise self.error
            if ws.subprotocol != PROTOCOL:
                raise RoomdError("bad_request", f"{address} does not speak {PROTOCOL}")
            async with asyncio.TaskGroup() as group:
                self._later = group.create_task
                self._granted(_claims(token))
                self._later(self._beat(ws))
                self._later(self._renew())
                for room in self.rooms.values():
                    room._restoring, room._stale, room._moved = True, False, False
                    self._later(self._restore(room))
                self._become("connected")
                self._known.set()
                while True:
                    self._receive(json.loads(await ws.recv()))
        except* ConnectionClosed:
            pass
        except* GARBAGE as errors:
            log.warning("the server sent what is no frame", exc_info=errors)
        finally:
            ws.transport.abort()
            self._down(ws.close_code)
        return self._judge(ws.close_code)

    def _judge(self, code: int | None) -> bool:
        """Whether that close code asks for another token. Raises why not to connect again."""
        text = f"the server closed the connection with {code}"
        if code == REPLACED:
            raise RoomdError("replaced", text)
        if code in FAULTS:
            raise RoomdError("disconnected", text)
        if code == EXPIRED and not callable(self._given_token):
            raise RoomdError("unauthorized", text)
        self._become("reconnecting")
        return code == EXPIRED

    def _granted(self, claims: Frame) -> None:
        self.user, self._expires = claims.get("user", self.user), claims.get("expires")

    async def _beat(self, ws: _Protocol) -> None:
        idle, silence = self._heartbeat
        while True:
            await asyncio.sleep(idle)
            try:
                async with asyncio.timeout(silence):
                    await (await ws.ping())
            except TimeoutError:
                log.warning("the server is silent")
                ws.transport.abort()

    async def _renew(self) -> None:
        """Shows newer tokens, by the server's time: its clock decides when a token expires."""
        while callable(self._given_token) and self._expires is not None:
            try:
                now = (await self._ask({"action": "ping"}, own=True))["time"] / 1000
                await asyncio.sleep(max((self._expires - now) * 0.8, 0.5))
                frame = {"action": "auth", "token": await self._token()}
                self._granted(await self._ask(frame, own=True))
            except Exception as error:  # the older token stays valid until the server says not
                log.warning("no newer token: %r", error)
                await asyncio.sleep(1)

    def _become(self, state: str) -> None:
        if self.state not in (state, "lost"):
            self.state = state
            self._on_state(state)

    def _fail(self, error: Exception) -> None:
        """Ends the client."""
        if self.error:
            return
        self._down(None)
        self.error = error
        for request in self._requests:
            request.reply.done() or request.reply.set_exception(error)
        for part in [*self.rooms.values(), *self._lobbies]:
            part._end(error)
        self._known.set()
        self._become("lost")

    def _down(self, code: int | None) -> None:
        """Decides about the requests that were on their way when the connection ended."""
        self._ws = None
        self._sent.clear()
        for room in self.rooms.values():
            room._restoring = True
        for request in self._requests:
            request.since = time.monotonic()
            if request.id and code != RESTART:
                request.doubtful = True
                if request.frame["action"] not in REPEATABLE:
                    self._give_up(request, "the connection broke before the reply came")
            request.id = 0

    # Requests.

    async def _ask(
        self,
        frame: Frame,
        apply: Callable[[Frame], Any] = lambda reply: reply,
        errors: Sequence[str] = (),
        own: bool = False,
    ) -> Any:
        if self.error:
            raise self.error
        reply = asyncio.get_running_loop().create_future()
        text, since = _text(frame), time.monotonic()
        request = _Request(frame, text, apply, errors, own, reply, since)
        self._requests.append(request)
        self._wake.set()
        try:
            return await reply
        finally:
            self._requests.remove(request)

    async def _pump(self) -> None:
        """Sends requests when they may be sent, and gives up those that wait for too long."""
        while True:
            self._wake.clear()
            waiting = [request for request in self._requests if not request.id]
            for request in waiting:
                now = time.monotonic()
                if request.reply.done():
                    continue
                if not self._ws or not self._allowed(request):
                    if now - request.since > self._wait and not request.own:
                        self._give_up(request, f"no connection in {self._wait} s")
                    continue
                request.since = now
                if len(self._sent) < int(self._window) and now >= self._rest:
                    self._last = request.id = self._last + 1
                    self._sent[request.id] = request
                    with contextlib.suppress(ConnectionClosed):
                        await self._ws.send(f'{{"id":{request.id},{request.text[1:]}')
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PAUSE if waiting else None):
                    await self._wake.wait()

    def _allowed(self, request: _Request) -> bool:
        """After a reconnect, and after a move, the requests of a room wait for its list."""
        room = self.rooms.get(request.frame.get("room") or request.frame.get("party", ""))
        if not room or request.own:
            return True
        awaits = room._moved and room.member and room.view.seat is None
        return not room._restoring and (not awaits or request.frame["action"] == "join")

    def _give_up(self, request: _Request, why: str) -> None:
        error = {"code": "timeout", "message": f"{request.frame['action']}: {why}", "retry": True}
        if request.doubtful:
            why = f"{error['message']}; it was done or it was not"
            error = {"code": "unknown", "message": why}
        self._settle(request, {"error": error})

    def _receive(self, frame: Frame) -> None:
        if self.error:
            return
        if "event" in frame:
            self._event(frame)
        elif request := self._sent.pop(frame.get("id", 0), None):
            if _code(frame) == "rate_limited" and request.tries < RATE_TRIES - 1:
                request.id, request.tries = 0, request.tries + 1
                self._window, self._rest = 1.0, time.monotonic() + PAUSE
            else:
                self._window = min(MOST_UNANSWERED, self._window + 1 / self._window)
                self._settle(request, frame)
        self._wake.set()

    def _settle(self, request: _Request, reply: Frame) -> None:
        try:
            if _code(reply) and _code(reply) not in request.errors:
                raise _refusal(reply)
            result = request.apply(reply)  # of a cancelled request, too: it was done
            request.reply.done() or request.reply.set_result(result)
        except RoomdError as error:
            request.reply.done() or request.reply.set_exception(error)

    # Rooms.

    def _room(self, id: str) -> Room:
        return self.rooms.setdefault(id, Room(self, id))

    def _entered(self, reply: Frame, member: bool, history: int | None = None) -> Room:
        """Applies the reply to a join, a match or a watch."""
        room = self._room(reply["room"])
        if history is not None and not room._readers:
            room._unread = room._unread or []
        if member:
            seated = (user["user"] for user in reply["users"] if user["seat"] == reply["seat"])
            self.user = next(seated, self.user)  # as the server writes it
            room._enter(reply["seat"])
        else:
            room.watching = True
        room._replace(reply, False)
        return room

    def _left(self, room: Room, reply: Frame) -> None:
        """Applies the reply to a leave. Raises why, if the server had ended the membership."""
        if "reason" in reply:
            self._lose(reply)
        if _code(reply) and room._lost:
            raise room._lost
        if now := self.rooms.get(room.id):  # another one, if room was lost before the reply came
            now._quit("left")
        if _code(reply) == "unknown":
            raise _refusal(reply)

    def _lose(self, event: Frame) -> None:
        """Applies the end of a membership. A moved user is a member of the other room then."""
        if room := self.rooms.get(event["room"]):
            room._lose(event)
        if "to" in event:
            target = self._room(event["to"])
            target._moved = True
            target.member or target._enter(None)

    def _event(self, event: Frame) -> None:
        kind, room = event["event"], self.rooms.get(event.get("room", ""))
        if kind == "node":
            self._become("degraded" if event["degraded"] else "connected")
        elif kind == "lost":
            self._lose(event)
        elif kind == "snapshot":
            # It makes the client a member if it lists the client, and there is no such room, or a
            # move there was announced: the reply to a leave may have crossed the move.
            seats = [user["seat"] for user in event["users"] if user["user"] == self.user]
            if seats and (not room or room._moved):
                room = self._room(event["room"])
                room._enter(seats[0])
            if room:
                room._moved = False
                room._replace(event, True)
        elif kind == "unwatched" and room:
            room.watching = False
            room.member or room._lose(event)
        elif kind == "changes" and room:
            room._change(event)

    async def _resync(self, room: Room) -> None:
        frame = {"action": "users", "room": room.id}
        await self._insist(room, frame, lambda list: room._stale and room._replace(list, True))

    async def _restore(self, room: Room) -> None:
        """Joins and watches a room again."""
        view, at = room.view, {"room": room.id}

        def back(reply: Frame) -> None:
            room._enter(reply["seat"])
            room._replace(reply, True)

        if room.member:
            seat = {} if view.seat is None else {"seat": view.seat, **_expected(view)}
            if error := await self._insist(room, {"action": "join", **at, **seat}, back):
                room._lose({"reason": error.code, **error.details})
        if room.watching:
            since = _expected(view) if view.settings.get("history") else {}  # for what was said
            again = lambda list: room._replace(list, not room.member)  # noqa: E731
            if error := await self._insist(room, {"action": "watch", **at, **since}, again):
                room.watching = False
                room.member or room._lose({"reason": error.code})
        room._restoring = False
        self._wake.set()

    async def _insist(
        self, room: Room, frame: Frame, apply: Callable[[Frame], Any]
    ) -> RoomdError | None:
        """Repeats a request while that may help. Returns the last refusal.

        Until the server notices the end of the last connection, it may refuse the user for that.
        """
        began, n = time.monotonic(), 0
        while not room.error:
            try:
                await self._ask(frame, apply, own=True)
                return None
            except RoomdError as error:
                old = time.monotonic() - began < 2 * self._heartbeat[0]
                own = error.code == "duplicate_user" and old
                if not error.retry and error.code != "unknown" and not own:
                    return error
            await asyncio.sleep(self._pause(n))
            n += 1
        return None


_ORDERS: dict[str, Callable[[Frame], Any]] = {
    "id": lambda room: room["room"],
    "members": lambda room: (-room["count"], room["room"]),
    "age": lambda room: (-room.get("since", math.inf), room["room"]),  # the newest has no age
}


class Lobby:
    """One iteration over the list of rooms: each time the newest one, a list of dicts.

    Each has "room", "count", "capacity", "free", … (cmd/roomd/operating/http-api.md). stale says
    that no server has answered since. The iteration raises the error of a server that refuses it,
    and of a client that ends. A loop that ends before needs aclose, or contextlib.aclosing.
    """

    def __init__(self, client: Client, query: str, sort: str) -> None:
        self.stale = False
        self._client, self._query, self._order = client, query, _ORDERS[sort]
        self._rooms: dict[str, Frame] | None = None  # by id; None before the first list
        self._parts: list[tuple[str, Frame]] = []  # of a list that is not whole yet
        self._fresh, self._over, self._error = False, bool(client.error), client.error
        self._news = asyncio.Event()
        self._task = asyncio.create_task(self._feed())
        client._lobbies.add(self)

    def __aiter__(self) -> Lobby:
        return self

    async def __anext__(self) -> list[Frame]:
        while not self._fresh:
            if self._over:
                error, self._error = self._error, None  # which is raised once
                raise error or StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        self._fresh = False
        return sorted((self._rooms or {}).values(), key=self._order)

    async def aclose(self) -> None:
        """Ends the iteration."""
        self._fresh = False
        self._end(None)

    def _end(self, error: Exception | None) -> None:
        self._over, self._error = True, self._error or error
        self._task.cancel()
        self._client._lobbies.discard(self)
        self._news.set()

    async def _feed(self) -> None:
        self._end(await self._client._keep(self._follow, self._missed))

    def _missed(self) -> None:
        if not self.stale:
            self.stale, self._fresh = True, self._rooms is not None
            self._news.set()

    async def _follow(self, address: str) -> bool:
        """Asks a server, by HTTP/1.0: the answer is not in chunks. Returns when it ends."""
        token, url = await self._client._token(), urlsplit(address)
        secure = url.scheme == "wss"
        path = f"{url.path.rpartition('/')[0]}/api/rooms?{self._query}"
        lines = [f"GET {path} HTTP/1.0", f"Host: {url.netloc}"]
        lines += [f"Authorization: Bearer {token}"] if token else []
        writer = None
        try:
            async with asyncio.timeout(self._client._wait):
                port = url.port or (443 if secure else 80)
                reader, writer = await asyncio.open_connection(
                    url.hostname, port, ssl=secure or None, limit=2**26
                )
                writer.write("\r\n".join([*lines, "", ""]).encode())
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                if "200" not in head[:13] or "\r\ncontent-type: text/event-stream" not in head:
                    raise _problem(int(head[9:12]), await reader.read(LONGEST_FRAME))
            with contextlib.suppress(*NETWORK, *GARBAGE):  # only this connection ends
                await self._read(reader)
        finally:
            if writer:
                writer.transport.abort()
        return False

    async def _read(self, reader: asyncio.StreamReader) -> None:
        name = data = ""
        line = "begins"
        while line:
            async with asyncio.timeout(LOBBY_SILENCE):
                line = (await reader.readline()).decode()
            key, _, value = line.partition(":")
            if key == "event":
                name = value.strip()
            elif key == "data":
                data += value
            elif line == "\n":
                if name in ("rooms", "changes"):
                    self._hear(name, json.loads(data))
                name = data = ""

    def _hear(self, name: str, event: Frame) -> None:
        self._parts.append((name, event))
        if event.get("more"):
            return
        for name, part in self._parts:
            known = self._rooms if name == "changes" and self._rooms else {}
            known = known | {room["room"]: room for room in part.get("rooms", ())}
            gone = part.get("gone", ())
            self._rooms = {id: room for id, room in known.items() if id not in gone}
        self._parts, self.stale, self._fresh = [], False, True
        self._news.set()


def _only(frame: Frame, *names: str) -> Frame:
    return {name: frame[name] for name in names if name in frame}


def _given(**fields: Any) -> Frame:
    return {name: value for name, value in fields.items() if value is not None}


def _expected(view: View | None) -> Frame:
    return _given(expect=view.version, epoch=view.epoch or None) if view else {}


def _code(reply: Any) -> str:
    """The code of a reply with an error, or of an exception."""
    if isinstance(reply, RoomdError):
        return reply.code
    return reply["error"]["code"] if isinstance(reply, dict) and "error" in reply else ""


def _refusal(reply: Frame) -> RoomdError:
    error = reply["error"]
    details = _only(reply, "data", "epoch", "version", "reason", "text", "to")
    return RoomdError(error["code"], error["message"], error.get("retry", False), **details)


def _problem(status: int, body: bytes) -> Exception:
    """The error of an HTTP answer. One that is not roomd's is a proxy's: servers may restart."""
    try:
        problem = json.loads(body)
        return _refusal(problem if "error" in problem else {"error": {"message": "", **problem}})
    except (ValueError, TypeError, KeyError):
        return ConnectionError(f"the server answers with HTTP {status}")


def _text(frame: Frame) -> str:
    try:
        text = json.dumps(frame, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        size = len(text.encode()) + 24  # with the id
    except (TypeError, ValueError, RecursionError) as error:
        raise RoomdError("bad_request", f"{frame['action']}: {error}") from error
    if size > LONGEST_FRAME:
        raise RoomdError("too_large", f"{frame['action']}: makes a frame of {size} bytes")
    return text


def _address(address: str, user: str | None) -> str:
    """The WebSocket URL of an address."""
    url = urlsplit(address)
    scheme = {"http": "ws", "https": "wss"}.get(url.scheme, url.scheme)
    if scheme not in ("ws", "wss") or not url.hostname or "@" in url.netloc:
        raise RoomdError("bad_request", f"{address!r} is no address such as wss://HOST/ws")
    query = dict(parse_qsl(url.query)) | _given(user=user)
    return urlunsplit((scheme, url.netloc, url.path.rstrip("/") or "/ws", urlencode(query), ""))


def _claims(token: str | None) -> Frame:
    """The user and the expiry of a token, which the server verifies."""
    try:
        claims = json.loads(base64.urlsafe_b64decode((token or "").split(".")[1] + "=="))
        return _given(user=claims.get("sub"), expires=claims.get("exp"))
    except (AttributeError, IndexError, TypeError, ValueError):
        return {}
