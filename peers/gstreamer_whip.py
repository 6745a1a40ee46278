#!/usr/bin/python3
"""A WHIP publisher by GStreamer's webrtcbin: H.264 and Opus to URL for some seconds.

Behaves as GStreamer's whipclientsink does: it gathers all candidates before its POST, and offers
RTX, ULPFEC and transport-wide feedback. Debian 12 has no package of that element itself. Prints
one JSON object when it has left. With --check it only says, by its exit code, whether everything
it needs is there.
"""

import argparse
import hashlib
import json
import re
import ssl
import sys
import threading
import time
import urllib.parse

from signalling import Refused, request

try:
    import gi

    gi.require_version("Gst", "1.0")
    gi.require_version("GstWebRTC", "1.0")
    gi.require_version("GstSdp", "1.0")
    from gi.repository import Gst, GstSdp, GstWebRTC
except (ImportError, ValueError) as error:
    sys.exit(f"gstreamer_whip.py: {error}")

ELEMENTS = {
    "webrtcbin": "bad",
    "nicesrc": "nice",
    "dtlsdec": "bad",
    "srtpenc": "bad",
    "x264enc": "ugly",
    "opusenc": "base",
}

TWCC = "http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01"

PIPELINE = f"""
    webrtcbin name=session bundle-policy=max-bundle
    videotestsrc is-live=true pattern=ball ! video/x-raw,width=640,height=360,framerate=30/1
      ! x264enc tune=zerolatency speed-preset=ultrafast bitrate=800 key-int-max=30
      ! video/x-h264,profile=constrained-baseline
      ! rtph264pay config-interval=-1 aggregate-mode=zero-latency
      ! application/x-rtp,media=video,encoding-name=H264,payload=96,clock-rate=90000,extmap-1=(string){TWCC}
      ! session.
    audiotestsrc is-live=true wave=ticks ! audioconvert ! audioresample ! audio/x-raw,rate=48000,channels=2
      ! opusenc ! rtpopuspay
      ! application/x-rtp,media=audio,encoding-name=OPUS,payload=97,clock-rate=48000,extmap-1=(string){TWCC}
      ! session.
"""

PATIENCE_S = 60


class Publisher:
    def __init__(self, options):
        self.options = options
        self.pipeline = Gst.parse_launch(PIPELINE)
        self.session = self.pipeline.get_by_name("session")
        self.gathered = threading.Event()
        self.connected = threading.Event()
        self.session.connect("on-negotiation-needed", self.make_offer)
        self.session.connect("notify::ice-gathering-state", self.on_gathering)
        self.session.connect("notify::connection-state", self.on_connection)
        if options.certificate:
            pem = open(options.certificate, encoding="ascii").read()
            self.session.connect("deep-element-added", self.on_element, pem)
        # libnice leaves the loopback interface out.
        self.ice = self.session.get_property("ice-agent")
        self.ice.emit("add-local-ip-address", "127.0.0.1")
        for number in range(2):
            transceiver = self.session.emit("get-transceiver", number)
            transceiver.set_property(
                "direction", GstWebRTC.WebRTCRTPTransceiverDirection.SENDONLY
            )
            transceiver.set_property("do-nack", True)
            if number == 0:
                transceiver.set_property("fec-type", GstWebRTC.WebRTCFECType.ULP_RED)

    @staticmethod
    def on_element(_session, _bin, element, pem):
        """Both halves of a transport get the certificate with a new connection of theirs."""
        factory = element.get_factory()
        name = factory.get_name() if factory else ""
        if name in ("dtlssrtpdec", "dtlssrtpenc"):
            if name == "dtlssrtpdec":
                element.set_property("pem", pem)
            connection = element.get_property("connection-id")
            element.set_property("connection-id", f"{connection}-again")

    def make_offer(self, session):
        def with_offer(promise, _):
            # The offer belongs to the reply, which must outlive it.
            reply = promise.get_reply()
            session.emit("set-local-description", reply.get_value("offer"), None)

        promise = Gst.Promise.new_with_change_func(with_offer, None)
        session.emit("create-offer", None, promise)

    def on_gathering(self, session, _):
        state = session.get_property("ice-gathering-state")
        if state == GstWebRTC.WebRTCICEGatheringState.COMPLETE:
            self.gathered.set()

    def on_connection(self, session, _):
        state = session.get_property("connection-state")
        if state == GstWebRTC.WebRTCPeerConnectionState.CONNECTED:
            self.connected.set()

    def publish(self):
        options = self.options
        self.pipeline.set_state(Gst.State.PLAYING)
        if not self.gathered.wait(PATIENCE_S):
            raise OSError("webrtcbin gathers no candidates")
        local = self.session.get_property("local-description")
        offer = local.sdp.as_text()
        if options.certificate:
            offer = re.sub(r"sha-256 [0-9A-F:]+", f"sha-256 {fingerprint(options.certificate)}", offer)
        status, headers, answer = request("POST", options.url, options.token, offer.encode())
        _, message = GstSdp.SDPMessage.new_from_text(answer)
        description = GstWebRTC.WebRTCSessionDescription.new(
            GstWebRTC.WebRTCSDPType.ANSWER, message
        )
        self.session.emit("set-remote-description", description, None)
        if not self.connected.wait(PATIENCE_S):
            raise OSError("webrtcbin does not connect")
        end = time.monotonic() + options.seconds
        bus = self.pipeline.get_bus()
        while time.monotonic() < end:
            failure = bus.timed_pop_filtered(100 * Gst.MSECOND, Gst.MessageType.ERROR)
            if failure:
                raise OSError(failure.parse_error()[0].message)
        location = urllib.parse.urljoin(options.url, headers["Location"])
        delete_status, _, _ = request("DELETE", location, options.token)
        self.pipeline.set_state(Gst.State.NULL)
        return {
            "status": status,
            "delete_status": delete_status,
            "offer": offer,
            "gstreamer": Gst.version_string(),
        }


def fingerprint(path):
    with open(path, encoding="ascii") as file:
        certificate, mark, _ = file.read().partition("-----END CERTIFICATE-----")
    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate + mark)).digest()
    return digest.hex(":").upper()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", nargs="?", help="WHIP endpoint, http://HOST:PORT/STREAM/whip")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument(
        "--certificate",
        help="PEM file of a certificate and its key; GStreamer before 1.28 makes RSA ones itself",
    )
    parser.add_argument("--token", help="publish token, sent as Bearer")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    Gst.init(None)
    missing = [name for name in ELEMENTS if not Gst.ElementFactory.find(name)]
    if missing:
        plugins = " ".join(sorted({f"gstreamer1.0-{ELEMENTS[it]}" for it in missing}))
        sys.exit(f"gstreamer_whip.py: no {', '.join(missing)} (Debian: {plugins})")
    if options.check:
        return
    try:
        print(json.dumps(Publisher(options).publish()))
    except (Refused, OSError) as error:
        sys.exit(f"gstreamer_whip.py: {error}")


if __name__ == "__main__":
    main()
