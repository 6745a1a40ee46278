//! What viewers, publishers and clients cost a server, and what viewers see.

use crate::figures::recipe::{BuiltPeer, Need, Recipe, Tolerance, Value, Work};

/// The recipe from which others differ.
const BASE: Recipe = Recipe {
    page: "joining",
    ..Recipe::BASE
};

pub(super) const JOIN: Recipe = Recipe {
    name: "join",
    about: "what joining costs the server, and how long it takes",
    work: Work::Lab("join"),
    turns: 3,
    values: &[
        joined(
            "Opus only: processor time",
            "/results/streams/stream=audio/server_cpu_ms_per_join",
        ),
        joined(
            "demo: processor time",
            "/results/streams/stream=demo/server_cpu_ms_per_join",
        ),
        joined(
            "demo: keys, p50",
            "/results/streams/stream=demo/connect_ms/p50",
        ),
        joined(
            "demo: first media, p50",
            "/results/streams/stream=demo/join_ms/p50",
        ),
        joined(
            "demo: first media, p95",
            "/results/streams/stream=demo/join_ms/p95",
        ),
    ],
    ..BASE
};

const fn joined(name: &'static str, path: &'static str) -> Value {
    Value::less(name, path, "ms")
}

pub(super) const FAN_OUT: Recipe = Recipe {
    name: "fan-out",
    page: "fan-out",
    about: "viewers of one shard, beside cipher, copy and call alone",
    work: Work::Peers {
        arguments: "--quick --servers glassline --layouts pinned --ramp 0:600:200 --every 8s --hold 8s",
        reports: &["glassline"],
    },
    quick: Some(Work::Peers {
        arguments: "--quick --servers glassline --layouts pinned --ramp 0:600:200 --every 3s --hold 3s",
        reports: &["glassline"],
    }),
    minutes: (2.5, 1.5),
    turns: 3,
    needs: &[Need::Quiet, Need::TwoCores, Need::Peer("FFmpeg")],
    values: &[
        viewer_second(
            "200 viewers: a viewer-second",
            [
                "/glassline/steps/viewers=200/server_cpu_ms_per_viewer_second",
                "/glassline/floor/steps/viewers=200/cpu_ms_per_viewer_second",
            ],
        )
        .where_delivered(&["/glassline/steps/viewers=200/delivered_ratio"]),
        viewer_second(
            "400 viewers: a viewer-second",
            [
                "/glassline/steps/viewers=400/server_cpu_ms_per_viewer_second",
                "/glassline/floor/steps/viewers=400/cpu_ms_per_viewer_second",
            ],
        )
        .where_delivered(&["/glassline/steps/viewers=400/delivered_ratio"]),
        viewer_second(
            "600 viewers: a viewer-second",
            [
                "/glassline/steps/viewers=600/server_cpu_ms_per_viewer_second",
                "/glassline/floor/steps/viewers=600/cpu_ms_per_viewer_second",
            ],
        )
        .where_delivered(&["/glassline/steps/viewers=600/delivered_ratio"]),
        Value::more(
            "600 viewers: delivered",
            "/glassline/steps/viewers=600/delivered_ratio",
            "%",
        )
        .times(100.0)
        .within(0.002, 0.0),
        gap(
            "200 viewers: p99 gap",
            "/glassline/steps/viewers=200/gap_ms/p99",
        ),
        gap(
            "400 viewers: p99 gap",
            "/glassline/steps/viewers=400/gap_ms/p99",
        ),
        gap(
            "600 viewers: p99 gap",
            "/glassline/steps/viewers=600/gap_ms/p99",
        ),
        Value::less(
            "600 viewers: memory of a viewer",
            "/glassline/steps/viewers=600/server_rss_bytes_per_viewer",
            "kB",
        )
        .times(1e-3),
    ],
    is_crypto: true,
    ..BASE
};

const fn viewer_second(name: &'static str, [ours, floor]: [&'static str; 2]) -> Value {
    Value::less(name, ours, "ms").beside("floor", floor)
}

const fn gap(name: &'static str, path: &'static str) -> Value {
    Value::less(name, path, "ms").within(0.1, 3.0)
}

