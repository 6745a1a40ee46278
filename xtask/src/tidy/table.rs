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

/// The folder that all files of a circle are in, their paths from there on, and why the
/// circle stands.
pub(super) type Circle = (&'static str, &'static [&'static str], &'static str);

/// Dependencies between crates, from the bottom up. Those of tests are left out.
#[rustfmt::skip]
pub(super) const CRATES: &[Row] = &[
    ("net", &[]),
    ("media", &[]),
    ("congestion", &["media"]),
    ("trust", &[]),
    ("url", &[]),
    ("quic", &["congestion", "media", "net", "trust", "url"]),
    ("hub", &["media"]),
    ("runtime", &["hub", "media", "net"]),
    ("rooms", &["hub", "runtime"]),
    ("rtp", &["media"]),
    ("rtsp", &["media", "rtp"]),
    ("onvif", &["net", "rtsp", "trust"]),
    ("access", &["net", "quic", "rooms", "rtsp", "runtime", "url"]),
    ("object-storage", &["access"]),
    ("demux", &["media"]),
    ("cmaf", &["demux", "media"]),
    ("hls", &[]),
    ("recording", &["cmaf", "hub", "media", "net", "runtime"]),
    ("sctp", &["congestion", "media"]),
    ("random", &[]),
    ("sim", &["media", "random"]),
    ("voice", &["media", "rtp"]),
    ("webrtc", &["congestion", "media", "rtp", "sctp"]),
    ("client", &["congestion", "demux", "hls", "media", "net", "quic", "rtp", "rtsp", "sctp", "sim", "trust", "url", "voice", "webrtc"]),
    ("cluster", &["random"]),
    ("cluster-nats", &["cluster", "url"]),
    ("cluster-sim", &["cluster", "sim"]),
    ("devices", &["client", "voice"]),
    ("latency", &["hub", "media", "runtime", "webrtc"]),
    ("egress", &["congestion", "hub", "latency", "media", "net", "quic", "rtp", "rtsp", "runtime", "webrtc"]),
    ("transcode", &["media", "rtp"]),
    ("ingest", &["demux", "hub", "latency", "media", "net", "quic", "rooms", "rtp", "rtsp", "runtime", "transcode", "trust", "url", "webrtc"]),
    ("events", &["access", "hub", "ingest", "net", "rooms", "runtime"]),
    ("messages", &["hub", "latency", "quic", "runtime", "sctp", "webrtc"]),
    ("cluster-member", &["access", "cluster", "cluster-nats", "congestion", "hub", "ingest", "latency", "media", "messages", "net", "quic", "rooms", "runtime"]),
    ("telemetry", &["access", "media", "runtime"]),
    ("config", &["access", "cluster", "cluster-nats", "congestion", "events", "hub", "ingest", "media", "messages", "object-storage", "quic", "recording", "rooms", "rtsp", "runtime", "telemetry", "transcode", "url", "webrtc"]),
    ("service", &["access", "config", "hub", "ingest", "latency", "net", "rooms", "runtime"]),
    ("quic-listener", &["access", "cluster-member", "config", "congestion", "egress", "events", "hub", "ingest", "media", "messages", "quic", "rooms", "runtime", "service"]),
    ("transcoding", &["hub", "media", "net", "rtp", "runtime", "transcode"]),
    ("playback", &["access", "cmaf", "config", "demux", "events", "hub", "ingest", "latency", "media", "object-storage", "recording", "runtime", "service", "transcode", "transcoding"]),
    ("rtsp-listener", &["access", "cluster", "cluster-member", "config", "egress", "events", "hub", "ingest", "latency", "media", "net", "playback", "rtp", "rtsp", "runtime", "service"]),
    ("lab", &["client", "cluster-sim", "congestion", "demux", "egress", "hub", "media", "net", "quic", "rtp", "sctp", "sim", "voice", "webrtc"]),
    ("server", &["access", "cluster", "cluster-member", "cluster-nats", "cmaf", "config", "demux", "egress", "events", "hls", "hub", "ingest", "latency", "media", "messages", "net", "onvif", "playback", "quic", "quic-listener", "recording", "rooms", "rtp", "rtsp", "rtsp-listener", "runtime", "sctp", "service", "telemetry", "transcode", "transcoding", "url", "webrtc"]),
    ("glassline", &["access", "client", "config", "devices", "hls", "ingest", "lab", "media", "net", "onvif", "recording", "runtime", "server", "sim"]),
];

/// Tools of the checkout, which may know any crate.
pub(super) const NOBODY_KNOWS: [&str; 2] = ["fuzz", "xtask"];

/// Crates without clock, randomness or sockets.
pub(super) const CORES: [&str; 17] = [
    "media",
    "cmaf",
    "hls",
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
    ("access", &[
        ("outbound", &[]),
        ("auth", &["outbound"]),
        ("audit", &["auth"]),
        ("tls", &["outbound"]),
    ]),
    ("server", &[
        ("addresses", &[]),
        ("talk", &[]),
        ("onvif", &[]),
        ("sessions", &["addresses", "talk"]),
        ("http/server", &["sessions"]),
        ("stored", &["talk"]),
        ("app", &["http/server", "onvif", "sessions", "stored"]),
        ("http", &["app", "http/server", "onvif", "sessions", "stored", "talk"]),
        ("hls", &["app", "http", "http/server", "sessions"]),
        ("reload", &["addresses", "app"]),
        ("sweep", &["app", "sessions"]),
        ("server", &["addresses", "app", "hls", "http", "http/server", "onvif", "reload", "sessions", "stored", "sweep", "talk"]),
    ]),
    ("client", &[
        ("agent", &[]),
        ("http", &[]),
        ("impairment", &[]),
        ("whep", &["agent"]),
        ("hls", &["agent", "whep"]),
        ("viewers", &["agent", "hls", "whep"]),
        ("call", &["http", "impairment", "viewers", "whep"]),
        ("probe", &["agent", "viewers", "whep"]),
        ("ways", &[]),
        ("publish", &["viewers", "ways", "whep"]),
        ("relay", &[]),
    ]),
    ("lab", &[
        ("plot", &[]),
        ("statistics", &[]),
        ("timestamp", &[]),
        ("adaptive", &["plot", "statistics"]),
        ("call", &["plot"]),
        ("machine", &[]),
        ("meter", &[]),
        ("chaos", &["machine", "meter", "plot", "timestamp"]),
        ("cluster", &["plot", "timestamp"]),
        ("condition", &[]),
        ("congestion", &["machine", "plot"]),
        ("data", &["machine", "plot", "statistics", "timestamp"]),
        ("ip_path", &[]),
        ("jitter", &["plot", "statistics", "timestamp"]),
        ("send", &["machine", "plot", "statistics", "timestamp"]),
        ("viewers", &["machine", "meter", "plot", "statistics", "timestamp"]),
        ("waterfall", &["plot"]),
    ]),
    ("quic", &[
        ("address_validation", &[]),
        ("congestion", &[]),
        ("dial_error", &[]),
        ("identity", &[]),
        ("endpoint", &["address_validation", "congestion", "dial_error", "identity"]),
        ("moq", &["address_validation", "congestion", "dial_error", "endpoint", "identity"]),
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
        ("transport_address", &[]),
        ("sdp", &["transport_address"]),
        ("srtp", &[]),
        ("dtls", &["sdp", "srtp"]),
        ("framing", &[]),
        ("ice", &["sdp", "transport_address"]),
        ("turn", &[]),
        ("session", &["demux", "dtls", "ice", "sdp", "srtp", "transport_address", "turn"]),
    ]),
    ("voice", &[
        ("codec", &[]),
        ("playout_buffer", &["codec"]),
        ("pitch", &["playout_buffer"]),
        ("stretch", &["pitch", "playout_buffer"]),
        ("expand", &["codec", "pitch", "playout_buffer", "stretch"]),
        ("stamps", &[]),
        ("far", &["stamps"]),
        ("jitter", &["codec", "expand", "pitch", "playout_buffer", "stamps", "stretch"]),
        ("limit", &[]),
        ("meter", &["pitch"]),
        ("mix", &[]),
        ("opus", &["codec"]),
        ("resample", &[]),
        ("listener", &["codec", "jitter", "limit", "meter", "mix", "opus", "resample", "stamps"]),
        ("marker", &[]),
        ("player", &["codec", "expand", "pitch", "playout_buffer", "stretch"]),
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

/// Files that use each other in a circle, and why they may.
#[rustfmt::skip]
pub(super) const CIRCLES: &[Circle] = &[];

/// Files above 500 lines. No file may be added; whoever divides one removes it.
pub(super) const LONG_FILES: &[&str] = &[
    "crates/congestion/src/bbr/mod.rs",
    "crates/messages/src/session/tests.rs",
    "crates/sctp/src/chunk/tests.rs",
    "crates/sim/src/link/tests.rs",
    "crates/voice/src/far/tests.rs",
    "tests/rtsp_players.rs",
    "xtask/src/bench_peers/mod.rs",
];

/// Structs above 20 fields, by their files.
#[rustfmt::skip]
pub(super) const WIDE_STRUCTS: &[(&str, &str)] = &[
    // One field for each column of the table.
    ("crates/lab/src/adaptive/figures.rs", "Figures"),
    ("crates/lab/src/congestion/session/measured.rs", "Measured"),
    ("crates/lab/src/viewers/step.rs", "Step"),
    ("crates/sctp/src/association/mod.rs", "Association"),
    ("crates/sctp/src/report.rs", "Report"),
    ("crates/voice/src/jitter/mod.rs", "Buffer"),
    // One field for each section of the configuration, as people write them.
    ("crates/config/src/lib.rs", "Config"),
    // One field for each key of a source, as people write them.
    ("crates/config/src/sources.rs", "SourceKeys"),
    ("crates/webrtc/src/session/sender.rs", "Sender"),
    ("src/bench/data.rs", "Options"),
    ("src/bench/viewers.rs", "Options"),
];

/// Files of the server that start blocking work without a pool, and why nobody can leave theirs behind.
#[rustfmt::skip]
pub(super) const BLOCKING: &[(&str, &str)] = &[
    ("access/auth/jwt/key_ring.rs", "the one task that reads keys waits for each reading"),
    ("access/tls/acme/kept.rs", "the one task that renews certificates waits for each file"),
    ("access/tls/lan/mod.rs", "the one task that renews certificates waits for each leaf"),
    ("ingest/library/inspection.rs", "one task reads one file at a time, and is never canceled"),
    ("ingest/source_parts.rs", "joins the one thread of a source"),
    ("runtime/blocking_pool.rs", "the pool"),
    ("server/reload/mod.rs", "the one task that looks at files waits for each look"),
    ("server/server/mod.rs", "joins the threads at the end"),
    ("server/sweep.rs", "work that does nothing while another thread does it"),
    ("server/talk/transcoding.rs", "lasts as long as a voice, of which a camera has one"),
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
    ("crates/ingest/src/", "PictureLossIndication", "RFC 4585"),
    ("crates/webrtc/src/session/", "PictureLossIndication", "RFC 4585"),
    ("tests/", "sound", "sound cards and sound servers"),
    ("xtask/src/test/mod.rs", "sound", "sound cards and sound servers"),
];
