//! The tables that tidy holds the code to.
//!
//! Each is exact. `cargo xtask check --tables` prints them as the code is, so a new row
//! is pasted; whether it should be there is what a review is for. Rows stay on one line
//! each, as they are printed.
//!
//! To divide a room, give its parts rows, `("egress/moq", &[])`, and print the tables: what
//! has a row is a room, and what has none belongs to the nearest row above it.

/// A name, and all that it knows directly.
pub(super) type Row = (&'static str, &'static [&'static str]);

/// A crate, and two of its rooms that never know each other, in either direction.
pub(super) type Wall = (&'static str, &'static str, &'static str);

/// The folder that all files of a circle are in, their paths from there on, and why the
/// circle stands.
pub(super) type Circle = (&'static str, &'static [&'static str], &'static str);

/// Which crate knows which, from the ground floor up. What only tests need is left out.
#[rustfmt::skip]
pub(super) const CRATES: &[Row] = &[
    ("media", &[]),
    ("net", &[]),
    ("rtp", &["media"]),
    ("rtsp", &["media"]),
    ("congestion", &["media"]),
    ("sctp", &["congestion", "media"]),
    ("voice", &["media", "rtp"]),
    ("webrtc", &["congestion", "media", "rtp", "sctp"]),
    ("client", &["media", "net", "rtp", "rtsp", "sctp", "voice", "webrtc"]),
    ("demux", &["media"]),
    ("quic", &["congestion", "media"]),
    ("sim", &["media"]),
    ("lab", &["client", "congestion", "demux", "media", "net", "quic", "rtp", "sctp", "sim", "voice", "webrtc"]),
    ("publish", &["congestion", "demux", "media", "quic"]),
    ("hub", &["media"]),
    ("server", &["congestion", "demux", "hub", "media", "net", "quic", "rtp", "rtsp", "sctp", "webrtc"]),
    ("glassline", &["client", "lab", "media", "publish", "server", "sim"]),
];

/// Tools of the checkout, which may know any crate.
pub(super) const NOBODY_KNOWS: [&str; 2] = ["fuzz", "xtask"];

/// Crates without clock, chance or sockets.
pub(super) const CORES: [&str; 10] = [
    "media",
    "rtp",
    "demux",
    "congestion",
    "sctp",
    "webrtc",
    "rtsp",
    "voice",
    "sim",
    "hub",
];

/// What would bring a clock, chance or a socket into a core.
pub(super) const NOT_IN_A_CORE: [&str; 6] = ["libc", "mio", "rand", "socket2", "tokio", "ureq"];

/// Which room knows which, crate by crate, from the ground floor up.
#[rustfmt::skip]
pub(super) const ROOMS: &[(&str, &[Row])] = &[
    ("server", &[
        ("clock", &[]),
        ("ingest", &["config"]),
        ("library", &["ingest"]),
        ("messages", &["registry"]),
        ("registry", &["shard"]),
        ("rooms", &["registry"]),
        ("latency", &["clock", "ingest", "messages", "registry", "shard"]),
        ("shard", &["latency", "messages", "registry", "rooms"]),
        ("rtsp", &["ingest", "latency", "library", "shard", "users"]),
        ("config", &["ingest", "messages", "rtsp", "users"]),
        ("users", &["config"]),
        ("quic", &["clock", "config", "ingest", "users"]),
        ("http", &["clock", "config", "ingest", "latency", "library", "messages", "quic", "registry", "rooms", "rtsp", "shard", "users"]),
        ("reload", &["config", "rtsp", "users"]),
        ("server", &["clock", "config", "http", "ingest", "latency", "library", "quic", "registry", "reload", "rooms", "rtsp", "shard", "users"]),
    ]),
    ("client", &[
        ("trust", &[]),
        ("whep", &["trust"]),
        ("viewers", &["trust", "whep"]),
        ("call", &["viewers"]),
        ("relay", &["trust"]),
    ]),
    ("lab", &[
        ("machine", &[]),
        ("lib", &[]),
        ("floor", &["lib"]),
        ("trouble", &["step"]),
        ("step", &["trouble", "verdict"]),
        ("verdict", &["step"]),
        ("report", &["floor", "machine", "step", "verdict"]),
        ("congestion", &["machine", "report"]),
        ("http", &[]),
        ("data", &["congestion", "http", "lib", "machine", "report"]),
        ("call", &["data", "http", "report"]),
        ("jitter", &["congestion", "lib", "report"]),
        ("meter", &[]),
        ("ramp", &[]),
        ("plan", &["lib", "meter", "ramp", "run", "trouble"]),
        ("run", &["floor", "lib", "machine", "meter", "plan", "report", "step", "trouble", "verdict"]),
        ("send", &["lib", "machine", "report"]),
        ("threshold", &["step"]),
    ]),
    ("quic", &[
        ("identity", &[]),
        ("steer", &[]),
        ("trust", &["identity"]),
        ("endpoint", &["identity", "steer", "trust"]),
        ("moq", &["endpoint", "identity", "steer", "trust"]),
    ]),
    ("sctp", &[
        ("parse", &[]),
        ("sequence", &[]),
        ("chunk", &["packet", "parse", "sequence"]),
        ("packet", &["chunk", "parse"]),
        ("config", &[]),
        ("error", &["parse"]),
        ("event", &[]),
        ("report", &[]),
        ("receive", &["chunk", "config", "packet", "report", "sequence"]),
        ("send", &["chunk", "config", "packet", "report", "sequence"]),
        ("association", &["chunk", "config", "error", "event", "packet", "parse", "receive", "report", "reset", "send", "sequence"]),
        ("reset", &["association", "chunk", "packet", "sequence"]),
        ("channel", &["association", "config", "error", "event", "parse", "report"]),
    ]),
    ("webrtc", &[
        ("demux", &[]),
        ("sdp", &[]),
        ("srtp", &[]),
        ("dtls", &["sdp", "srtp"]),
        ("turn", &[]),
        ("ice", &["sdp", "session"]),
        ("session", &["demux", "dtls", "ice", "sdp", "srtp", "turn"]),
    ]),
    ("voice", &[
        ("clock", &[]),
        ("codec", &[]),
        ("tape", &["codec"]),
        ("pitch", &["tape"]),
        ("stretch", &["pitch", "tape"]),
        ("expand", &["codec", "pitch", "stretch", "tape"]),
        ("stamps", &[]),
        ("far", &["clock", "stamps"]),
        ("jitter", &["codec", "expand", "pitch", "stamps", "stretch", "tape"]),
        ("limit", &[]),
        ("meter", &["pitch"]),
        ("mix", &[]),
        ("opus", &["codec"]),
        ("resample", &[]),
        ("listener", &["codec", "jitter", "limit", "meter", "mix", "opus", "resample", "stamps"]),
        ("player", &["codec", "expand", "pitch", "stretch", "tape"]),
        ("preprocess", &["opus"]),
        ("reframe", &["codec"]),
        ("speaker", &["codec", "meter", "mix", "opus", "pitch", "preprocess", "reframe", "resample", "stamps"]),
    ]),
];

/// Arrows of [`ROOMS`] that lead to a lower row: crate, from, to, and why they stand.
#[rustfmt::skip]
pub(super) const ROOMS_AGAINST_THE_ORDER: &[(&str, &str, &str, &str)] = &[
    ("server", "config", "users", "being taken apart"),
    ("server", "ingest", "config", "being taken apart"),
    ("server", "latency", "shard", "being taken apart"),
    ("server", "messages", "registry", "being taken apart"),
    ("server", "registry", "shard", "being taken apart"),
    ("server", "rtsp", "users", "being taken apart"),
    ("lab", "plan", "run", "being taken apart"),
    ("lab", "step", "verdict", "being taken apart"),
    ("lab", "trouble", "step", "being taken apart"),
    ("sctp", "association", "reset", "being taken apart"),
    ("sctp", "chunk", "packet", "being taken apart"),
    ("webrtc", "ice", "session", "being taken apart"),
];

/// Rooms that never know each other, whatever [`ROOMS`] says.
pub(super) const WALLS: &[Wall] = &[("server", "ingest", "shard")];

/// Files that know each other in a circle, and why they may.
#[rustfmt::skip]
pub(super) const CIRCLES: &[Circle] = &[
    ("crates/client/src/viewers", &["engine.rs", "peer.rs", "signalling.rs", "webrtc.rs"], "being taken apart"),
    ("crates/congestion/src", &["bbr/mod.rs", "controller.rs", "copa.rs", "cubic.rs", "flow.rs", "glide/mod.rs", "trend.rs"], "being taken apart"),
    ("crates/demux/src", &["access_unit/mod.rs", "container/coding.rs", "container/describe.rs", "container/lane.rs", "container/mod.rs", "dv.rs", "error.rs", "format.rs", "frame_rate.rs", "frames.rs", "grammar.rs", "h265/mod.rs", "matroska/mod.rs", "mp4/mod.rs", "mpeg4_visual/mod.rs", "ogg/mod.rs", "opus.rs", "page.rs", "parameter_sets.rs", "parameters.rs", "program/mod.rs", "reader.rs", "sniff.rs", "tags.rs", "theora.rs", "transport/mod.rs", "video/mod.rs", "wav.rs", "window.rs"], "being taken apart"),
    ("crates/demux/src/mp4", &["fragments.rs", "movie.rs", "samples.rs"], "being taken apart"),
    ("crates/hub/src", &["publisher.rs", "stream/mod.rs"], "being taken apart"),
    ("crates/lab/src/call", &["stage.rs", "table/mod.rs"], "being taken apart"),
    ("crates/lab/src/call", &["join/mod.rs", "report/mod.rs"], "being taken apart"),
    ("crates/lab/src", &["step.rs", "trouble.rs", "verdict.rs"], "being taken apart"),
    ("crates/lab/src/call", &["room.rs", "room_accounts/mod.rs"], "being taken apart"),
    ("crates/lab/src/congestion", &["relay.rs", "session/mod.rs", "upload/camera.rs", "upload/figures.rs", "upload/flows.rs", "upload/publisher.rs", "upload/schedule.rs", "virtual_time.rs"], "being taken apart"),
    ("crates/lab/src/meter", &["account.rs", "process.rs"], "being taken apart"),
    ("crates/lab/src", &["plan.rs", "run/mod.rs"], "being taken apart"),
    ("crates/net/src", &["bind.rs", "send.rs", "socket/mod.rs", "sys.rs"], "being taken apart"),
    ("crates/publish/src", &["input.rs", "source/files.rs", "source/ladder.rs"], "being taken apart"),
    ("crates/quic/src/moq", &["transport.rs", "web.rs"], "being taken apart"),
    ("crates/quic/src/moq", &["broadcast.rs", "offer.rs", "server.rs", "session.rs", "watch.rs"], "being taken apart"),
    ("crates/rtp/src/payload", &["aac.rs", "ac3.rs", "amr.rs", "av1.rs", "depacketiser/mod.rs", "dv.rs", "h265.rs", "jpeg/mod.rs", "mpeg4_visual.rs", "mpeg_audio.rs", "mpeg_ts.rs", "mpeg_video.rs", "vp8.rs", "vp9.rs", "xiph.rs"], "being taken apart"),
    ("crates/sctp/src", &["chunk/mod.rs", "packet.rs"], "being taken apart"),
    ("crates/sctp/src", &["association/mod.rs", "reset.rs"], "being taken apart"),
    ("crates/server/src", &["latency/mod.rs", "messages.rs", "registry.rs", "rooms.rs", "shard/messages/mod.rs", "shard/viewer/mod.rs", "shard/voice.rs"], "being taken apart"),
    ("crates/server/src/library", &["control.rs", "driver.rs", "live.rs", "private.rs", "reading.rs", "reel.rs", "run.rs", "title.rs"], "being taken apart"),
    ("crates/server/src/http", &["whep.rs", "whip.rs"], "being taken apart"),
    ("crates/server/src/rtsp", &["client.rs", "files.rs", "setup.rs", "tunnel.rs", "worker.rs"], "being taken apart"),
    ("crates/webrtc/src/dtls", &["cipher.rs", "record/mod.rs"], "being taken apart"),
    ("crates/webrtc/src/sdp", &["error.rs", "lines.rs"], "being taken apart"),
    ("crates/webrtc/src/sdp", &["attributes.rs", "transport.rs"], "being taken apart"),
    ("crates/webrtc/src/sdp", &["agree.rs", "answer.rs", "data.rs", "negotiate.rs"], "being taken apart"),
];

/// Files above 500 lines. None joins them; who splits one strikes it.
pub(super) const LONG_FILES: &[&str] = &[
    "crates/client/src/call/tests/mod.rs",
    "crates/congestion/src/adaptation.rs",
    "crates/congestion/src/bbr/mod.rs",
    "crates/congestion/src/glide/policer.rs",
    "crates/demux/src/container/lane.rs",
    "crates/demux/src/frames.rs",
    "crates/demux/src/live.rs",
    "crates/demux/src/mpeg4_visual/mod.rs",
    "crates/hub/src/stream/mod.rs",
    "crates/lab/src/call/join/mod.rs",
    "crates/lab/src/data/end.rs",
    "crates/lab/src/data/impair.rs",
    "crates/lab/src/verdict.rs",
    "crates/net/src/sys.rs",
    "crates/quic/src/moq/catalog.rs",
    "crates/quic/src/moq/session.rs",
    "crates/quic/src/moq/transport.rs",
    "crates/rtp/src/rtcp/tests.rs",
    "crates/rtsp/src/client/tests.rs",
    "crates/sctp/src/channel/mod.rs",
    "crates/sctp/src/channel/tests.rs",
    "crates/sctp/src/chunk/tests.rs",
    "crates/sctp/src/send/mod.rs",
    "crates/server/src/http/whep.rs",
    "crates/server/src/library/tests.rs",
    "crates/server/src/rtsp/worker.rs",
    "crates/server/src/shard/messages/mod.rs",
    "crates/server/src/shard/messages/tests.rs",
    "crates/server/src/shard/outbox.rs",
    "crates/server/src/shard/viewer/mod.rs",
    "crates/server/src/shard/worker/mod.rs",
    "crates/server/tests/rtsp.rs",
    "crates/sim/src/link/tests.rs",
    "crates/voice/src/far/wire.rs",
    "crates/voice/src/jitter/mod.rs",
    "crates/voice/src/listener/mod.rs",
    "crates/webrtc/src/sdp/attribute.rs",
    "crates/webrtc/src/sdp/negotiate.rs",
    "crates/webrtc/src/sdp/tests/answering.rs",
    "crates/webrtc/src/session/mod.rs",
    "crates/webrtc/src/session/sender.rs",
    "tests/rtsp_players.rs",
    "xtask/src/bench_peers/mod.rs",
];

/// Structs above 20 fields, by their files.
#[rustfmt::skip]
pub(super) const WIDE_STRUCTS: &[(&str, &str)] = &[
    ("crates/lab/src/congestion/session/mod.rs", "Measured"),
    ("crates/lab/src/data/end.rs", "End"),
    ("crates/lab/src/step.rs", "Step"),
    ("crates/sctp/src/association/mod.rs", "Association"),
    ("crates/sctp/src/report.rs", "Report"),
    ("crates/sctp/src/send/mod.rs", "Sender"),
    ("crates/server/src/rtsp/counters.rs", "Counters"),
    ("crates/server/src/shard/counters.rs", "Counters"),
    ("crates/server/src/shard/viewer/mod.rs", "Viewer"),
    ("crates/server/src/shard/worker/mod.rs", "Worker"),
    ("crates/voice/src/jitter/mod.rs", "Buffer"),
    ("crates/webrtc/src/session/mod.rs", "Session"),
    ("crates/webrtc/src/session/sender.rs", "Sender"),
    ("src/bench/data.rs", "Options"),
    ("src/bench/viewers.rs", "Options"),
    ("src/call/options.rs", "Options"),
];
