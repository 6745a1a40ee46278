//! The tables that tidy holds the code to.
//!
//! Each is exact. `cargo xtask check --tables` prints them as the code is, so a new row
//! is pasted; whether it should be there is what a review is for. Rows stay on one line
//! each, as they are printed.
//!
//! To divide a room, give its parts rows, `("egress/moq", &[])`, and print the tables: what
//! has a row is a room, and what has none belongs to the nearest row above it.

/// A name with all names that it uses directly.
pub(super) type Row = (&'static str, &'static [&'static str]);

/// A crate, and two of its rooms that must never use each other, in either direction.
pub(super) type Wall = (&'static str, &'static str, &'static str);

/// The folder that all files of a circle are in, their paths from there on, and why the
/// circle stands.
pub(super) type Circle = (&'static str, &'static [&'static str], &'static str);

/// Dependencies between crates, from the bottom up. Those of tests are left out.
#[rustfmt::skip]
pub(super) const CRATES: &[Row] = &[
    ("media", &[]),
    ("congestion", &["media"]),
    ("demux", &["media"]),
    ("net", &[]),
    ("url", &[]),
    ("trust", &[]),
    ("quic", &["congestion", "media", "net", "trust", "url"]),
    ("rtp", &["media"]),
    ("rtsp", &["media", "rtp"]),
    ("sctp", &["congestion", "media"]),
    ("random", &[]),
    ("cluster", &["random"]),
    ("sim", &["media", "random"]),
    ("cluster-sim", &["cluster", "sim"]),
    ("cluster-nats", &["cluster", "url"]),
    ("transcode", &["media", "rtp"]),
    ("voice", &["media", "rtp"]),
    ("webrtc", &["congestion", "media", "rtp", "sctp"]),
    ("client", &["congestion", "demux", "media", "net", "quic", "rtp", "rtsp", "sctp", "sim", "trust", "url", "voice", "webrtc"]),
    ("lab", &["client", "cluster-sim", "congestion", "demux", "media", "net", "quic", "rtp", "sctp", "sim", "voice", "webrtc"]),
    ("hub", &["media"]),
    ("server", &["cluster", "cluster-nats", "congestion", "demux", "hub", "media", "net", "quic", "rtp", "rtsp", "sctp", "transcode", "trust", "url", "webrtc"]),
    ("devices", &["client", "voice"]),
    ("glassline", &["client", "devices", "lab", "media", "net", "server", "sim"]),
];

/// Tools of the checkout, which may know any crate.
pub(super) const NOBODY_KNOWS: [&str; 2] = ["fuzz", "xtask"];

/// Crates without clock, randomness or sockets.
pub(super) const CORES: [&str; 15] = [
    "media",
    "cluster",
    "cluster-sim",
    "random",
    "rtp",
    "demux",
    "congestion",
    "sctp",
    "webrtc",
    "rtsp",
    "voice",
    "transcode",
    "sim",
    "hub",
    "url",
];

/// Crates that would bring a clock, randomness or a socket into a core.
pub(super) const NOT_IN_A_CORE: [&str; 6] = ["libc", "mio", "rand", "socket2", "tokio", "ureq"];

/// Uses between rooms, crate by crate, from the bottom up.
#[rustfmt::skip]
pub(super) const ROOMS: &[(&str, &[Row])] = &[
    ("server", &[
        ("runtime", &[]),
        ("failures", &["runtime"]),
        ("events", &["failures"]),
        ("rooms", &["runtime"]),
        ("outbound", &[]),
        ("auth", &["outbound", "rooms", "runtime"]),
        ("audit", &["auth", "runtime"]),
        ("addresses", &["auth", "runtime"]),
        ("spelling", &[]),
        ("stream_names", &[]),
        ("ingest", &["rooms", "runtime", "spelling", "stream_names"]),
        ("messages", &["runtime"]),
        ("cluster", &["auth", "ingest", "messages", "rooms", "runtime", "stream_names"]),
        ("talk", &["ingest"]),
        ("snapshots", &["runtime"]),
        ("transcoding", &["runtime"]),
        ("tls", &["outbound", "runtime"]),
        ("hooks", &["auth", "ingest", "outbound", "rooms", "runtime"]),
        ("telemetry", &["auth", "outbound", "runtime"]),
        ("config", &["addresses", "auth", "hooks", "ingest", "messages", "runtime", "spelling", "stream_names", "telemetry", "tls"]),
        ("settings", &["config", "runtime"]),
        ("stored", &["auth", "config", "ingest", "runtime", "stream_names", "talk"]),
        ("latency", &["ingest", "messages", "runtime"]),
        ("egress", &["latency", "runtime"]),
        ("quic", &["auth", "cluster", "config", "egress", "failures", "ingest", "messages", "rooms", "runtime", "stream_names", "tls"]),
        ("rtsp", &["auth", "cluster", "egress", "failures", "ingest", "latency", "runtime", "stream_names"]),
        ("sessions", &["addresses", "cluster", "egress", "failures", "ingest", "latency", "messages", "rooms", "runtime", "talk", "telemetry", "transcoding"]),
        ("http/server", &["cluster", "failures", "runtime", "sessions", "tls"]),
        ("app", &["audit", "auth", "config", "events", "failures", "hooks", "http/server", "ingest", "latency", "quic", "rooms", "rtsp", "runtime", "sessions", "settings", "snapshots", "stored", "tls", "transcoding"]),
        ("metrics", &["auth", "ingest", "latency", "rooms", "runtime"]),
        ("http", &["app", "audit", "auth", "cluster", "config", "events", "failures", "hooks", "http/server", "ingest", "latency", "messages", "metrics", "quic", "rooms", "rtsp", "runtime", "sessions", "settings", "snapshots", "stored", "stream_names", "talk", "telemetry", "tls", "transcoding"]),
        ("reload", &["addresses", "app", "auth", "config", "events", "hooks", "ingest", "messages", "rooms", "runtime", "sessions", "settings", "tls", "transcoding"]),
        ("sweep", &["app", "audit", "auth", "latency", "runtime", "sessions"]),
        ("server", &["addresses", "app", "audit", "auth", "cluster", "config", "egress", "events", "failures", "hooks", "http", "http/server", "ingest", "latency", "messages", "metrics", "outbound", "quic", "reload", "rooms", "rtsp", "runtime", "sessions", "settings", "stored", "sweep", "talk", "telemetry", "tls", "transcoding"]),
    ]),
    ("client", &[
        ("agent", &[]),
        ("http", &[]),
        ("impairment", &[]),
        ("ways", &[]),
        ("whep", &["agent"]),
        ("viewers", &["whep"]),
        ("call", &["http", "impairment", "viewers", "whep"]),
        ("onvif", &["agent", "viewers"]),
        ("publish", &["viewers", "ways", "whep"]),
        ("relay", &[]),
        ("probe", &["agent", "viewers", "whep"]),
    ]),
    ("lab", &[
        ("plot", &[]),
        ("call", &["plot"]),
        ("condition", &[]),
        ("machine", &[]),
        ("congestion", &["machine", "plot"]),
        ("statistics", &[]),
        ("timestamp", &[]),
        ("cluster", &["plot", "timestamp"]),
        ("data", &["machine", "plot", "statistics", "timestamp"]),
        ("jitter", &["plot", "statistics", "timestamp"]),
        ("send", &["machine", "plot", "statistics", "timestamp"]),
        ("meter", &[]),
        ("chaos", &["machine", "meter", "plot", "timestamp"]),
        ("viewers", &["machine", "meter", "plot", "statistics", "timestamp"]),
    ]),
    ("quic", &[
        ("identity", &[]),
        ("congestion", &[]),
        ("address_validation", &[]),
        ("dial_error", &[]),
        ("endpoint", &["address_validation", "dial_error", "identity", "congestion"]),
        ("moq", &["address_validation", "dial_error", "endpoint", "identity", "congestion"]),
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
        ("stream_map", &[]),
        ("receive", &["chunk", "config", "event", "packet", "report", "sequence", "stream_map"]),
        ("timer", &[]),
        ("reset", &["chunk", "packet", "sequence", "timer"]),
        ("send", &["chunk", "config", "packet", "report", "sequence", "stream_map"]),
        ("association", &["chunk", "config", "error", "event", "packet", "parse", "receive", "report", "reset", "send", "sequence", "timer"]),
        ("channel", &["association", "config", "error", "event", "parse", "report", "stream_map"]),
    ]),
    ("webrtc", &[
        ("demux", &[]),
        ("framing", &[]),
        ("transport_address", &[]),
        ("sdp", &["transport_address"]),
        ("srtp", &[]),
        ("dtls", &["sdp", "srtp"]),
        ("ice", &["sdp", "transport_address"]),
        ("turn", &[]),
        ("session", &["demux", "dtls", "ice", "sdp", "srtp", "transport_address", "turn"]),
    ]),
    ("voice", &[
        ("marker", &[]),
        ("codec", &[]),
        ("playout_buffer", &["codec"]),
        ("pitch", &["playout_buffer"]),
        ("stretch", &["pitch", "playout_buffer"]),
        ("expand", &["codec", "pitch", "stretch", "playout_buffer"]),
        ("stamps", &[]),
        ("far", &["stamps"]),
        ("jitter", &["codec", "expand", "pitch", "stamps", "stretch", "playout_buffer"]),
        ("limit", &[]),
        ("meter", &["pitch"]),
        ("mix", &[]),
        ("opus", &["codec"]),
        ("resample", &[]),
        ("listener", &["codec", "jitter", "limit", "meter", "mix", "opus", "resample", "stamps"]),
        ("player", &["codec", "expand", "pitch", "stretch", "playout_buffer"]),
        ("preprocess", &["opus"]),
        ("reframe", &["codec"]),
        ("speaker", &["codec", "meter", "mix", "opus", "pitch", "preprocess", "reframe", "resample", "stamps"]),
    ]),
];

/// Arrows of [`ROOMS`] that lead to a lower row: crate, from, to, and why they stand.
#[rustfmt::skip]
pub(super) const ROOMS_AGAINST_THE_ORDER: &[(&str, &str, &str, &str)] = &[
    ("sctp", "chunk", "packet", "a packet is read as chunks, and a chunk is written by the packet's builder"),
];

/// Rooms that must never use each other, whatever [`ROOMS`] says.
pub(super) const WALLS: &[Wall] = &[("server", "ingest", "egress")];

/// Files that use each other in a circle, and why they may.
#[rustfmt::skip]
pub(super) const CIRCLES: &[Circle] = &[];

/// Files above 500 lines. No file may be added; whoever divides one removes it.
pub(super) const LONG_FILES: &[&str] = &[
    "crates/congestion/src/bbr/mod.rs",
    "crates/sctp/src/chunk/tests.rs",
    "crates/server/src/messages/session/tests.rs",
    "crates/sim/src/link/tests.rs",
    "crates/voice/src/far/tests.rs",
    "tests/rtsp_players.rs",
    "xtask/src/bench_peers/mod.rs",
];

/// Structs above 20 fields, by their files.
#[rustfmt::skip]
pub(super) const WIDE_STRUCTS: &[(&str, &str)] = &[
    ("crates/lab/src/congestion/session/measured.rs", "Measured"),
    ("crates/lab/src/viewers/step.rs", "Step"),
    ("crates/sctp/src/association/mod.rs", "Association"),
    ("crates/sctp/src/report.rs", "Report"),
    ("crates/voice/src/jitter/mod.rs", "Buffer"),
    ("crates/webrtc/src/session/sender.rs", "Sender"),
    ("src/bench/data.rs", "Options"),
    ("src/bench/viewers.rs", "Options"),
];

/// Files of the server that start blocking work without a pool, and why nobody can leave theirs behind.
#[rustfmt::skip]
pub(super) const BLOCKING: &[(&str, &str)] = &[
    ("auth/jwt/key_ring.rs", "the one task that reads keys waits for each reading"),
    ("ingest/library/inspection.rs", "one task reads one file at a time, and is never canceled"),
    ("ingest/source_parts.rs", "joins the one thread of a source"),
    ("reload/mod.rs", "the one task that looks at files waits for each look"),
    ("runtime/blocking_pool.rs", "the pool"),
    ("server/mod.rs", "joins the threads at the end"),
    ("sweep.rs", "work that does nothing while another thread does it"),
    ("talk/transcoding.rs", "lasts as long as a voice, of which a camera has one"),
    ("tls/acme/kept.rs", "the one task that renews certificates waits for each file"),
    ("tls/lan/mod.rs", "the one task that renews certificates waits for each leaf"),
];

/// Names that are retired, and what the code says instead.
#[rustfmt::skip]
pub(super) const RETIRED_NAMES: &[(&str, &str)] = &[
    ("Absence", "DeviceStallDetector"),
    ("Alarm", "Waker"),
    ("Allowance", "TokenBucket"),
    ("Asked", "PendingRequest"),
    ("Astray", "LateCalls"),
    ("Bell", "Waker"),
    ("Beside", "DataChannelSetup"),
    ("Board", "LatencyRegistry"),
    ("Burst", "MediaUnit"),
    ("Claim", "Credentials"),
    ("Course", "VelocityWindow or Adjustment"),
    ("Cutter", "UnitPacketizer"),
    ("Door", "ThreadListener"),
    ("Doubt", "LateCalls"),
    ("Ear", "LegConnector"),
    ("Entrance", "Listener"),
    ("Farewell", "AbortReason"),
    ("Fate", "ChunkState or SendOutcome"),
    ("Feed", "StreamSubscription or SourceContext"),
    ("Heard", "PlayoutStamps"),
    ("Home", "SessionLocation"),
    ("is_steered", "has_congestion_control"),
    ("knock", "on_unknown_stun"),
    ("Label", "HeaderTemplate or MessageInfo"),
    ("Lane", "TrackState, TrackQueue or TrackPipeline"),
    ("Law", "PaceParameters"),
    ("Lent", "ShardContext"),
    ("Luck", "Randomness"),
    ("Lump", "AckAggregation"),
    ("needless", "spurious_retransmit"),
    ("news", "newly_acked"),
    ("Noted", "what is recorded"),
    ("obey", "process_commands"),
    ("Outlet", "TrackSender, ConnectionWriter, TrackRemuxer, ChannelQueue or Uplink"),
    ("Owed", "PendingResponse"),
    ("Place", "UnitTiming, Cursor or what it is a place of"),
    ("Pumped", "WriteOutcome"),
    ("Reel", "PlaybackCursor"),
    ("Rhythm", "FrameGaps"),
    ("say_goodbye", "send_close_notify"),
    ("Seat", "MulticastMembership"),
    ("Shelf", "FileCache"),
    ("Shot", "ScheduledFrame"),
    ("Shutter", "RawFrameSender"),
    ("Spoken", "SendStamps"),
    ("Standing", "DataStats"),
    ("starve", "expand_without_packets"),
    ("Steer", "SourceControl"),
    ("Tally", "counters"),
    ("Tape", "PlayoutBuffer"),
    ("Ties", "TieTags"),
    ("Told", "RemoteRecord"),
    ("Tolerant", "LossTolerantBbr"),
    ("Unreceivable", "UnsupportedFormat"),
    ("Unsendable", "PacketizeError"),
    ("Weather", "LossChain"),
    ("Wish", "PendingRequest"),
];

/// Words that are retired as parts of names, and what the code says instead.
#[rustfmt::skip]
pub(super) const RETIRED_PARTS: &[(&str, &str)] = &[
    ("picture", "frame, or video"),
    ("sound", "audio"),
];

/// Where a word of [`RETIRED_PARTS`], or a name with one, stays: files whose paths begin so,
/// the word or the name, and whose word it is.
#[rustfmt::skip]
pub(super) const STANDARD_WORDS: &[(&str, &str, &str)] = &[
    ("crates/client/src/publish/uplink/", "PictureLossIndication", "RFC 4585"),
    ("crates/demux/src/container/", "of_picture", "ITU-T H.264, whose slices name a picture parameter set"),
    ("crates/demux/src/container/ogg/", "picture", "Theora, picture region"),
    ("crates/demux/src/elementary/", "picture", "ITU-T H.264 and H.265"),
    ("crates/demux/src/legacy/", "picture", "MPEG-1, MPEG-2 and MPEG-4 video"),
    ("crates/demux/src/live/", "Picture", "ITU-T H.264 and H.265"),
    ("crates/demux/src/synthetic.rs", "pictures", "ITU-T H.264"),
    ("crates/demux/src/tests/", "picture", "ITU-T H.264 and MPEG-4 video"),
    ("crates/rtp/src/h264/", "group_of_pictures", "a GOP"),
    ("crates/rtp/src/payload/", "picture", "picture id and picture header of RFC 2250, 7741 and 9628"),
    ("crates/rtp/src/rtcp/", "picture", "picture loss indication, RFC 4585"),
    ("crates/server/src/ingest/", "PictureLossIndication", "RFC 4585"),
    ("crates/webrtc/src/session/", "PictureLossIndication", "RFC 4585"),
    ("tests/", "sound", "sound cards and sound servers"),
    ("xtask/src/test/mod.rs", "sound", "sound cards and sound servers"),
];
