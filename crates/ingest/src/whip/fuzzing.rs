//! Driver of the fuzz target `whip`: authentic packets of a publisher, with any numbers, times,
//! layers and payloads, become a stream.
//!
//! ```text
//! input ─► Packet ─► Contribution ─► hub ─► reader
//! input ─► time, requests for keyframes ──┘
//! ```

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use glassline_hub::{Hub, Limits, StreamName};
use glassline_media::WallClock;
use glassline_rtp::Packet;
use glassline_rtp::receive::TrackPipeline;
use glassline_runtime::SessionId;
use glassline_webrtc::{
    AcceptConfig, Certificate, LayerIndex, ReceiverIndex, Secrets, Session, TransportAddress,
    sdp::DEPENDENCY_DESCRIPTOR_URI,
};

use super::{Contribution, Reservations, WhipCounters};

/// Id of the dependency descriptor in the offers.
pub(super) const DESCRIPTOR_ID: u8 = 5;

/// Most operations of one input.
const STEPS_MAX: usize = 400;
/// Most bytes that the stream may keep: far more than an input has.
const KEPT_MAX: usize = 8 << 20;

static CERTIFICATE: LazyLock<Arc<Certificate>> =
    LazyLock::new(|| Arc::new(Certificate::generate().expect("a certificate")));

/// The video codecs of the offers, by the low bits of an input's first byte.
const CODECS: [&str; 5] = ["H264", "H265", "VP8", "VP9", "AV1"];

/// Runs the operations that `bytes` describe.
///
/// # Panics
/// The contribution panics, or an invariant does not hold: one stream at most, bounded memory, one
/// keyframe request a second.
pub fn whip(bytes: &[u8]) {
    let Some((&options, mut rest)) = bytes.split_first() else {
        return;
    };
    let start = Instant::now();
    let (hub, counters) = (
        Arc::new(Hub::new(Limits::default())),
        WhipCounters::default(),
    );
    let name = StreamName::parse("studio").expect("good");
    let reservations = Arc::new(Reservations::new(start));
    let reservation = reservations.reserve(name, SessionId::new("fuzz"), false, start);
    let mut session = session(options, start);
    let reservation = reservation.expect("free");
    let contribution = Contribution::new(&session, Arc::clone(&hub), reservation, false, start);
    let mut contribution = contribution.expect("formats that are supported");
    contribution.start(start);
    let mut now = start;
    for _ in 0..STEPS_MAX {
        let Some((&[operation, wait, count], after)) = rest.split_first_chunk::<3>() else {
            break;
        };
        let (piece, after) = after.split_at(usize::from(count).min(after.len()));
        rest = after;
        now += Duration::from_millis(u64::from(wait) * u64::from(operation >> 6));
        if operation & 0x20 != 0
            && let Some(stream) = hub.stream("studio")
        {
            stream.request_keyframe();
        }
        if let Ok(packet) = Packet::parse(piece) {
            let receiver = ReceiverIndex(usize::from(operation & 1));
            let layer = LayerIndex(usize::from(operation >> 1 & 3));
            contribution.take(&session, (receiver, layer), &packet, now, &counters);
        }
        if contribution.serve(&mut session, now, &counters).is_err() {
            break;
        }
        assert!(contribution.deadline().is_some_and(|at| at > now));
        let kept: usize = hub.streams().iter().map(|it| it.memory_bytes()).sum();
        assert!(kept < KEPT_MAX, "{kept} bytes are kept");
    }
    assert!(hub.streams().len() <= 1);
    contribution.leave("the input ended".to_owned());
    drop(contribution);
    assert!(hub.streams().iter().all(|it| it.state().as_str() != "live"));
}

/// Creates a session that answered the offer which `options` choose.
pub(super) fn session(options: u8, now: Instant) -> Session {
    let codec = CODECS[usize::from(options & 7) % CODECS.len()];
    let simulcast = if options & 8 == 0 {
        ""
    } else {
        "a=rid:a send\r\na=rid:b send\r\na=rid:c send\r\na=simulcast:send a;b;c\r\n"
    };
    let feedback = if options & 16 == 0 {
        ""
    } else {
        "a=rtcp-fb:96 nack\r\na=rtcp-fb:96 nack pli\r\n"
    };
    let fingerprint = CERTIFICATE.fingerprint();
    let offer = format!(
        "v=0\r\no=- 1 1 IN IP4 0.0.0.0\r\ns=-\r\nt=0 0\r\na=group:BUNDLE 0 1\r\n\
         a=extmap-allow-mixed\r\na=ice-ufrag:fuzz\r\na=ice-pwd:0123456789abcdef012345\r\na=setup:actpass\r\n\
         a=fingerprint:{fingerprint}\r\n\
         m=audio 9 UDP/TLS/RTP/SAVPF 111\r\nc=IN IP4 0.0.0.0\r\na=mid:0\r\na=sendonly\r\n\
         a=rtcp-mux\r\na=rtpmap:111 opus/48000/2\r\n\
         m=video 9 UDP/TLS/RTP/SAVPF 96 98\r\nc=IN IP4 0.0.0.0\r\na=mid:1\r\na=sendonly\r\n\
         a=extmap:{DESCRIPTOR_ID} {DEPENDENCY_DESCRIPTOR_URI}\r\n\
         a=rtcp-mux\r\na=rtpmap:96 {codec}/90000\r\na=rtpmap:98 VP8/90000\r\na=fmtp:96 packetization-mode=1\r\n\
         {feedback}{simulcast}"
    );
    let secrets = Secrets::expand(&[1; 32]);
    let wall = WallClock::new(now, Duration::from_secs(1_700_000_000));
    let config = AcceptConfig {
        local: vec![TransportAddress::udp(([192, 0, 2, 1], 8189).into())],
        ..AcceptConfig::new(Arc::clone(&CERTIFICATE), secrets, wall)
    };
    let accepted = Session::accept_publication(config, &offer, TrackPipeline::REPAIR_MAX, now);
    accepted.expect("a good offer").0
}
