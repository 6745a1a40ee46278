#!/usr/bin/python3
"""GStreamer's RTSP server with a test pattern and tone, or with files that it loops.

All clients share one pipeline, over TCP or UDP as they ask. Prints `ready URL` once
it listens, serves until SIGTERM or SIGINT. With --check it only says, by its exit
code, whether everything it needs is there.
"""

import argparse
import signal
import sys

try:
    import gi

    gi.require_version("Gst", "1.0")
    gi.require_version("GstRtspServer", "1.0")
    gi.require_version("GstRtsp", "1.0")
    from gi.repository import GLib, Gst, GstRtsp, GstRtspServer
except (ImportError, ValueError) as error:
    sys.exit(f"rtsp-server.py: {error}")

ELEMENTS = {
    "videotestsrc": "base",
    "timeoverlay": "base",
    "opusenc": "base",
    "oggdemux": "base",
    "rtpopuspay": "good",
    "mulawenc": "good",
    "rtph264pay": "good",
    "appsrc": "base",
    "h264parse": "bad",
    "x264enc": "ugly",
    "rtph265pay": "good",
    "h265parse": "bad",
    "x265enc": "bad",
    "voaacenc": "bad",
    "rtpmp4gpay": "good",
}

AUDIO = {
    "none": "",
    "opus": "opusenc bitrate=64000 ! rtpopuspay name=pay1 pt=97",
    "aac": "audio/x-raw,rate=48000,channels=2 ! voaacenc ! rtpmp4gpay name=pay1 pt=97",
    "pcmu": "audio/x-raw,rate=8000,channels=1 ! mulawenc ! rtppcmupay name=pay1 pt=0",
}

VIDEO = {
    "h264": "x264enc tune=zerolatency speed-preset=ultrafast bitrate=2000 key-int-max={gop} "
    "! video/x-h264,profile=baseline ! h264parse",
    "h265": "x265enc tune=zerolatency speed-preset=ultrafast bitrate=2000 key-int-max={gop} "
    "! h265parse",
}

PAYLOADER = {"h264": "rtph264pay", "h265": "rtph265pay"}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", default="0", help="TCP port on loopback; 0 takes a free one")
    parser.add_argument("--size", default="640x360", help="of the test pattern")
    parser.add_argument("--fps", type=int, default=30)
    parser.add_argument("--gop", type=int, default=30, help="frames from keyframe to keyframe")
    parser.add_argument("--codec", choices=VIDEO, default="h264", help="of the test pattern")
    parser.add_argument("--user", help="NAME:PASSWORD that clients must show")
    parser.add_argument("--scheme", choices=("basic", "digest"), default="digest")
    parser.add_argument("--timeout", type=int, help="of sessions that are not kept alive, in s")
    parser.add_argument("--h264", help="an Annex-B file to loop instead of the test pattern")
    parser.add_argument("--audio", choices=AUDIO, default="none", help="a test tone")
    parser.add_argument("--ogg", help="an Ogg/Opus file to loop instead of the test tone")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--version", action="store_true", help="print GStreamer's and exit")
    return parser.parse_args()


def missing_elements():
    return [
        f"{element} (gstreamer1.0-plugins-{collection})"
        for element, collection in ELEMENTS.items()
        if Gst.ElementFactory.find(element) is None
    ]


def video(options):
    codec = "h264" if options.h264 else options.codec
    if options.h264:
        caps = "video/x-h264,stream-format=byte-stream,alignment=au"
        source = (
            "appsrc name=video is-live=true do-timestamp=false format=time "
            f'caps="{caps},framerate={options.fps}/1" ! identity sync=true ! h264parse'
        )
    else:
        width, height = options.size.split("x")
        source = (
            "videotestsrc is-live=true pattern=ball "
            f"! video/x-raw,width={width},height={height},framerate={options.fps}/1 "
            "! timeoverlay "
            f"! {VIDEO[codec].format(gop=options.gop)}"
        )
    return f"{source} ! {PAYLOADER[codec]} name=pay0 pt=96 config-interval=1"


def audio(options):
    if options.ogg:
        caps = "audio/x-opus,channel-mapping-family=0,channels=2,rate=48000"
        source = (
            "appsrc name=audio is-live=true do-timestamp=false format=time "
            f'caps="{caps}" ! identity sync=true'
        )
        return f"{source} ! rtpopuspay name=pay1 pt=97"
    source = "audiotestsrc is-live=true freq=440 volume=0.3 ! audioconvert ! audioresample"
    return f"{source} ! {AUDIO[options.audio]}" if AUDIO[options.audio] else ""


