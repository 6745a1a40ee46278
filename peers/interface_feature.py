"""Turns a feature of a network interface on or off, as `ethtool -K` does.

    interface_feature.py INTERFACE FEATURE on|off
"""

import ctypes
import fcntl
import socket
import struct
import sys

SIOCETHTOOL = 0x8946
GET_STRINGS, GET_SET_INFO, SET_FEATURES = 0x1B, 0x37, 0x3B
FEATURE_NAMES = 4
NAME_BYTES = 32


def request(interface, data):
    """Calls ioctl with a structure of linux/ethtool.h; returns it as the kernel left it."""
    buffer = ctypes.create_string_buffer(data, len(data))
    ifreq = struct.pack("16sP16x", interface.encode(), ctypes.addressof(buffer))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        fcntl.ioctl(end, SIOCETHTOOL, ifreq)
    return buffer.raw


def main(interface, feature, state):
    info = request(interface, struct.pack("IIQI", GET_SET_INFO, 0, 1 << FEATURE_NAMES, 0))
    count = struct.unpack("IIQI", info)[3]
    head = struct.pack("III", GET_STRINGS, FEATURE_NAMES, count)
    names = request(interface, head + bytes(NAME_BYTES * count))[len(head):]
    names = [names[i:i + NAME_BYTES].rstrip(b"\0").decode() for i in range(0, len(names), NAME_BYTES)]
    place = names.index(feature)
    blocks = [[0, 0] for _ in range((count + 31) // 32)]
    mask = 1 << place % 32
    blocks[place // 32] = [mask, mask if state == "on" else 0]
    words = [word for block in blocks for word in block]
    request(interface, struct.pack(f"II{len(words)}I", SET_FEATURES, len(blocks), *words))


if __name__ == "__main__":
    main(*sys.argv[1:])
