"""A WHIP server by aiortc, a WebRTC implementation that shares no code with ours.

Decodes what publishers send. Prints `ready URL` once it listens, and each second a line
of JSON with the frames of each kind so far and the size of the latest picture. Run it
with the Python of target/peers/aiortc.
"""

import argparse
import asyncio
import http.server
import json
import threading

from aiortc import RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError

ANSWER_TIMEOUT_S = 10


class Publications:
    """The connections of publishers, and what was decoded of them."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.connections = []
        self.frames = {"video": 0, "audio": 0}
        self.size = None

    def accept(self, offer):
        """Returns the answer to an offer; for the threads of the HTTP server."""
        answered = asyncio.run_coroutine_threadsafe(self._accept(offer), self.loop)
        return answered.result(ANSWER_TIMEOUT_S)

    async def _accept(self, offer):
        connection = RTCPeerConnection()
        self.connections.append(connection)
        connection.on("track", lambda track: asyncio.ensure_future(self._decode(track)))
        await connection.setRemoteDescription(RTCSessionDescription(offer, "offer"))
        await connection.setLocalDescription(await connection.createAnswer())
        return connection.localDescription.sdp

    async def _decode(self, track):
        while True:
            try:
                frame = await track.recv()
            except MediaStreamError:
                return
            self.frames[track.kind] += 1
            if track.kind == "video":
                self.size = [frame.width, frame.height]

    async def report(self):
        while True:
            await asyncio.sleep(1)
            print(json.dumps({**self.frames, "size": self.size}), flush=True)


def handler(publications):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            offer = self.rfile.read(int(self.headers["Content-Length"])).decode()
            answer = publications.accept(offer).encode()
            self.send_response(201)
            self.send_header("Content-Type", "application/sdp")
            self.send_header("Content-Length", str(len(answer)))
            self.send_header("Location", "/whip/session")
            self.end_headers()
            self.wfile.write(answer)

        def do_DELETE(self):
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    return Handler


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="TCP port, 0 for a free one")
    options = parser.parse_args()
    publications = Publications()
    address = ("127.0.0.1", options.port)
    server = http.server.ThreadingHTTPServer(address, handler(publications))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"ready http://127.0.0.1:{server.server_address[1]}/whip", flush=True)
    publications.loop.run_until_complete(publications.report())


if __name__ == "__main__":
    main()
