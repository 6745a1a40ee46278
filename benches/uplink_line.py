#!/usr/bin/env python3
"""Publishes the test pattern over a narrow line, by QUIC, WHIP or RTSP, and prints rate and delay.

    sudo python3 benches/uplink_line.py target/demo/glassline whip
    sudo python3 benches/uplink_line.py target/demo/glassline rtsp-tcp --kbps 0:2000,25:500,45:2000
    sudo python3 benches/uplink_line.py target/demo/glassline whip --mediamtx mediamtx

Two network namespaces are joined by a line in this program: a rate and a queue towards the server,
which drops what does not fit, and the same delay in both directions. The publisher is at one end and
`glassline serve`, or MediaMTX, at the other, so TCP and UDP are the kernel's. The delay on the line is measured by
datagrams of our own, ten a second. Linux only; needs the right to make namespaces, and /dev/net/tun.
"""

import argparse
import csv
import ctypes
import fcntl
import heapq
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

NEAR, FAR = "198.51.100.1", "198.51.100.2"
ECHO_PORT = 7777
TOKEN = "uplink-line-token"
WAYS = {
    "quic": ("moq://{far}:4443/cam?token={token}{pin}", []),
    "whip": ("http://{far}:8889/cam/whip?token={token}", []),
    "rtsp-tcp": ("rtsp://{far}:8554/cam?token={token}", []),
    "rtsp-udp": ("rtsp://{far}:8554/cam?token={token}", ["--transport", "udp"]),
}
CONFIG = """http: {{address: "{far}:8889"}}
media: {{address: "{far}:8189"}}
rtsp: {{address: "{far}:8554"}}
quic: {{address: "{far}:4443"}}
auth: {{publish_token: "{token}"}}
"""
MEDIAMTX_CONFIG = """webrtcAddress: "{far}:8889"
webrtcLocalUDPAddress: "{far}:8189"
rtspAddress: "{far}:8554"
hls: no
rtmp: no
srt: no
paths: {{all_others: {{}}}}
"""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="the binary of glassline")
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("--kbps", default="0:2000", help="second:rate,… of the line")
    parser.add_argument("--delay-ms", type=float, default=20, help="in each direction")
    parser.add_argument("--queue-ms", type=float, default=300, help="longest queue of the line")
    parser.add_argument("--seconds", type=int, default=55)
    parser.add_argument("--warm-up", type=int, default=20, help="seconds that are not counted")
    parser.add_argument("--input", default="test?size=640x360")
    parser.add_argument("--bitrate", default="300k..5M")
    parser.add_argument("--mediamtx", metavar="PROGRAM", help="publish to MediaMTX instead")
    parser.add_argument("--rows", action="store_true", help="print a line for each second, too")
    return parser.parse_args()


def enter(namespace):
    """Moves this thread into the namespace of a process."""
    libc = ctypes.CDLL(None, use_errno=True)
    handle = os.open(f"/proc/{namespace}/ns/net", os.O_RDONLY)
    if libc.setns(handle, 0x40000000) != 0:
        raise OSError(ctypes.get_errno(), "setns")
    os.close(handle)


def tunnel(name, address):
    """Opens an end of the line in the namespace of this thread."""
    handle = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    # TUNSETIFF with IFF_TUN and IFF_NO_PI.
    fcntl.ioctl(handle, 0x400454CA, struct.pack("16sH22s", name.encode(), 0x1001, b""))
    for words in ("link set lo up", f"address add {address}/24 dev {name}", f"link set {name} up"):
        subprocess.check_call(["ip", *words.split()])
    return handle


class Line(threading.Thread):
    """Carries packets between the two ends."""

    def __init__(self, near, far, options):
        super().__init__(daemon=True)
        pairs = (pair.split(":") for pair in options.kbps.split(","))
        self.rates = [(float(at), float(rate) * 1000) for at, rate in pairs]
        self.delay, self.queue = options.delay_ms / 1000, options.queue_ms / 1000
        self.near, self.far, self.began = near, far, None

    def rate(self, now):
        return [rate for at, rate in self.rates if at <= now - self.began][-1]

    def run(self):
        waiting, count, free = [], 0, 0.0
        while True:
            now = time.monotonic()
            patience = min(0.5, max(0.0, waiting[0][0] - now)) if waiting else 0.5
            ready, _, _ = select.select([self.near, self.far], [], [], patience)
            now = time.monotonic()
            for end in ready:
                while (packet := self.read(end)) is not None:
                    count += 1
                    due, other = now, self.near
                    if end == self.near:
                        self.began = self.began or now
                        free = max(free, now)
                        if free - now > self.queue:
                            continue
                        free += len(packet) * 8 / self.rate(now)
                        due, other = free, self.far
                    heapq.heappush(waiting, (due + self.delay, count, other, packet))
            now = time.monotonic()
            while waiting and waiting[0][0] <= now:
                _, _, end, packet = heapq.heappop(waiting)
                try:
                    os.write(end, packet)
                except OSError:
                    pass

    @staticmethod
    def read(end):
        try:
            return os.read(end, 2048)
        except BlockingIOError:
            return None


