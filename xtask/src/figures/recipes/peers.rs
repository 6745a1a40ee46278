//! Other servers and stacks under the same load, each beside Glassline in the same minutes.

use crate::figures::recipe::{BuiltPeer, Need, Recipe, Value, Work};

/// The recipe from which others differ.
const BASE: Recipe = Recipe {
    page: "other-servers",
    minutes: (1.5, 1.5),
    needs: &[
        Need::Quiet,
        Need::TwoCores,
        Need::Peer("FFmpeg"),
        Need::Network,
    ],
    ..Recipe::BASE
};

/// Glassline's cost by WebRTC with 100 viewers, beside that of `peer`.
const fn webrtc(
    peer: &'static str,
    path: &'static str,
    delivered: &'static [&'static str; 2],
) -> Value {
    let ours = "/glassline/steps/viewers=100/server_cpu_ms_per_viewer_second";
    Value::less("WebRTC: a viewer-second", ours, "ms")
        .beside(peer, path)
        .where_delivered(delivered)
}

/// Glassline's cost by RTSP over TCP with 100 clients, beside that of `peer`.
const fn rtsp(
    peer: &'static str,
    path: &'static str,
    delivered: &'static [&'static str; 2],
) -> Value {
    let ours = "/glassline-rtsp/steps/viewers=100/server_cpu_ms_per_viewer_second";
    Value::less("RTSP: a client-second", ours, "ms")
        .beside(peer, path)
        .where_delivered(delivered)
}

pub(super) const PION: Recipe = Recipe {
    name: "peer-pion",
    about: "Pion with 100 viewers",
    work: Work::Peers {
        arguments: "--quick --servers pion,glassline --layouts pinned --ramp 0:100:100 --every 6s --hold 6s",
        reports: &["pion", "glassline"],
    },
    turns: 3,
    needs: &[
        Need::Quiet,
        Need::TwoCores,
        Need::Peer("FFmpeg"),
        Need::BuiltPeer(BuiltPeer::Pion),
    ],
    values: &[webrtc(
        "Pion",
        "/pion/steps/viewers=100/server_cpu_ms_per_viewer_second",
        &[
            "/glassline/steps/viewers=100/delivered_ratio",
            "/pion/steps/viewers=100/delivered_ratio",
        ],
    )],
    is_crypto: true,
    ..BASE
};

pub(super) const JANUS: Recipe = Recipe {
    name: "peer-janus",
    about: "Janus with 100 viewers",
    work: Work::Peers {
        arguments: "--quick --servers janus,glassline --layouts pinned --ramp 0:100:100 --every 6s --hold 6s",
        reports: &["janus", "glassline"],
    },
    needs: &[
        Need::Quiet,
        Need::TwoCores,
        Need::Peer("FFmpeg"),
        Need::Peer("Janus"),
        Need::BuiltPeer(BuiltPeer::Pion),
    ],
    values: &[webrtc(
        "Janus",
        "/janus/steps/viewers=100/server_cpu_ms_per_viewer_second",
        &[
            "/glassline/steps/viewers=100/delivered_ratio",
            "/janus/steps/viewers=100/delivered_ratio",
        ],
    )],
    ..BASE
};

pub(super) const GSTREAMER: Recipe = Recipe {
    name: "peer-gstreamer",
    about: "GStreamer's RTSP server with 100 clients, over TCP and UDP",
    work: Work::Peers {
        arguments: "--quick --servers gst-rtsp,gst-rtsp-udp,glassline-rtsp,glassline-rtsp-udp --layouts pinned --ramp 0:100:100 --every 6s --hold 6s",
        reports: &[
            "gst-rtsp",
            "gst-rtsp-udp",
            "glassline-rtsp",
            "glassline-rtsp-udp",
        ],
    },
    minutes: (2.5, 2.5),
    needs: &[
        Need::Quiet,
        Need::TwoCores,
        Need::Peer("FFmpeg"),
        Need::Peer("GStreamer's RTSP server"),
    ],
    values: &[
        rtsp(
            "GStreamer",
            "/gst-rtsp/steps/viewers=100/server_cpu_ms_per_viewer_second",
            &[
                "/glassline-rtsp/steps/viewers=100/delivered_ratio",
                "/gst-rtsp/steps/viewers=100/delivered_ratio",
            ],
        ),
        Value::less(
            "RTSP over UDP: a client-second",
            "/glassline-rtsp-udp/steps/viewers=100/server_cpu_ms_per_viewer_second",
            "ms",
        )
        .beside(
            "GStreamer",
            "/gst-rtsp-udp/steps/viewers=100/server_cpu_ms_per_viewer_second",
        ),
    ],
    ..BASE
};

pub(super) const LIVE555: Recipe = Recipe {
    name: "peer-live555",
    page: "rtsp",
    about: "live555MediaServer with 100 clients; it sends video alone, ours audio, too",
    work: Work::Peers {
        arguments: "--quick --servers live555,glassline-rtsp --layouts pinned --ramp 0:100:100 --every 6s --hold 6s",
        reports: &["live555", "glassline-rtsp"],
    },
    needs: &[
        Need::Quiet,
        Need::TwoCores,
        Need::Peer("FFmpeg"),
        Need::BuiltPeer(BuiltPeer::Live555),
    ],
    values: &[rtsp(
        "live555",
        "/live555/steps/viewers=100/server_cpu_ms_per_viewer_second",
        &[
            "/glassline-rtsp/steps/viewers=100/delivered_ratio",
            "/live555/steps/viewers=100/delivered_ratio",
        ],
    )],
    ..BASE
};