pub(super) const RTSP: Recipe = Recipe {
    name: "rtsp",
    page: "rtsp",
    about: "RTSP clients, not encrypted, beside viewers over WebRTC",
    work: Work::Peers {
        arguments: "--quick --servers glassline-rtsp,glassline-rtsp-udp,glassline --layouts pinned --ramp 0:400:100 --every 5s --hold 5s",
        reports: &["glassline-rtsp", "glassline-rtsp-udp", "glassline"],
    },
    minutes: (3.5, 3.5),
    needs: &[Need::Quiet, Need::TwoCores, Need::Peer("FFmpeg")],
    values: &[
        client_second(
            "100 clients, TCP: a client-second",
            [
                "/glassline-rtsp/steps/viewers=100/server_cpu_ms_per_viewer_second",
                "/glassline/steps/viewers=100/server_cpu_ms_per_viewer_second",
            ],
        )
        .where_delivered(&["/glassline-rtsp/steps/viewers=100/delivered_ratio"]),
        client_second(
            "400 clients, TCP: a client-second",
            [
                "/glassline-rtsp/steps/viewers=400/server_cpu_ms_per_viewer_second",
                "/glassline/steps/viewers=400/server_cpu_ms_per_viewer_second",
            ],
        )
        .where_delivered(&["/glassline-rtsp/steps/viewers=400/delivered_ratio"]),
        client_second(
            "100 clients, UDP: a client-second",
            [
                "/glassline-rtsp-udp/steps/viewers=100/server_cpu_ms_per_viewer_second",
                "/glassline/steps/viewers=100/server_cpu_ms_per_viewer_second",
            ],
        )
        .where_delivered(&["/glassline-rtsp-udp/steps/viewers=100/delivered_ratio"]),
        client_second(
            "400 clients, UDP: a client-second",
            [
                "/glassline-rtsp-udp/steps/viewers=400/server_cpu_ms_per_viewer_second",
                "/glassline/steps/viewers=400/server_cpu_ms_per_viewer_second",
            ],
        )
        .where_delivered(&["/glassline-rtsp-udp/steps/viewers=400/delivered_ratio"]),
        gap(
            "400 clients, TCP: p99 gap",
            "/glassline-rtsp/steps/viewers=400/gap_ms/p99",
        ),
        gap(
            "400 clients, UDP: p99 gap",
            "/glassline-rtsp-udp/steps/viewers=400/gap_ms/p99",
        ),
    ],
    ..BASE
};

const fn client_second(name: &'static str, [ours, webrtc]: [&'static str; 2]) -> Value {
    Value::less(name, ours, "ms").beside("WebRTC", webrtc)
}

pub(super) const TCP_VIEWERS: Recipe = Recipe {
    name: "tcp-viewers",
    page: "fan-out",
    about: "100 viewers over TCP, beside RTSP clients and viewers over UDP",
    work: Work::Scene("tcp-viewers"),
    minutes: (4.0, 4.0),
    needs: &[Need::Quiet, Need::TwoCores, Need::Peer("FFmpeg")],
    values: &[
        Value::less(
            "over TCP: a viewer-second",
            "/tcp_ms_per_viewer_second",
            "ms",
        )
        .beside("RTSP over TCP", "/rtsp_ms_per_client_second"),
        Value::less(
            "over UDP: a viewer-second",
            "/udp_ms_per_viewer_second",
            "ms",
        )
        .beside("RTSP over TCP", "/rtsp_ms_per_client_second"),
    ],
    is_crypto: true,
    ..BASE
};

pub(super) const SNAPSHOTS: Recipe = Recipe {
    name: "snapshots",
    page: "snapshots",
    about: "a picture of a stream of 1080p over HTTP",
    work: Work::Scene("snapshots"),
    minutes: (1.5, 1.5),
    needs: &[Need::Quiet, Need::Peer("FFmpeg")],
    values: &[
        Value::less("1920 pixels, fresh", "/full/fresh_ms", "ms"),
        Value::less("640 pixels, fresh", "/w640/fresh_ms", "ms"),
        Value::less("192 pixels, fresh", "/w192/fresh_ms", "ms"),
        Value::less("1920 pixels, from the cache", "/full/cached_ms", "ms").within(0.2, 0.1),
    ],
    ..BASE
};

pub(super) const TRANSCODED: Recipe = Recipe {
    name: "transcoded",
    page: "transcoding",
    about: "video with B-frames for one viewer, in a running server",
    work: Work::Scene("transcoded"),
    minutes: (0.8, 0.8),
    needs: &[Need::Quiet, Need::TwoCores, Need::Peer("FFmpeg")],
    values: &[
        Value::less("1280 × 720", "/p720/cpu_ratio", "% of a core").times(100.0),
        Value::less("1920 × 1080", "/p1080/cpu_ratio", "% of a core").times(100.0),
        Value::more("1280 × 720: frames", "/p720/transcoded_ratio", "%")
            .times(100.0)
            .within(0.03, 0.0),
        Value::more("1920 × 1080: frames", "/p1080/transcoded_ratio", "%")
            .times(100.0)
            .within(0.03, 0.0),
        Value::less("1280 × 720: delay, p50", "/p720/delay_p50_ms", "ms").within(0.1, 2.0),
        Value::less("1920 × 1080: delay, p50", "/p1080/delay_p50_ms", "ms").within(0.1, 2.0),
    ],
    ..BASE
};