def at_far_end(namespace, results):
    """Opens the far end of the line, and answers datagrams there."""
    enter(namespace)
    results.append(tunnel("line1", FAR))
    answering = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    answering.bind((FAR, ECHO_PORT))
    while True:
        datagram, address = answering.recvfrom(2000)
        answering.sendto(datagram, address)


def delays(seconds):
    """Asks ten times a second for an answer; returns the delays beyond that of an empty line, in ms."""
    asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    asking.settimeout(0.02)
    end = due = time.time()
    end += seconds
    found = []
    while time.time() < end:
        if time.time() >= due:
            asking.sendto(repr(time.time()).encode(), (FAR, ECHO_PORT))
            due += 0.1
        try:
            found.append((time.time() - float(asking.recv(2000))) * 1000)
        except OSError:
            pass
    return found


def percentile(values, percent):
    values = sorted(values)
    return values[min(len(values) - 1, len(values) * percent // 100)] if values else float("nan")


def start_server(options, far, folder):
    """Starts the server at the far end; returns its process, and a line of what it printed once it is
    ready."""
    path = os.path.join(folder, "server.yml")
    text, command, ready = CONFIG, [options.program, "serve", path], "#sha256="
    if options.mediamtx:
        text, command, ready = MEDIAMTX_CONFIG, [options.mediamtx, path], "[WebRTC] started"
    with open(path, "w", encoding="utf-8") as config:
        config.write(text.format(far=FAR, token=TOKEN))
    server = subprocess.Popen(
        ["nsenter", f"--net=/proc/{far}/ns/net", "--", *command],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for line in server.stdout:
        if ready in line:
            threading.Thread(target=server.stdout.read, daemon=True).start()
            return server, line
    sys.exit(f"{command[0]} ended before it served")


def measure(options, far):
    """Runs server and publisher; returns the publisher's rows, its figures, and the delays."""
    with tempfile.TemporaryDirectory() as folder:
        server, line = start_server(options, far, folder)
        try:
            url, flags = WAYS[options.way]
            pin = ""
            if options.mediamtx:
                url = url.replace("?token={token}", "")
            else:
                pin = "#sha256=" + line.split("#sha256=")[1].split()[0]
            url = url.format(far=FAR, token=TOKEN, pin=pin)
            table, document = os.path.join(folder, "csv"), os.path.join(folder, "json")
            publisher = subprocess.Popen(
                [options.program, "publish", options.input, url, *flags, "--log", "warn",
                 "--bitrate", options.bitrate, "--csv", table, "--json", document])
            time.sleep(options.warm_up)
            found = delays(options.seconds - options.warm_up)
            publisher.send_signal(signal.SIGINT)
            publisher.wait(timeout=20)
            with open(table, encoding="utf-8") as rows, open(document, encoding="utf-8") as text:
                return list(csv.DictReader(rows)), json.load(text), found
        finally:
            server.terminate()
            server.wait(timeout=20)


def main():
    options = arguments()
    if os.environ.get("UPLINK_LINE") is None:
        environment = {**os.environ, "UPLINK_LINE": "1"}
        words = ["unshare", "--net", sys.executable, *sys.argv]
        sys.exit(subprocess.call(words, env=environment))
    far = subprocess.Popen(["unshare", "--net", "sleep", "3600"])
    time.sleep(0.5)
    try:
        near, results = tunnel("line0", NEAR), []
        threading.Thread(target=at_far_end, args=(far.pid, results), daemon=True).start()
        while not results:
            time.sleep(0.05)
        Line(near, results[0], options).start()
        rows, document, found = measure(options, far.pid)
    finally:
        far.kill()
    if options.rows:
        for row in rows:
            print(row["time_s"], row["goodput_mbps"], row["target_mbps"], row["queue_delay_ms"])
    counted = [row for row in rows if float(row["time_s"]) > options.warm_up]
    goodput = [float(row["goodput_mbps"]) for row in counted]
    queued = [float(row["queue_delay_ms"]) for row in counted]
    lost = int(counted[-1]["lost_bytes"]) - int(counted[0]["lost_bytes"])
    queue = [delay - 2 * options.delay_ms for delay in found]
    dropped = document["dropped"]
    units = dropped["late_units"] + dropped["full_units"] + dropped["broken_units"]
    print(f"{options.way}: goodput {sum(goodput) / len(goodput):.2f} Mbit/s, queue of the line "
          f"{percentile(queue, 50):.0f} ms (p95 {percentile(queue, 95):.0f} ms), own queue p95 "
          f"{percentile(queued, 95):.0f} ms, units dropped {units}, lost {lost / 1000:.0f} kB, raw "
          f"frames dropped {dropped['raw_pictures']}, feedback {document['feedback']}")


main()
