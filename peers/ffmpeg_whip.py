"""FFmpeg's WHIP muxer, through PyAV: publishes a test picture and a tone to URL.

Run it with the Python of target/peers/aiortc, whose FFmpeg has the muxer. Prints one
JSON object with what was sent. Exit code 0 means that FFmpeg opened the session,
sent everything and closed it.
"""

import argparse
import fractions
import json
import sys
import time

import av

FPS = 30
RATE = 48000
SAMPLES = 960


def publish(options):
    flags = {"active": "dtls_active", "passive": "0"}[options.dtls]
    muxer = {"whip_flags": flags, "handshake_timeout": "15000"}
    if options.token:
        muxer["authorization"] = options.token
    container = av.open(options.url, "w", format="whip", options=muxer)
    video = container.add_stream("libx264", rate=FPS)
    video.width, video.height, video.pix_fmt = 640, 360, "yuv420p"
    video.bit_rate = 800_000
    video.options = {
        "preset": "ultrafast",
        "tune": "zerolatency",
        "profile": "baseline",
        "bf": "0",
        "g": str(FPS),
    }
    audio = None
    if options.audio:
        audio = container.add_stream("libopus", rate=RATE, layout="stereo")
        audio.bit_rate = 64_000
    sent = {"video": 0, "audio": 0}
    start = time.monotonic()
    for number in range(options.seconds * FPS):
        frame = av.VideoFrame(640, 360, "yuv420p")
        for index, plane in enumerate(frame.planes):
            level = (number * 3) % 220 if index == 0 else 128
            plane.update(bytes([level]) * plane.buffer_size)
        frame.pts, frame.time_base = number, fractions.Fraction(1, FPS)
        for packet in video.encode(frame):
            container.mux(packet)
            sent["video"] += 1
        while audio and sent["audio"] * SAMPLES * FPS < (number + 1) * RATE:
            tone = av.AudioFrame("s16", "stereo", SAMPLES)
            tone.sample_rate = RATE
            tone.pts, tone.time_base = sent["audio"] * SAMPLES, fractions.Fraction(1, RATE)
            tone.planes[0].update(bytes(tone.planes[0].buffer_size))
            for packet in audio.encode(tone):
                container.mux(packet)
            sent["audio"] += 1
        ahead = start + (number + 1) / FPS - time.monotonic()
        if ahead > 0:
            time.sleep(ahead)
    container.close()
    return {**sent, "ffmpeg": av.library_versions["libavformat"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="WHIP endpoint, http://HOST:PORT/STREAM/whip")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--dtls", choices=["active", "passive"], default="passive")
    parser.add_argument("--audio", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--token", help="publish token, sent as Bearer")
    options = parser.parse_args()
    try:
        print(json.dumps(publish(options)), flush=True)
    except (av.error.FFmpegError, OSError) as error:
        sys.exit(f"ffmpeg_whip.py: {error}")


if __name__ == "__main__":
    main()
