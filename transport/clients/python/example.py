"""Players count to nine together: python3 example.py ws://127.0.0.1:8080/ws NAME, in two terminals."""

import asyncio
import sys

from roomd import Client, RoomdError


def following(number: int | None) -> int | None:
    """The number after this one; None, which writes nothing, if it was the last."""
    return None if number == 9 else (number or 0) + 1


async def main(address: str, user: str) -> None:
    async with Client(address, user=user) as client:
        room = await client.join("counting")
        async for _ in room:
            if room.view.data == 9:
                break
            if len(room.view.users) < 2:
                continue  # for another player
            try:
                if number := await room.update(following):
                    print(user, "says", number)
            except RoomdError as error:
                if error.code != "unknown":  # then it was done or not, and the next change shows it
                    raise
        if room.error:
            raise room.error  # the seat is lost, or the client is


asyncio.run(main(*sys.argv[1:]))
