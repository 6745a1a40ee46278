//! The one transport that all accepted lines share.

use super::error::NegotiationError;
use crate::sdp::attribute::{Attribute, Setup};
use crate::sdp::attributes::Attributes;
use crate::sdp::description::SessionDescription;
use crate::sdp::transport::{MissingAttribute, RemoteTransport};

/// Returns the accepted tags in the order of the offered bundle (RFC 9143 §7.3).
pub(super) fn bundle(
    offer: &SessionDescription,
    accepted: &[usize],
) -> Result<Vec<String>, NegotiationError> {
    let tag = |line: usize| offer.media.get(line)?.attributes.mid();
    let (first, others) = accepted.split_first().expect("something is accepted");
    let offered = tag(*first).and_then(|mid| offer.bundle_of(mid));
    let Some(offered) = offered else {
        return match others.first() {
            None => Ok(Vec::new()),
            Some(_) => Err(NegotiationError::NoBundle {
                media: offer.media_name(*first),
            }),
        };
    };
    let outside = |line: &&usize| tag(**line).is_none_or(|mid| !offered.iter().any(|it| it == mid));
    if let Some(line) = others.iter().find(outside) {
        return Err(NegotiationError::NoBundle {
            media: offer.media_name(*line),
        });
    }
    let mut bundle: Vec<String> = Vec::new();
    for mid in offered {
        let taken = accepted.iter().any(|&line| tag(line) == Some(mid));
        if taken && !bundle.contains(mid) {
            bundle.push(mid.clone());
        }
    }
    Ok(bundle)
}

/// Returns the sections that describe the transport, the most specific first.
///
/// The tag of the bundle in the answer may differ from the offer's, which we may reject; but a
/// `bundle-only` line refers to the offer's tag (RFC 9143 §7.2.1).
pub(super) fn transport_sections<'a>(
    offer: &'a SessionDescription,
    accepted: &[usize],
    bundle: &[String],
) -> Vec<&'a Attributes> {
    let section = |mid: &String| offer.by_mid(mid).map(|media| &media.attributes);
    let ours = match bundle.first() {
        Some(mid) => section(mid),
        None => accepted
            .first()
            .and_then(|&line| offer.media.get(line))
            .map(|media| &media.attributes),
    };
    let theirs = bundle
        .first()
        .and_then(|mid| offer.bundle_of(mid)?.first())
        .and_then(section);
    let described = |section: &&Attributes| section.credentials().is_some();
    let chosen = ours.filter(described).or(theirs.filter(described)).or(ours);
    chosen.into_iter().chain([&offer.attributes]).collect()
}

pub(super) fn remote_transport(
    offer: &SessionDescription,
    accepted: &[usize],
    sections: &[&Attributes],
) -> Result<RemoteTransport, NegotiationError> {
    let bundled = sections.iter().any(|it| it.has(&Attribute::RtcpMux));
    let muxed = |line: &&usize| {
        let media = offer.media.get(**line);
        bundled
            || media
                .is_some_and(|media| !media.is_rtp() || media.attributes.has(&Attribute::RtcpMux))
    };
    if let Some(&line) = accepted.iter().find(|line| !muxed(line)) {
        return Err(NegotiationError::NoRtcpMux {
            media: offer.media_name(line),
        });
    }
    let media = || offer.media_name(accepted.first().copied().unwrap_or_default());
    let remote = RemoteTransport::read(sections).map_err(|missing| match missing {
        MissingAttribute::Credentials => NegotiationError::NoIce { media: media() },
        MissingAttribute::Fingerprint => NegotiationError::NoFingerprint { media: media() },
    })?;
    if remote.ice_lite {
        return Err(NegotiationError::BothIceLite);
    }
    match remote.setup {
        Some(setup @ Setup::HoldConn) => Err(NegotiationError::DtlsRole {
            media: media(),
            setup,
        }),
        _ => Ok(remote),
    }
}
