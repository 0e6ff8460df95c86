"""What is cancelled and closed leaves the client and the server of one mind: cancel.py ADDRESS."""

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
from roomd import Client, RoomdError


async def cancelled_joins(client):
    """Cancels joins before and after they are sent: what the server has done, the client knows."""
    seated = set()
    for turns in range(12):
        join = asyncio.create_task(client.join("42"))
        for _ in range(turns % 6):
            await asyncio.sleep(0)  # to another task; the reply needs more turns than these
        join.cancel()
        view = await client.users("42")  # replies come in the order of requests
        known = client.rooms["42"].member if "42" in client.rooms else False
        assert (len(view.users) == 1) == known, (turns, view, known)
        seated.add(known)
        if known:
            leave = asyncio.create_task(client.rooms["42"].leave())
            await asyncio.sleep(0)
            leave.cancel()
            await client.users("42")
            if "42" in client.rooms:
                await client.rooms["42"].leave()
    assert seated == {False, True}, seated
    assert not client._requests and not client._sent


async def closed(client, other):
    """Closes twice while much is under way: all of it ends, and the server hears the goodbye."""
    room, watched = await client.join("43"), await other.watch("43")
    lobby, changes = client.lobby(), aiter(room)
    await anext(lobby)
    await anext(changes)
    asked = [room.set("é" * 4000), *(room.set(n) for n in range(100)), anext(lobby)]
    asked += [client.users(f"r{n}") for n in range(100)]
    tasks = [asyncio.create_task(work) for work in asked]
    await tasks[0]
    await asyncio.gather(client.close(), client.close())
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, RoomdError):
            assert result.code in ("client_closed", "unknown"), result
        else:
            assert not isinstance(result, Exception), result
    async for _ in changes:  # until it ends, too
        pass
    assert room.error.code == "client_closed"
    async for change in watched:
        if change["type"] == "leave":
            assert change["reason"] == "left", change
            break
        assert change["type"] != "away", change
        if not watched.view.users:
            break


async def main(address):
    for bad in ([], "ftp://x", "ws://ada@x/ws"):
        try:
            Client(bad, user="ada")
            raise AssertionError(bad)
        except RoomdError as error:
            assert error.code == "bad_request", error
    async with asyncio.timeout(20):
        async with Client(address, user="李 四&=é") as client, Client(address, user="bob") as other:
            await cancelled_joins(client)
            await closed(client, other)
    assert len(asyncio.all_tasks()) == 1, asyncio.all_tasks()


asyncio.run(main(sys.argv[1]))
