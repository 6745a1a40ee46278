//! Two sessions in memory, a server's and its viewer's, which know each other's offer and answer
//! and have not shaken hands yet.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_media::{Codec, Track, VideoParameters, WallClock};
use glassline_webrtc::{
    AcceptConfig, Certificate, DialConfig, Kinds, ReceiveMode, Secrets, Session,
};

pub(crate) const SERVER: SocketAddr = address(1, 8189);
pub(crate) const CLIENT: SocketAddr = address(2, 40_000);

const fn address(host: u8, port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, host)), port)
}

/// Makes the sessions of pair `number`; their secrets follow from the number.
pub(crate) fn pair(
    [ours, theirs]: &[Arc<Certificate>; 2],
    number: usize,
    now: Instant,
) -> Result<(Session, Session), String> {
    let wall = WallClock::new(now, Duration::from_secs(1_700_000_000));
    let secrets = |end: u8| {
        let mut seed = [end; 32];
        seed[..8].copy_from_slice(&number.to_be_bytes());
        Secrets::expand(&seed)
    };
    let dialled = DialConfig {
        local: vec![CLIENT],
        receive: Kinds::ALL,
        mode: ReceiveMode::CountOnly,
        ..DialConfig::new(Arc::clone(theirs), secrets(1), wall)
    };
    let (mut client, offer) = Session::dial(dialled, now);
    let tracks = [
        Track::h264(VideoParameters {
            sps: vec![0x67, 0x42, 0xc0, 0x1f, 0xda],
            ..VideoParameters::default()
        }),
        Track::audio(Codec::Opus, 2),
    ];
    let accepted = AcceptConfig {
        local: vec![SERVER.into()],
        tracks: &tracks,
        ..AcceptConfig::new(Arc::clone(ours), secrets(2), wall)
    };
    let accepted = Session::accept(accepted, &offer, now);
    let (server, answer) = accepted.map_err(|error| error.to_string())?;
    let answered = client.set_answer(&answer, now);
    answered.map_err(|error| error.to_string())?;
    Ok((server, client))
}