pub(super) const MEDIAMTX: Recipe = Recipe {
    name: "peer-mediamtx",
    about: "MediaMTX with 100 viewers by WebRTC and 100 clients by RTSP",
    work: Work::Peers {
        arguments: "--quick --servers mediamtx,mediamtx-rtsp,glassline-rtsp,glassline --layouts pinned --ramp 0:100:100 --every 6s --hold 6s",
        reports: &["mediamtx", "mediamtx-rtsp", "glassline-rtsp", "glassline"],
    },
    minutes: (2.5, 2.5),
    needs: &[
        Need::Quiet,
        Need::TwoCores,
        Need::Peer("FFmpeg"),
        Need::BuiltPeer(BuiltPeer::MediaMtx),
    ],
    values: &[
        webrtc(
            "MediaMTX",
            "/mediamtx/steps/viewers=100/server_cpu_ms_per_viewer_second",
            &[
                "/glassline/steps/viewers=100/delivered_ratio",
                "/mediamtx/steps/viewers=100/delivered_ratio",
            ],
        ),
        rtsp(
            "MediaMTX",
            "/mediamtx-rtsp/steps/viewers=100/server_cpu_ms_per_viewer_second",
            &[
                "/glassline-rtsp/steps/viewers=100/delivered_ratio",
                "/mediamtx-rtsp/steps/viewers=100/delivered_ratio",
            ],
        ),
    ],
    ..BASE
};

pub(super) const DATA_PEERS: Recipe = Recipe {
    name: "peer-data",
    page: "data-channels",
    about: "bulk over one data channel by Pion, libdatachannel and Chromium",
    work: Work::Peers {
        arguments: "--data --quick --hold 10s",
        reports: &["data"],
    },
    minutes: (2.5, 2.5),
    needs: &[
        Need::Quiet,
        Need::TwoCores,
        Need::Peer("Chromium"),
        Need::Network,
    ],
    values: &[
        Value::more("goodput", "/data/way=Glassline/goodput_mbps", "Mbit/s")
            .beside_peer("Pion", "/data/way=Pion/goodput_mbps"),
        Value::less(
            "sending",
            "/data/way=Glassline/cpu_s_per_gbit/sender",
            "s/Gbit",
        )
        .beside_peer(
            "libdatachannel",
            "/data/way=libdatachannel/cpu_s_per_gbit/sender",
        ),
        Value::less(
            "receiving",
            "/data/way=Glassline/cpu_s_per_gbit/receiver",
            "s/Gbit",
        )
        .beside_peer(
            "libdatachannel",
            "/data/way=libdatachannel/cpu_s_per_gbit/receiver",
        ),
    ],
    ..BASE
};

pub(super) const WHIP: Recipe = Recipe {
    name: "peer-whip",
    page: "publishing",
    about: "ten publishers by WHIP, beside MediaMTX",
    work: Work::Peers {
        arguments: "--whip --layouts shared --hold 15s",
        reports: &["whip"],
    },
    minutes: (3.0, 3.0),
    needs: &[
        Need::Quiet,
        Need::TwoCores,
        Need::Peer("FFmpeg"),
        Need::BuiltPeer(BuiltPeer::MediaMtx),
    ],
    values: &[Value::less(
        "a publisher-second",
        "/whip/servers/server=glassline/server_cpu_ms_per_publisher_second/1",
        "ms",
    )
    .beside(
        "MediaMTX",
        "/whip/servers/server=mediamtx/server_cpu_ms_per_publisher_second/1",
    )],
    ..BASE
};

/// A viewer-second of HLS under one load, beside that of nginx with files.
const fn hls(name: &'static str, ours: &'static str, files: &'static str) -> Value {
    Value::less(name, ours, "ms").beside("nginx", files)
}

pub(super) const HLS: Recipe = Recipe {
    name: "peer-hls",
    page: "hls",
    about: "viewers of HLS, beside MediaMTX and nginx with files",
    work: Work::Peers {
        arguments: "--hls --quick --layouts pinned --hold 10s",
        reports: &["hls"],
    },
    minutes: (5.0, 5.0),
    needs: &[
        Need::Quiet,
        Need::TwoCores,
        Need::Peer("FFmpeg"),
        Need::Peer("nginx"),
        Need::BuiltPeer(BuiltPeer::MediaMtx),
    ],
    values: &[
        hls(
            "HLS: a viewer-second",
            "/hls/servers/name=glassline HTTP 200 ms/server_cpu_ms_per_viewer_second",
            "/hls/servers/name=nginx HTTP 200 ms/server_cpu_ms_per_viewer_second",
        ),
        hls(
            "HLS over TLS: a viewer-second",
            "/hls/servers/name=glassline HTTPS 200 ms/server_cpu_ms_per_viewer_second",
            "/hls/servers/name=nginx HTTPS 200 ms/server_cpu_ms_per_viewer_second",
        ),
    ],
    is_crypto: true,
    ..BASE
};
