//! Parts of the code whose tests are measured.

/// Least percentage of mutants that the tests of a core must notice.
const CORES: u32 = 92;
/// Least percentage for the modules of the server that touch every packet.
const HOT_PATHS: u32 = 85;

/// A crate, or a module of one, whose tests are measured.
pub(super) struct Part {
    pub(super) name: &'static str,
    pub(super) package: &'static str,
    /// Files of the module; `None` for the whole crate.
    pub(super) files: Option<&'static str>,
    /// Least percentage of mutants that tests must notice.
    pub(super) least: u32,
    /// Package whose integration tests exercise the part.
    pub(super) tested_by: &'static str,
    /// Modules of the integration tests that run where the tests beside the code notice nothing.
    /// Empty for none.
    pub(super) integration: &'static [&'static str],
}

const fn core(name: &'static str, package: &'static str) -> Part {
    Part {
        name,
        package,
        files: None,
        least: CORES,
        tested_by: package,
        integration: &[],
    }
}

/// The crate with the integration tests of everything that serves clients.
const SERVER: &str = "glassline-server";

const fn hot_path(
    name: &'static str,
    package: &'static str,
    files: &'static str,
    integration: &'static [&'static str],
) -> Part {
    Part {
        name,
        package,
        files: Some(files),
        least: HOT_PATHS,
        tested_by: SERVER,
        integration,
    }
}

/// All parts, in the order of the table.
pub(super) const PARTS: [Part; 17] = [
    core("hub", "glassline-hub"),
    core("media", "glassline-media"),
    core("rtp", "glassline-rtp"),
    core("rtsp", "glassline-rtsp"),
    core("demux", "glassline-demux"),
    core("webrtc", "glassline-webrtc"),
    core("sctp", "glassline-sctp"),
    core("congestion", "glassline-congestion"),
    core("voice", "glassline-voice"),
    core("transcode", "glassline-transcode"),
    Part {
        integration: &["ownership::", "placing::"],
        ..core("cluster", "glassline-cluster")
    },
    core("sim", "glassline-sim"),
    hot_path(
        "egress/webrtc",
        "glassline-egress",
        "crates/egress/src/webrtc/**",
        &["media::", "loss::", "pacing::", "reordered::", "latency::"],
    ),
    hot_path(
        "egress/rtsp",
        "glassline-egress",
        "crates/egress/src/rtsp/**",
        &["rtsp::", "srtp::", "multicast::", "track_changes::"],
    ),
    hot_path(
        "server/sessions/shard",
        SERVER,
        "crates/server/src/sessions/shard/**",
        &[
            "media::",
            "shards::",
            "roaming::",
            "restart::",
            "handshake::",
            "hijack::",
            "data::",
            "panics::",
            "latency::",
            "abuse::",
            "room_rights::",
            "track_changes::",
        ],
    ),
    hot_path(
        "runtime",
        "glassline-runtime",
        "crates/runtime/src/**",
        &["panics::", "connections::", "abuse::"],
    ),
    hot_path(
        "ingest",
        "glassline-ingest",
        "crates/ingest/src/**",
        &[
            "source::",
            "media::",
            "track_changes::",
            "whip::",
            "publishing::",
            "quic::",
            "rtsp::publishers::",
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process;

    #[test]
    fn every_module_that_is_measured_exists() {
        for part in &PARTS {
            let folder = match part.files {
                Some(files) => files.trim_end_matches("/**").to_owned(),
                None => format!("crates/{}", part.name),
            };
            assert!(process::root().join(&folder).is_dir(), "{folder}");
        }
    }
}
