#!/usr/bin/python3
"""An RTSP camera to pull from: GStreamer's RTSP server with a test picture and tone.

Prints `ready URL` once it listens, serves until SIGTERM or SIGINT.
With --check it only says, by its exit code, whether everything it needs is there.
"""

import argparse
import signal
import sys

try:
    import gi

    gi.require_version("Gst", "1.0")
    gi.require_version("GstRtspServer", "1.0")
    from gi.repository import GLib, Gst, GstRtspServer
except (ImportError, ValueError) as error:
    sys.exit(f"rtsp-server.py: {error}")

ELEMENTS = {
    "videotestsrc": "base",
    "timeoverlay": "base",
    "opusenc": "base",
    "mulawenc": "good",
    "rtph264pay": "good",
    "appsrc": "base",
    "h264parse": "bad",
    "x264enc": "ugly",
}

AUDIO = {
    "none": "",
    "opus": "opusenc bitrate=64000 ! rtpopuspay name=pay1 pt=97",
    "pcmu": "audio/x-raw,rate=8000,channels=1 ! mulawenc ! rtppcmupay name=pay1 pt=0",
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", default="0", help="TCP port on loopback; 0 takes a free one")
    parser.add_argument("--size", default="640x360", help="of the test picture")
    parser.add_argument("--fps", type=int, default=30)
    parser.add_argument("--gop", type=int, default=30, help="frames from keyframe to keyframe")
    parser.add_argument("--h264", help="an Annex-B file to loop instead of the test picture")
    parser.add_argument("--audio", choices=AUDIO, default="none")
    parser.add_argument("--check", action="store_true")
    return parser.parse_args()


def missing_elements():
    return [
        f"{element} (gstreamer1.0-plugins-{collection})"
        for element, collection in ELEMENTS.items()
        if Gst.ElementFactory.find(element) is None
    ]


def video(options):
    if options.h264:
        caps = "video/x-h264,stream-format=byte-stream,alignment=au"
        source = (
            "appsrc name=file is-live=true do-timestamp=false format=time "
            f'caps="{caps},framerate={options.fps}/1" ! identity sync=true ! h264parse'
        )
    else:
        width, height = options.size.split("x")
        source = (
            "videotestsrc is-live=true pattern=ball "
            f"! video/x-raw,width={width},height={height},framerate={options.fps}/1 "
            "! timeoverlay "
            f"! x264enc tune=zerolatency speed-preset=ultrafast bitrate=2000 key-int-max={options.gop} "
            "! video/x-h264,profile=baseline ! h264parse"
        )
    return f"{source} ! rtph264pay name=pay0 pt=96 config-interval=1"


def access_units(path):
    """The access units of an Annex-B file, as GStreamer's own parser cuts them."""
    reader = Gst.parse_launch(
        f'filesrc location="{path}" ! h264parse '
        "! video/x-h264,stream-format=byte-stream,alignment=au ! appsink name=out sync=false"
    )
    reader.set_state(Gst.State.PLAYING)
    out = reader.get_by_name("out")
    units = []
    while (sample := out.emit("pull-sample")) is not None:
        buffer = sample.get_buffer()
        units.append(buffer.extract_dup(0, buffer.get_size()))
    reader.set_state(Gst.State.NULL)
    if not units:
        sys.exit(f"rtsp-server.py: {path}: no H.264 pictures in it")
    return units


class Loop:
    """Feeds `units` without end; time goes on from one round to the next."""

    def __init__(self, units, fps):
        self.units = units
        self.frame_time = Gst.SECOND // fps
        self.count = 0

    def configure(self, _factory, media):
        self.count = 0
        media.get_element().get_by_name_recurse_up("file").connect("need-data", self.feed)

    def feed(self, source, _wanted):
        buffer = Gst.Buffer.new_wrapped(self.units[self.count % len(self.units)])
        buffer.pts = buffer.dts = self.count * self.frame_time
        buffer.duration = self.frame_time
        self.count += 1
        source.emit("push-buffer", buffer)


def pipeline(options):
    parts = [video(options)]
    if options.audio != "none":
        source = "audiotestsrc is-live=true freq=440 volume=0.3 ! audioconvert ! audioresample"
        parts.append(f"{source} ! {AUDIO[options.audio]}")
    return f"( {' '.join(parts)} )"


def main():
    options = arguments()
    Gst.init(None)
    missing = missing_elements()
    if missing:
        sys.exit(f"rtsp-server.py: missing {', '.join(missing)}")
    if options.check:
        return
    factory = GstRtspServer.RTSPMediaFactory()
    factory.set_launch(pipeline(options))
    factory.set_shared(True)
    if options.h264:
        endless = Loop(access_units(options.h264), options.fps)
        factory.connect("media-configure", endless.configure)
    server = GstRtspServer.RTSPServer()
    server.set_address("127.0.0.1")
    server.set_service(options.port)
    server.get_mount_points().add_factory("/cam", factory)
    if server.attach(None) == 0:
        sys.exit(f"rtsp-server.py: port {options.port} is in use")
    loop = GLib.MainLoop()
    for number in (signal.SIGTERM, signal.SIGINT):
        GLib.unix_signal_add(GLib.PRIORITY_DEFAULT, number, loop.quit)
    print(f"ready rtsp://127.0.0.1:{server.get_bound_port()}/cam", flush=True)
    loop.run()


if __name__ == "__main__":
    main()
