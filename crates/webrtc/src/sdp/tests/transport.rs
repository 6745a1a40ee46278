use super::super::*;
use super::{
    CHROMIUM, FIREFOX, local, negotiate, negotiated, parse, refused, tracks, video, without,
};

#[test]
fn what_the_transport_lacks_is_named() {
    let line = "m= line 1 (video, mid 0)".to_owned();
    assert_eq!(
        refused(&without(CHROMIUM, "a=rtcp-mux")),
        NegotiationError::NoRtcpMux {
            media: line.clone()
        }
    );
    assert_eq!(
        refused(&without(CHROMIUM, "a=fingerprint")),
        NegotiationError::NoFingerprint {
            media: line.clone()
        }
    );
    assert_eq!(
        refused(&without(CHROMIUM, "a=ice-pwd")),
        NegotiationError::NoIce {
            media: line.clone()
        }
    );
    assert_eq!(
        refused(&without(CHROMIUM, "a=group")),
        NegotiationError::NoBundle {
            media: line.clone()
        }
    );
    assert_eq!(
        refused(&CHROMIUM.replace("BUNDLE 0 1", "BUNDLE 0")),
        NegotiationError::NoBundle {
            media: "m= line 2 (audio, mid 1)".to_owned()
        }
    );
    assert_eq!(
        refused(&CHROMIUM.replace("a=extmap-allow-mixed", "a=ice-lite")),
        NegotiationError::BothIceLite
    );
    assert_eq!(
        refused(&CHROMIUM.replace("setup:actpass", "setup:holdconn")),
        NegotiationError::DtlsRole {
            media: line.clone(),
            setup: Setup::HoldConn
        }
    );
    assert_eq!(
        refused(&CHROMIUM.replace("UDP/TLS/RTP/SAVPF", "RTP/AVP")),
        NegotiationError::NoSecureTransport {
            media: line,
            protocol: "RTP/AVP".to_owned()
        }
    );
    let sha1 = CHROMIUM.replace("fingerprint:sha-256", "fingerprint:md-17");
    assert!(matches!(
        refused(&sha1),
        NegotiationError::NoFingerprint { .. }
    ));
}

#[test]
fn a_lone_line_needs_neither_bundle_nor_mid() {
    let bare = without(&without(&without(CHROMIUM, "a=group"), "a=mid"), "a=setup");
    let negotiated =
        negotiate(&parse(&bare), &[video([0x42, 0xc0, 31])], false).expect("acceptable");
    assert!(negotiated.bundle.is_empty());
    assert_eq!(negotiated.tracks[0].mid, "");
    let answer = answer(&negotiated, &local(1));
    assert!(!answer.contains("BUNDLE") && answer.contains("a=candidate:"));
}

#[test]
fn transport_at_session_level_is_read() {
    let negotiated = negotiated(FIREFOX);
    assert_eq!(negotiated.remote.fingerprints.len(), 1);
    assert!(negotiated.remote.trickle);
    let mut offer = parse(CHROMIUM);
    for media in &mut offer.media {
        let (transport, rest) = media.attributes.0.drain(..).partition(|it| {
            matches!(
                it,
                Attribute::IceUfrag(_) | Attribute::IcePwd(_) | Attribute::Setup(_)
            )
        });
        media.attributes.0 = rest;
        offer.attributes.0.extend::<Vec<_>>(transport);
    }
    assert!(negotiate(&offer, &tracks(), false).is_ok());
}
