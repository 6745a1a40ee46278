"""A WHEP viewer by aiortc, a WebRTC implementation that shares no code with ours.

Plays URL for some seconds and prints one JSON object of what arrived. Run it with
the Python of target/peers/aiortc. Exit code 0 means that the exchange worked, not
that media came: the caller judges the numbers.
"""

import argparse
import asyncio
import json
import sys
import time
import urllib.parse

import pylibsrtp
from aiortc import RTCPeerConnection, RTCSessionDescription, rtcdtlstransport
from aiortc.mediastreams import MediaStreamError
from OpenSSL import SSL
from signalling import Refused, request


class Viewer:
    """What one session has received."""

    def __init__(self):
        self.started = time.monotonic()
        self.first_frame_ms = None
        self.frames = 0
        self.audio_frames = 0
        self.audio_energy = 0.0
        self.size = (0, 0)
        self.timestamps_backwards = 0
        self.readers = []

    def watch(self, track):
        reader = self.read_video if track.kind == "video" else self.read_audio
        self.readers.append(asyncio.ensure_future(self.until_end(track, reader)))

    async def until_end(self, track, reader):
        last = None
        try:
            while True:
                frame = await track.recv()
                if last is not None and frame.pts < last:
                    self.timestamps_backwards += 1
                last = frame.pts
                reader(frame)
        except MediaStreamError:
            pass

    def read_video(self, frame):
        if self.first_frame_ms is None:
            self.first_frame_ms = (time.monotonic() - self.started) * 1000
        self.frames += 1
        self.size = (frame.width, frame.height)

    def read_audio(self, frame):
        self.audio_frames += 1
        samples = memoryview(bytes(frame.planes[0])).cast("h")
        self.audio_energy += sum((sample / 32768) ** 2 for sample in samples[::16])


def offer_for_srtp(name):
    """Offers the SRTP profile `name` alone in DTLS, or none at all."""
    if name == "none":
        SSL.Context.set_tlsext_use_srtp = lambda *_: None
        return
    profile = rtcdtlstransport.SRTPProtectionProfile(
        libsrtp_profile=pylibsrtp.Policy.SRTP_PROFILE_AES128_CM_SHA1_32,
        openssl_profile=name.encode(),
        key_length=16,
        salt_length=14,
    )
    rtcdtlstransport.SRTP_PROFILES[:] = [profile]


async def play(options):
    if options.srtp:
        offer_for_srtp(options.srtp)
    connection = RTCPeerConnection()
    viewer = Viewer()
    connection.on("track", viewer.watch)
    for kind in ("video", "audio"):
        connection.addTransceiver(kind, direction="recvonly")
    await connection.setLocalDescription(await connection.createOffer())
    offer = connection.localDescription.sdp.encode()
    status, headers, answer = await asyncio.to_thread(
        request, "POST", options.url, options.token, offer
    )
    await connection.setRemoteDescription(RTCSessionDescription(answer, "answer"))
    await asyncio.sleep(options.seconds)
    report = {
        "status": status,
        "state": connection.connectionState,
        "first_frame_ms": viewer.first_frame_ms,
        "frames": viewer.frames,
        "width": viewer.size[0],
        "height": viewer.size[1],
        "audio_frames": viewer.audio_frames,
        "audio_energy": viewer.audio_energy,
        "timestamps_backwards": viewer.timestamps_backwards,
        **await statistics(connection),
    }
    if headers.get("Location") and not options.srtp:
        session = urllib.parse.urljoin(options.url, headers["Location"])
        report["delete_status"], _, _ = await asyncio.to_thread(
            request, "DELETE", session, options.token
        )
    await connection.close()
    if options.srtp:
        # Tracks of a connection that never stood do not end.
        for reader in viewer.readers:
            reader.cancel()
    await asyncio.gather(*viewer.readers, return_exceptions=bool(options.srtp))
    return report


async def statistics(connection):
    """Lost and received packets by kind, from aiortc's own receive statistics."""
    found = {}
    for entry in (await connection.getStats()).values():
        if entry.type == "inbound-rtp":
            found[f"{entry.kind}_packets"] = entry.packetsReceived
            found[f"{entry.kind}_packets_lost"] = entry.packetsLost
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="WHEP endpoint, http://HOST:PORT/STREAM/whep")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--token", help="read token, sent as Bearer")
    parser.add_argument("--srtp", help="SRTP profile to offer alone, or none")
    options = parser.parse_args()
    try:
        print(json.dumps(asyncio.run(play(options))))
    except (Refused, OSError) as error:
        sys.exit(f"aiortc_whep.py: {error}")


if __name__ == "__main__":
    main()
