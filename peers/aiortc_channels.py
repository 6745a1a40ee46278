"""A peer with data channels by aiortc, which shares no code with ours.

Gives its offer, or its answer to OFFER, as `FOLDER/local.sdp` and takes the other
end's description from `FOLDER/remote.sdp`. The other end gives every message back,
and has a channel of its own, "own", on which this one does. Prints one JSON object
of how it went.
"""

import argparse
import asyncio
import json
import os
import sys

from aiortc import RTCPeerConnection, RTCSessionDescription

SIZES = [1, 16 << 10, 256 << 10, 1 << 20]
# What aiortc takes and gives in one message.
PIECE = 65536
# On a crowded machine an interpreter is slow.
PATIENCE_S = 200
NEGOTIATED = 100


def pattern(size, seed):
    return bytes((at * 31 + seed) % 251 for at in range(size))


def bytes_of(message):
    return len(message.encode() if isinstance(message, str) else message)


class Exercise:
    """One channel: what is sent on it must come back."""

    def __init__(self, connection, label, **options):
        self.ordered = options.get("ordered", True)
        self.channel = connection.createDataChannel(label, **options)
        self.messages = 0
        self.bytes = 0
        self.got = asyncio.Queue()
        self.opened = asyncio.Event()
        self.closed = asyncio.Event()
        self.channel.on("message", self.got.put_nowait)
        self.channel.on("open", self.opened.set)
        self.channel.on("close", self.closed.set)

    async def run(self):
        if self.channel.readyState != "open":
            await self.opened.wait()
        for size in SIZES:
            whole = pattern(size, len(self.channel.label))
            parts = [whole[at : at + PIECE] for at in range(0, size, PIECE)]
            if size == 1:
                parts += ["ö", "", b""]
            rounds = [parts] if self.ordered else [[part] for part in parts]
            for part in (part for one in rounds for part in self.send_all(one)):
                if await self.got.get() != part:
                    raise ValueError(f"{self.channel.label}: {size} bytes came back changed")
                self.messages += 1
                self.bytes += bytes_of(part)
        self.channel.close()
        await self.closed.wait()

    def send_all(self, parts):
        for part in parts:
            self.channel.send(part)
        return parts


async def signal(folder, connection, role):
    def path(name):
        return os.path.join(folder, name)

    async def remote(kind):
        while not os.path.exists(path("remote.sdp")):
            await asyncio.sleep(0.02)
        with open(path("remote.sdp"), encoding="utf-8", newline="") as file:
            description = RTCSessionDescription(sdp=file.read(), type=kind)
        await connection.setRemoteDescription(description)

    def publish():
        with open(path("local.part"), "w", encoding="utf-8", newline="") as file:
            file.write(connection.localDescription.sdp)
        os.rename(path("local.part"), path("local.sdp"))

    if role == "offer":
        await connection.setLocalDescription(await connection.createOffer())
        publish()
        await remote("answer")
    else:
        await remote("offer")
        await connection.setLocalDescription(await connection.createAnswer())
        publish()


async def run(folder, role):
    connection = RTCPeerConnection()
    given_back = 0

    @connection.on("datachannel")
    def on_channel(channel):
        @channel.on("message")
        def on_message(message):
            nonlocal given_back
            given_back += bytes_of(message)
            channel.send(message)

    exercises = [
        Exercise(connection, "ordered"),
        Exercise(connection, "unordered", ordered=False),
        Exercise(connection, "negotiated", negotiated=True, id=NEGOTIATED),
    ]
    await signal(folder, connection, role)
    await asyncio.gather(*(exercise.run() for exercise in exercises))
    while given_back < sum(SIZES):
        await asyncio.sleep(0.05)
    report = {
        "channels": {
            exercise.channel.label: {"messages": exercise.messages, "bytes": exercise.bytes}
            for exercise in exercises
        },
        "givenBack": given_back,
        "closed": len(exercises),
        "done": True,
    }
    await connection.close()
    print(json.dumps(report), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("role", choices=["offer", "answer"])
    arguments = parser.parse_args()
    try:
        asyncio.run(asyncio.wait_for(run(arguments.folder, arguments.role), PATIENCE_S))
    except Exception as error:  # Whatever it is, the caller wants to read it.
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
