"""A WHIP publisher by aiortc, a WebRTC implementation that shares no code with ours.

Publishes a test picture and silence to URL for some seconds and prints one JSON
object of what was sent. Run it with the Python of target/peers/aiortc.
"""

import argparse
import asyncio
import json
import sys
import urllib.parse

from aiortc import RTCPeerConnection, RTCRtpSender, RTCSessionDescription
from aiortc.mediastreams import AudioStreamTrack, VideoStreamTrack
from signalling import Refused, request


async def publish(options):
    connection = RTCPeerConnection()
    for track in (VideoStreamTrack(), AudioStreamTrack()):
        transceiver = connection.addTransceiver(track, direction="sendonly")
        if track.kind == "video":
            known = RTCRtpSender.getCapabilities("video").codecs
            wanted = [it for it in known if it.mimeType.lower() == f"video/{options.codec}"]
            transceiver.setCodecPreferences(wanted)
    await connection.setLocalDescription(await connection.createOffer())
    offer = connection.localDescription.sdp.encode()
    status, headers, answer = await asyncio.to_thread(
        request, "POST", options.url, options.token, offer
    )
    await connection.setRemoteDescription(RTCSessionDescription(answer, "answer"))
    await asyncio.sleep(options.seconds)
    report = {"status": status, "state": connection.connectionState}
    for entry in (await connection.getStats()).values():
        if entry.type == "outbound-rtp":
            report[f"{entry.kind}_packets"] = entry.packetsSent
    session = urllib.parse.urljoin(options.url, headers["Location"])
    report["delete_status"], _, _ = await asyncio.to_thread(
        request, "DELETE", session, options.token
    )
    await connection.close()
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="WHIP endpoint, http://HOST:PORT/STREAM/whip")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--codec", choices=["vp8", "h264"], default="vp8")
    parser.add_argument("--token", help="publish token, sent as Bearer")
    options = parser.parse_args()
    try:
        print(json.dumps(asyncio.run(publish(options))))
    except (Refused, OSError) as error:
        sys.exit(f"aiortc_whip.py: {error}")


if __name__ == "__main__":
    main()