def buffers_of(path, parser, caps):
    """The (bytes, duration) of a file, as GStreamer's own parser cuts them."""
    reader = Gst.parse_launch(
        f'filesrc location="{path}" ! {parser} ! {caps} ! appsink name=out sync=false'
    )
    reader.set_state(Gst.State.PLAYING)
    out = reader.get_by_name("out")
    found = []
    while (sample := out.emit("pull-sample")) is not None:
        buffer = sample.get_buffer()
        found.append((buffer.extract_dup(0, buffer.get_size()), buffer.duration))
    reader.set_state(Gst.State.NULL)
    if not found:
        sys.exit(f"rtsp-server.py: {path}: nothing in it for {parser}")
    return found


def frames_of(path, fps):
    caps = "video/x-h264,stream-format=byte-stream,alignment=au"
    units = buffers_of(path, "h264parse", caps)
    return [(unit, Gst.SECOND // fps) for unit, _ in units]


def packets_of(path):
    packets = buffers_of(path, "oggdemux", "audio/x-opus")
    return [(packet, duration) for packet, duration in packets if 0 < duration < Gst.SECOND]


class Loop:
    """Feeds `units` without end; time goes on from one round to the next."""

    def __init__(self, units):
        self.units = units
        self.begin()

    def begin(self):
        self.count = 0
        self.elapsed = 0

    def feed(self, source, _wanted):
        data, duration = self.units[self.count % len(self.units)]
        buffer = Gst.Buffer.new_wrapped(data)
        buffer.pts = buffer.dts = self.elapsed
        buffer.duration = duration
        self.count += 1
        self.elapsed += duration
        source.emit("push-buffer", buffer)


def loops(options):
    """Name of the source in the pipeline -> what it plays."""
    found = {}
    if options.h264:
        found["video"] = Loop(frames_of(options.h264, options.fps))
    if options.ogg:
        found["audio"] = Loop(packets_of(options.ogg))
    return found


def configure(_factory, media, found):
    for name, loop in found.items():
        loop.begin()
        media.get_element().get_by_name_recurse_up(name).connect("need-data", loop.feed)


def guard(server, factory, options):
    """Lets only clients in that show the user's password."""
    name, password = options.user.split(":", 1)
    token = GstRtspServer.RTSPToken()
    token.set_string(GstRtspServer.RTSP_TOKEN_MEDIA_FACTORY_ROLE, "reader")
    auth = GstRtspServer.RTSPAuth()
    if options.scheme == "digest":
        auth.set_supported_methods(GstRtsp.RTSPAuthMethod.DIGEST)
        auth.add_digest(name, password, token)
    else:
        basic = GstRtspServer.RTSPAuth.make_basic(name, password)
        auth.add_basic(basic, token)
    server.set_auth(auth)
    rights = Gst.Structure.new_from_string(
        "reader, media.factory.access=(boolean)true, media.factory.construct=(boolean)true"
    )
    factory.add_role_from_structure(rights)


def expire(server, seconds):
    """Ends sessions that are not kept alive for `seconds`."""

    def on_client(_server, client):
        client.connect("new-session", lambda _client, session: session.set_timeout(seconds))

    def clean():
        server.get_session_pool().cleanup()
        return True

    server.connect("client-connected", on_client)
    GLib.timeout_add_seconds(1, clean)


def pipeline(options):
    return f"( {video(options)} {audio(options)} )"


def main():
    options = arguments()
    Gst.init(None)
    missing = missing_elements()
    if missing:
        sys.exit(f"rtsp-server.py: missing {', '.join(missing)}")
    if options.check:
        return
    if options.version:
        print(Gst.version_string())
        return
    factory = GstRtspServer.RTSPMediaFactory()
    factory.set_launch(pipeline(options))
    factory.set_shared(True)
    found = loops(options)
    if found:
        factory.connect("media-configure", configure, found)
    server = GstRtspServer.RTSPServer()
    server.set_address("127.0.0.1")
    server.set_service(options.port)
    server.get_mount_points().add_factory("/cam", factory)
    if options.user:
        guard(server, factory, options)
    if options.timeout:
        expire(server, options.timeout)
    if server.attach(None) == 0:
        sys.exit(f"rtsp-server.py: port {options.port} is in use")
    loop = GLib.MainLoop()
    for number in (signal.SIGTERM, signal.SIGINT):
        GLib.unix_signal_add(GLib.PRIORITY_DEFAULT, number, loop.quit)
    print(f"ready rtsp://127.0.0.1:{server.get_bound_port()}/cam", flush=True)
    loop.run()


if __name__ == "__main__":
    main()
