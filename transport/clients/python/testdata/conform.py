"""roomd.py under test by the conformance kit: see README.md of transport/scenarios for the lines that it reads and writes."""

import asyncio
import json
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
import roomd

time.time = lambda: 0.0  # nothing here may depend on a clock that somebody sets


def shown(view):
    users = [{key: value for key, value in user.items() if key != "private"} for user in view.users]
    private = {user["user"]: user["private"] for user in view.users if "private" in user}
    fields = {"host": view.host, "data": view.data, "timers": sorted(view.timers), "private": private, "seat": view.seat}
    given = {name: value for name, value in fields.items() if value is not None and value != {} and value != []}
    if view.data is not None:
        given["data"] = view.data
    return {"epoch": view.epoch, "version": view.version, "users": users, "settings": view.settings, **given}


class Subject:
    """What one client can be asked for."""

    def __init__(self):
        self.client = self.connecting = self.follows = None
        self.rooms, self.iterations = {}, {}  # rooms by id, also those that have ended

    def at(self, room):
        if self.client and room in self.client.rooms:
            self.rooms[room] = self.client.rooms[room]
        return self.rooms[room]

    async def connect(self, options):
        tokens = options.get("tokens")
        token = tokens and (lambda: tokens.pop(0) if len(tokens) > 1 else tokens[0])
        seconds = {name: options[name] / 1000 for name in ("base", "cap", "idle", "silence", "wait") if name in options}
        backoff = (seconds.get("base", 0.25), seconds.get("cap", 5.0))
        heartbeat = (seconds.get("idle", 6.0), seconds.get("silence", 5.0))
        self.client = roomd.Client(
            options["addresses"], user=options.get("user"), token=token, backoff=backoff,
            heartbeat=heartbeat, wait=seconds.get("wait", 10.0),
        )
        self.connecting = asyncio.create_task(self.client.connect())
        await self.connecting

    async def join(self, room, options={}):
        self.rooms[room] = await self.client.join(room, **options)

    async def watch(self, room, options={}):
        self.rooms[room] = await self.client.watch(room, **options)

    async def leave(self, room):
        await self.at(room).leave()

    async def unwatch(self, room):
        await self.at(room).unwatch()

    async def users(self, room):
        return shown(await self.client.users(room))

    async def ready(self, room, value):
        await self.at(room).ready(value)

    async def set(self, room, data):
        await self.at(room).set(data)

    async def setMember(self, room, data):
        await self.at(room).set(data, scope="member")

    async def setPrivate(self, room, data):
        await self.at(room).set(data, scope="private")

    async def setPrivateOf(self, room, user, data):
        await self.client.request("set", room, scope="private", user=user, data=data)

    async def update(self, room, by):
        await self.at(room).update(lambda old: (old or 0) + by)

    async def say(self, room, text):
        await self.at(room).say(text)

    async def sayTo(self, room, user, text):
        await self.at(room).say(text, to=[user])

    async def propose(self, room, data):
        await self.at(room).say(data=data, to=[])

    async def timer(self, room, name, then=None, **rest):
        after = rest["in"]
        await self.at(room).timer(name, after if after is None else after / 1000, then)

    async def swap(self, room, user, other):
        await self.client.request("swap", room, users=[user, other])

    async def match(self, room, options):
        await self.client.match(party=room, **options)

    async def shuffle(self, room):
        await self.client.request("shuffle", room)

    async def txn(self, room, actions):
        await self.client.request("txn", room, actions=actions)

    async def view(self, room):
        return shown(self.at(room).view) if room in self.client.rooms else "none"

    async def iterate(self, room, name):
        self.iterations[name] = aiter(self.at(room))

    async def next(self, name):
        change = await anext(self.iterations[name], "end")
        return change if change == "end" else {k: v for k, v in change.items() if k not in ("ends", "view")}

    async def lobby(self, query):
        self.follows = self.client.lobby(**query)

    async def list(self):
        rooms = await anext(self.follows, None)
        if rooms is None:
            return "end"
        lines = [f"{room['room']} {room['count']}/{room['capacity']}" for room in rooms]
        return {"rooms": lines, **({"stale": True} if self.follows.stale else {})}

    async def unlist(self):
        await self.follows.aclose()

    async def state(self):
        return " ".join([self.client.state, *([self.client.error.code] if self.client.error else [])])

    async def ended(self, room):
        error = self.at(room).error
        return " ".join([error.code, *filter(None, [error.details.get("reason")])]) if error else "no"

    async def close(self):
        if self.client:
            await self.client.close()


async def answer(subject, id, do, fields):
    try:
        line = {"id": id, "result": await getattr(subject, do)(**fields)}
    except roomd.RoomdError as error:
        line = {"id": id, "error": error.code, "message": str(error)}
    except Exception:
        line = {"id": id, "error": traceback.format_exc()}
    print(json.dumps(line), flush=True)


async def main():
    subjects, tasks = {}, set()
    lines = asyncio.StreamReader(limit=2**24)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        fields = json.loads(line)
        id, client, do = fields.pop("id"), fields.pop("client"), fields.pop("do")
        task = asyncio.create_task(answer(subjects.setdefault(client, Subject()), id, do, fields))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    for subject in subjects.values():
        await subject.close()


asyncio.run(main())
