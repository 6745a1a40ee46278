//! What one core makes of ciphers, packets and system calls.

use crate::figures::recipe::{Need, Recipe, Value, Work};

const QUIET: &[Need] = &[Need::Quiet];

/// The recipe from which others differ.
const BASE: Recipe = Recipe {
    page: "data-channels",
    minutes: (0.2, 0.1),
    turns: 3,
    needs: QUIET,
    ..Recipe::BASE
};

pub(super) const SEAL: Recipe = Recipe {
    name: "seal",
    page: "fan-out",
    about: "sealing and sending a packet, beside cipher, copy and call alone",
    work: Work::Lab("seal"),
    quick: Some(Work::Lab("seal")),
    minutes: (0.3, 0.3),
    values: &[
        sealed(
            "seal",
            [
                "/results/cases/case=seal/ns_per_packet",
                "/results/cases/case=seal/floor_ns_per_packet",
            ],
        ),
        sealed(
            "seal, segmented send",
            [
                "/results/cases/case=seal, segmented send/ns_per_packet",
                "/results/cases/case=seal, segmented send/floor_ns_per_packet",
            ],
        ),
        sealed(
            "seal, sendmmsg",
            [
                "/results/cases/case=seal, sendmmsg/ns_per_packet",
                "/results/cases/case=seal, sendmmsg/floor_ns_per_packet",
            ],
        ),
    ],
    is_crypto: true,
    ..BASE
};

const fn sealed(name: &'static str, [ours, floor]: [&'static str; 2]) -> Value {
    Value::less(name, ours, "ns/packet").beside("floor", floor)
}

pub(super) const RECORDS: Recipe = Recipe {
    name: "records",
    about: "a record of a data channel, beside the cipher alone and beside dimpl",
    work: RECORDS_WORK,
    quick: Some(RECORDS_WORK),
    minutes: (0.2, 0.2),
    is_crypto: true,
    on_page: &["aes-128-gcm", "chacha20"],
    ..BASE
};

const RECORDS_WORK: Work = Work::Bench {
    package: "glassline-webrtc",
    target: "records",
    arguments: "",
};

pub(super) const BULK: Recipe = Recipe {
    name: "bulk",
    about: "bulk over a data channel in memory, both ends on one core",
    work: bulk("512"),
    quick: Some(bulk("64")),
    minutes: (0.3, 0.1),
    is_crypto: true,
    ..BASE
};

const fn bulk(arguments: &'static str) -> Work {
    Work::Bench {
        package: "glassline-webrtc",
        target: "bulk",
        arguments,
    }
}

const GOODPUT: &[Value] = &[
    Value::more("goodput", "/goodput_mbps", "Mbit/s"),
    Value::less("sending", "/cpu_s_per_gbit/sender", "s/Gbit"),
    Value::less("receiving", "/cpu_s_per_gbit/receiver", "s/Gbit"),
];

pub(super) const DATA: Recipe = Recipe {
    name: "data",
    about: "one data channel over loopback, a core an end",
    work: Work::Program("bench data --time 5s --message-size 256K --quiet"),
    quick: Some(Work::Program(
        "bench data --time 2s --message-size 256K --quiet",
    )),
    turns: 5,
    values: GOODPUT,
    is_crypto: true,
    ..BASE
};

pub(super) const DATA_CHACHA: Recipe = Recipe {
    name: "data-chacha",
    about: "the same with ChaCha20-Poly1305, which needs no AES",
    work: Work::Program(
        "bench data --time 5s --message-size 256K --cipher chacha20-poly1305 --quiet",
    ),
    values: GOODPUT,
    ..BASE
};

pub(super) const DATA_NO_OFFLOAD: Recipe = Recipe {
    name: "data-no-offload",
    about: "the same without segmentation in the kernel",
    work: Work::Program("bench data --time 5s --message-size 256K --no-offload --quiet"),
    values: GOODPUT,
    is_crypto: true,
    ..BASE
};

pub(super) const DATA_LOSS: Recipe = Recipe {
    name: "data-loss",
    about: "one data channel through 1 Gbit/s, 20 ms and 0.1 % of loss",
    work: Work::Program("bench data --time 12s --impair 'rtt=20ms rate=1gbit loss=0.1%' --quiet"),
    minutes: (0.3, 0.3),
    values: &[Value::more("goodput", "/goodput_mbps", "Mbit/s")],
    ..BASE
};

pub(super) const SCTP_COST: Recipe = Recipe {
    name: "sctp",
    about: "SCTP in memory without ciphers, ours, dcsctp and sctp-proto",
    work: Work::Bench {
        package: "glassline-sctp",
        target: "memory",
        arguments: "cost messages",
    },
    minutes: (3.0, 3.0),
    turns: 1,
    on_page: &[", 4 MiB, 0 ms, zero", ", 4 MiB, 20 ms, crc32c"],
    ..BASE
};

pub(super) const SCTP_MESSAGES: Recipe = Recipe {
    name: "sctp-messages",
    about: "small messages by SCTP in memory, ours, dcsctp and sctp-proto",
    work: Work::Bench {
        package: "glassline-sctp",
        target: "memory",
        arguments: "messages",
    },
    minutes: (2.0, 2.0),
    turns: 1,
    ..BASE
};

pub(super) const IDLE: Recipe = Recipe {
    name: "idle",
    about: "memory of an idle peer with a channel",
    work: Work::Bench {
        package: "glassline-webrtc",
        target: "idle",
        arguments: "",
    },
    turns: 1,
    ..BASE
};

/// Ways of writing a frame to many connections, each beside two sends a packet, as live555 does it.
const SENDS: &[Value] = &[
    sent(
        "one send a frame",
        "/methods/method=send-frame/cpu_ns_per_packet",
    ),
    sent(
        "writev a frame",
        "/methods/method=writev-frame/cpu_ns_per_packet",
    ),
    sent(
        "splice a frame",
        "/methods/method=splice-frame/cpu_ns_per_packet",
    ),
    sent(
        "io_uring a frame",
        "/methods/method=uring-frame/cpu_ns_per_packet",
    ),
];

const fn sent(name: &'static str, path: &'static str) -> Value {
    let two_sends = "/methods/method=two-sends-nagle/cpu_ns_per_packet";
    Value::less(name, path, "ns/packet").beside("two sends a packet", two_sends)
}

pub(super) const SEND: Recipe = Recipe {
    name: "send",
    page: "tcp-sending",
    about: "ways to write a frame to 100 TCP connections",
    work: Work::Program("bench send --quiet"),
    quick: Some(Work::Program(
        "bench send --duration 300ms --rounds 1 --quiet",
    )),
    minutes: (1.6, 0.2),
    turns: 1,
    values: SENDS,
    ..BASE
};

pub(super) const SEND_1000: Recipe = Recipe {
    name: "send-1000",
    page: "tcp-sending",
    about: "the same with 1,000 connections",
    work: Work::Program("bench send --clients 1000 --quiet"),
    minutes: (2.0, 2.0),
    turns: 1,
    values: SENDS,
    ..BASE
};
