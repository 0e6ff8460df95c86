"""A player for tables that wait: python3 bot.py ws://127.0.0.1:8080/ws ROOM [--players 2] [--patience 10]

The convention, which needs nothing of the server but watching:

- A user whose name begins with "bot-" is a bot, all others are humans.
- A table has one seat more than its game has players: for a game of two, configure the room with
  the capacity 3. So a human always finds a seat, and the bots see the join.
- A bot watches the table. If at least one human, but too few players have sat there for longer
  than its patience, it takes a seat and is ready.
- If more than the wanted number sit there, so many bots leave, those of the highest seats first.
  If no human is left, all bots leave.

Run as many bots as you like at one table, each by another name: all see the same changes, and so
agree which of them leave. To play, a bot of a game does its moves where this one calls play.
"""

import argparse
import asyncio
import contextlib

from roomd import Client, Room, RoomdError, View


def humans(view: View) -> bool:
    return any(not user["user"].startswith("bot-") for user in view.users)


def surplus(view: View, players: int) -> list[int]:
    """The seats of the bots that have to leave."""
    bots = [user["seat"] for user in view.users if user["user"].startswith("bot-")]
    wanted = max(0, players - len(view.users) + len(bots)) if humans(view) else 0
    return bots[wanted:]


async def sit(client: Client, room: str, patience: float) -> None:
    retry = True
    while retry:
        await asyncio.sleep(patience)
        try:
            table = await client.join(room)
            return await table.ready()
        except RoomdError as error:  # if somebody was faster, the next change says how it is
            retry = error.retry


async def play(table: Room) -> None:
    """A game's moves, after each change."""


async def attend(client: Client, room: str, players: int, patience: float) -> None:
    """Attends a table until the client may not watch it any more."""
    table, sitting = await client.watch(room), None
    async for _ in table:
        view = table.view
        waits = humans(view) and len(view.users) < players and not table.member
        if sitting and (sitting.done() or not waits and not table.member):
            sitting.cancel()
            sitting = None
        if waits and not sitting:
            sitting = asyncio.create_task(sit(client, room, patience))
        if view.seat in surplus(view, players):
            with contextlib.suppress(RoomdError):  # the seat was lost before
                await table.leave()
        elif table.member:
            await play(table)


async def main() -> None:
    flags = argparse.ArgumentParser(description="A player for tables that wait.")
    flags.add_argument("address")
    flags.add_argument("room")
    flags.add_argument("--name", default="bot-1", help="begins with bot-")
    flags.add_argument("--players", type=int, default=2, help="how many the game needs")
    flags.add_argument("--patience", type=float, default=10, help="seconds that the table waits")
    given = flags.parse_args()
    async with Client(given.address, user=given.name) as client:
        await attend(client, given.room, given.players, given.patience)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
