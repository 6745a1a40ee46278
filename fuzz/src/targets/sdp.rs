//! Session descriptions: a description that parses is written and parsed again to the same
//! value; an offer that can be answered gives an answer to which our own client agrees; any
//! text may come as the answer to our offer, or as a fragment.

use glassline_media::{Codec, Kind, Ssrc, Track, VideoParameters};
use glassline_webrtc::Redundancy;
use glassline_webrtc::sdp::{
    AnswerOptions, DataParameters, Fingerprint, Fragment, IceCredentials, LocalDescription,
    Negotiated, OfferParameters, OfferedMedia, OpusOptions, SenderSsrc, SessionDescription, answer,
    apply_answer, negotiate, offer, restart_fragment,
};

pub(crate) fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(fragment) = Fragment::parse(text) {
        assert_eq!(Fragment::parse(&fragment.to_string()), Ok(fragment.clone()));
        let body = restart_fragment(&fragment, &credentials(), &[]);
        Fragment::parse(&body).expect("we wrote it");
    }
    let ours = offer(&OfferParameters {
        data: Some(DataParameters {
            port: 5000,
            max_message_size: None,
        }),
        media: vec![
            OfferedMedia::Receive(Kind::Video),
            OfferedMedia::Receive(Kind::Audio),
            OfferedMedia::Send {
                codec: Codec::Opus,
                channels: 1,
                sender: SenderSsrc {
                    ssrc: Ssrc(9),
                    rtx: None,
                    fec: None,
                },
                receive: true,
            },
        ],
        opus: OpusOptions {
            redundancy: Redundancy::Always,
            ..OpusOptions::default()
        },
        fec: true,
        cname: "us".to_owned(),
        credentials: credentials(),
        fingerprint: Fingerprint::sha256([1; 32]),
        candidates: Vec::new(),
        relayed: Vec::new(),
        session_id: 1,
    });
    let _ = apply_answer(&ours, text);
    let description = match SessionDescription::parse(text) {
        Ok(description) => description,
        Err(error) => {
            assert!((1..=text.split('\n').count() + 1).contains(&error.line));
            return;
        }
    };
    let written = description.to_string();
    assert_eq!(SessionDescription::parse(&written), Ok(description.clone()));
    answered(&description);
}

fn answered(offer: &SessionDescription) {
    let tracks = [
        Track::h264(VideoParameters::default()),
        Track::audio(Codec::Opus, 2),
        Track::audio(Codec::Pcmu, 1),
    ];
    for receive in [&[][..], &[Kind::Audio, Kind::Video]] {
        let wanted = AnswerOptions {
            tracks: &tracks,
            receive,
            publication: false,
            data: true,
            opus: OpusOptions {
                redundancy: Redundancy::Always,
                ..OpusOptions::default()
            },
        };
        if let Ok(negotiated) = negotiate(offer, &wanted) {
            agreed(offer, &negotiated);
        }
    }
}

fn agreed(offer: &SessionDescription, negotiated: &Negotiated) {
    let local = LocalDescription {
        credentials: credentials(),
        fingerprint: Fingerprint::sha256([2; 32]),
        candidates: vec![std::net::SocketAddr::from(([192, 0, 2, 7], 8189)).into()],
        session_id: 1,
        session_version: 1,
        senders: vec![
            SenderSsrc {
                ssrc: Ssrc(1),
                rtx: Some(Ssrc(2)),
                fec: Some(Ssrc(3)),
            };
            negotiated.tracks.len()
        ],
        cname: "cname".to_owned(),
        stream_id: "stream".to_owned(),
        data: DataParameters {
            port: 5000,
            max_message_size: Some(65536),
        },
    };
    let text = answer(negotiated, &local);
    let agreed = apply_answer(offer, &text).expect("we answered it");
    assert_eq!(agreed.media.len(), negotiated.tracks.len());
    assert_eq!(agreed.tracks.len(), negotiated.media.len());
    assert_eq!(agreed.data.is_some(), negotiated.data.is_some());
}

fn credentials() -> IceCredentials {
    IceCredentials {
        ufrag: "ufrag".to_owned(),
        pwd: "aPasswordOfTwentyTwoCh".to_owned(),
    }
}