pub(super) const RELOAD: Recipe = Recipe {
    name: "reload",
    page: "reload",
    about: "gaps of 200 viewers while the configuration is read again",
    work: Work::Scene("reload"),
    values: &[
        Value::less("longest gap", "/gap_max_ms", "ms")
            .beside("without reloads", "/quiet_gap_max_ms")
            .within(0.1, 5.0),
        Value::less("p99 of gaps", "/gap_p99_ms", "ms")
            .beside("without reloads", "/quiet_gap_p99_ms")
            .within(0.1, 3.0),
        Value::less("longest reload", "/longest_reload_ms", "ms").within(0.2, 20.0),
    ],
    ..BASE
};

pub(super) const PULL: Recipe = Recipe {
    name: "pull",
    page: "cluster-pull",
    about: "a pull of a stream, beside a viewer (profile test)",
    work: Work::Test {
        package: "glassline-server",
        filter: "cost_of_a_pull",
    },
    turns: 3,
    needs: &[Need::Quiet],
    noise: Tolerance {
        relative: 0.2,
        absolute: 0.0,
    },
    ..BASE
};

pub(super) const CHURN: Recipe = Recipe {
    name: "churn",
    page: "hardening",
    about: "ten thousand viewers come and go: cost and what is left",
    work: Work::Lab("churn"),
    minutes: (4.0, 4.0),
    needs: &[Need::Quiet],
    values: &[
        Value::less("a visit", "/results/server_cpu_ms_per_visit/-1", "ms"),
        Value::less("memory in the end", "/results/rss_bytes/-1", "MB").times(1e-6),
        Value::less("growth by visit", "/results/rss_bytes_per_visit_min", "B").within(0.1, 50.0),
    ],
    ..BASE
};

pub(super) const FIRST_FRAME: Recipe = Recipe {
    name: "first-frame",
    about: "Chromium: navigation to first frame, and glass to glass",
    work: Work::Lab("first_frame"),
    minutes: (4.0, 4.0),
    needs: &[Need::Quiet, Need::Peer("Chromium")],
    values: &[
        seen("fresh profile, p50", "/results/summary/first_frame_ms/p50"),
        seen(
            "page reloaded, p50",
            "/results/summary/reload_first_frame_ms/p50",
        ),
        seen("offer to first frame, p50", "/results/summary/join_ms/p50"),
        seen(
            "glass to glass, p50",
            "/results/summary/glass_to_glass_ms_p50/p50",
        )
        .within(0.1, 17.0),
        seen(
            "the server's part of it, p50",
            "/results/summary/server_ms/p50",
        )
        .within(0.1, 0.2),
    ],
    ..BASE
};

const fn seen(name: &'static str, path: &'static str) -> Value {
    Value::less(name, path, "ms")
}

pub(super) const PUBLISH: Recipe = Recipe {
    name: "publish",
    page: "publishing",
    about: "Chromium to Chromium, beside MediaMTX",
    work: Work::Lab("publish"),
    minutes: (6.0, 6.0),
    needs: &[Need::Quiet, Need::Peer("Chromium"), Need::Network],
    // Browsers differ by whole refresh intervals of the screen, 16.7 ms.
    values: &[
        seen("our pages, p50", "/results/summary/our_pages/p50").within(0.1, 17.0),
        seen("our pages, p95", "/results/summary/our_pages/p95").within(0.1, 17.0),
        seen("one script, p50", "/results/summary/script_glassline/p50")
            .beside_peer("MediaMTX", "/results/summary/script_mediamtx/p50")
            .within(0.1, 17.0),
        seen("one script, p95", "/results/summary/script_glassline/p95")
            .beside_peer("MediaMTX", "/results/summary/script_mediamtx/p95")
            .within(0.1, 17.0),
    ],
    ..BASE
};

pub(super) const CLUSTER_LOSS: Recipe = Recipe {
    name: "cluster-loss",
    page: "cluster",
    about: "what viewers lose when a part of a cluster fails (profile test)",
    work: Work::Test {
        package: "glassline",
        filter: "cluster::figures",
    },
    minutes: (25.0, 25.0),
    needs: &[Need::Quiet, Need::BuiltPeer(BuiltPeer::Nats)],
    noise: Tolerance {
        relative: 0.2,
        absolute: 0.1,
    },
    on_page: &["longest"],
    ..BASE
};
