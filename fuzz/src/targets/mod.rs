//! All targets, each a file with a function `run` that panics on an input that breaks what the
//! target checks.
//!
//! Those under `cfg(fuzzing)` run drivers in other crates, which only such a build has.

mod annexb;
#[cfg(fuzzing)]
mod assembler;
mod avi;
mod cluster;
mod configuration;
mod dependency_descriptor;
mod dtls_record;
mod elementary;
#[cfg(fuzzing)]
mod established;
#[cfg(fuzzing)]
mod first_packet;
mod flac;
mod flexfec;
mod flv;
mod framing;
mod h264;
mod h265;
mod hls;
mod hls_live;
mod ivf;
mod listener;
mod logs;
mod mkv;
mod moq;
mod mp4;
mod nats;
mod ogg;
#[cfg(fuzzing)]
mod onvif;
mod payload;
mod pipe;
mod population;
mod ps;
#[cfg(fuzzing)]
mod record;
mod recorded;
#[cfg(fuzzing)]
mod registry;
mod reports;
#[cfg(fuzzing)]
mod rights_answer;
mod rtcp;
mod rtp;
mod rtsp;
mod rtsp_server;
mod sctp_operations;
mod sctp_packet;
mod sdp;
#[cfg(fuzzing)]
mod server_messages;
mod session;
mod stamps;
mod stun;
#[cfg(fuzzing)]
mod token;
mod trace;
mod transcode;
mod ts;
mod tunnel;
#[cfg(fuzzing)]
mod turn;
#[cfg(fuzzing)]
mod units;
mod users;
mod video;
mod voice;
#[cfg(fuzzing)]
mod webtransport;
#[cfg(fuzzing)]
mod whip;

use crate::cost::Cost;

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub(crate) name: &'static str,
    /// Function that reads one input, and panics where the target finds a fault.
    run: fn(&[u8]),
}

impl Target {
    /// Runs the target on an input.
    ///
    /// # Panics
    /// If the input breaks what the target checks, or costs more than its bytes allow.
    pub fn check(&self, bytes: &[u8]) {
        Cost::of(self.name).check(bytes, self.run);
    }
}

macro_rules! table {
    ($($(#[$when:meta])? $name:ident)*) => {
        &[$($(#[$when])? Target {
            name: stringify!($name),
            run: $name::run,
        },)*]
    };
}

/// All targets by name.
pub(crate) const TARGETS: &[Target] = table! {
    annexb
    #[cfg(fuzzing)]
    assembler
    avi
    cluster
    configuration
    dependency_descriptor
    dtls_record
    elementary
    #[cfg(fuzzing)]
    established
    #[cfg(fuzzing)]
    first_packet
    flac
    flexfec
    flv
    framing
    h264
    h265
    hls
    hls_live
    ivf
    listener
    logs
    mkv
    moq
    mp4
    nats
    ogg
    #[cfg(fuzzing)]
    onvif
    payload
    pipe
    population
    ps
    #[cfg(fuzzing)]
    record
    recorded
    #[cfg(fuzzing)]
    registry
    reports
    #[cfg(fuzzing)]
    rights_answer
    rtcp
    rtp
    rtsp
    rtsp_server
    sctp_operations
    sctp_packet
    sdp
    #[cfg(fuzzing)]
    server_messages
    session
    stamps
    stun
    #[cfg(fuzzing)]
    token
    trace
    transcode
    ts
    tunnel
    #[cfg(fuzzing)]
    turn
    #[cfg(fuzzing)]
    units
    users
    video
    voice
    #[cfg(fuzzing)]
    webtransport
    #[cfg(fuzzing)]
    whip
};
