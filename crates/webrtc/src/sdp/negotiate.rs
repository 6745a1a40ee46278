use glassline_media::{Codec, Kind, Track};

use super::agree::{self, AgreedCodec, AgreedMedia};
use super::attribute::{Attribute, Direction, ExtensionMap, Setup};
use super::attributes::Attributes;
use super::data::{self, AgreedData};
use super::description::{MediaDescription, SessionDescription};
use super::format::{self, Format};
use super::opus::{self, OpusOptions};
use super::transport::{Missing, RemoteTransport};
use super::{ABS_SEND_TIME_URI, MID_URI, TRANSPORT_CC_URI};

/// What this end wants of a peer's offer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    /// What may be sent.
    pub tracks: &'a [Track],
    /// What is received, one `m=` line of each kind.
    pub receive: &'a [Kind],
    /// Data channels.
    pub data: bool,
    /// How Opus is to come, where it is received.
    pub opus: OpusOptions,
}

/// What we and the peer agree on when its offer is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// Our tracks that are sent, in the order they were given in; empty only if
    /// there is something to receive, or data.
    pub tracks: Vec<NegotiatedTrack>,
    /// What the peer sends; a line may be one of `tracks`, too.
    pub media: Vec<AgreedMedia>,
    /// Data channels, if both ends want them.
    pub data: Option<AgreedData>,
    /// The peer's end of the one transport.
    pub remote: RemoteTransport,
    /// Tags of the bundle in the answer, the one that carries the transport first;
    /// empty if a single `m=` line stands alone.
    pub bundle: Vec<String>,
    /// One per `m=` line of the offer, in its order.
    pub(super) lines: Vec<AnswerLine>,
}

/// One of our tracks that the peer takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NegotiatedTrack {
    /// Which of the tracks given to [`negotiate`]; of an answer, which of the `m=`
    /// lines on which our offer sends.
    pub track: usize,
    /// Which `m=` line, from 0.
    pub line: usize,
    /// Its tag; empty if the offer has none, which a lone `m=` line may.
    pub mid: String,
    /// The coding.
    pub codec: Codec,
    /// 0..=127, never 64..=95 (RFC 5761 §4).
    pub payload_type: u8,
    /// What the peer says of how it wants the coding: its `a=fmtp`, empty without one.
    pub parameters: String,
    /// Payload type of retransmissions (RFC 4588); only where NACK is agreed.
    pub rtx_payload_type: Option<u8>,
    /// Payload type of packets that repeat those before (RFC 2198); Opus only, and only
    /// where both ends want it.
    pub red_payload_type: Option<u8>,
    /// Header extensions that every packet of the track may carry.
    pub extensions: ExtensionIds,
    /// What feedback the peer sends.
    pub feedback: Feedback,
    /// RTCP may come without a leading report (RFC 5506).
    pub reduced_size_rtcp: bool,
}

/// Numbers of the agreed header extensions, 1..=14: the one-byte form suffices
/// (RFC 8285 §4.2). Together they take at most 20 bytes with their header.
///
/// A track with NACK but no RTX gets neither the transport-wide sequence number
/// nor the send time: its retransmissions repeat the packet byte for byte under the
/// same SRTP index, which is sound only if nothing in it changes with each sending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtensionIds {
    /// The `m=` line's tag.
    pub mid: Option<u8>,
    /// The transport-wide sequence number.
    pub transport_cc: Option<u8>,
    /// The send time; only where there is no transport-wide sequence number,
    /// since both serve the same estimate.
    pub abs_send_time: Option<u8>,
}

/// The RTCP feedback agreed for a payload type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feedback {
    /// Generic NACK (RFC 4585 §6.2.1).
    pub nack: bool,
    /// Picture loss indication (RFC 4585 §6.3.1).
    pub pli: bool,
    /// Full intra request (RFC 5104 §4.3.1).
    pub fir: bool,
    /// Transport-wide congestion control; only with its header extension.
    pub transport_cc: bool,
}

/// Why an offer cannot be answered with media. The peer's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NegotiationError {
    /// The codecs do not meet: HTTP 406 with what was offered.
    #[error("no {kind} codec in common: sent is {wanted}; offered is {}", list(.offered))]
    NoCodec {
        /// Which kind of track has no codec.
        kind: Kind,
        /// What we send.
        wanted: String,
        /// What the offer decodes, most wanted first, at most 32.
        offered: Vec<String>,
    },
    /// No track of ours is for WebRTC at all: the stream's fault.
    #[error("the stream has {has}, which browsers do not play; they take {BROWSERS_PLAY}")]
    NothingPlayable {
        /// Its tracks.
        has: String,
    },
    /// The picture is wanted, but browsers show pictures in the order they come in.
    #[error(
        "the stream's {codec} has B-frames, which browsers show in the wrong order; encode it \
         without (x264, x265: bframes=0) or watch it over RTSP"
    )]
    Reordered {
        /// Of the picture.
        codec: Codec,
    },
    /// No `m=` line takes any of our tracks.
    #[error("no m= line wants to receive {wanted}; offered is {}", list(.offered))]
    NoMedia {
        /// The kinds that we send.
        wanted: String,
        /// The `m=` lines with their direction.
        offered: Vec<String>,
    },
    /// There is nothing to send, and no `m=` line sends what would be received.
    #[error(
        "no m= line sends {wanted} in a coding that is received here; offered is {}",
        list(.offered)
    )]
    NothingSent {
        /// The kinds that we receive.
        wanted: String,
        /// The `m=` lines with their direction.
        offered: Vec<String>,
    },
    /// Nothing but data is wanted, and the offer has none.
    #[error(
        "no m= line for data channels (m=application with UDP/DTLS/SCTP webrtc-datachannel); \
         offered is {}", list(.offered)
    )]
    NoData {
        /// The `m=` lines.
        offered: Vec<String>,
    },
    /// Media in the clear.
    #[error("{media}: {protocol} is not encrypted; offer UDP/TLS/RTP/SAVPF")]
    NoSecureTransport {
        /// The `m=` line.
        media: String,
        /// Its protocol.
        protocol: String,
    },
    /// All media must share one transport.
    #[error("{media}: not in the a=group:BUNDLE of the others; offer all media in one bundle")]
    NoBundle {
        /// The first `m=` line outside.
        media: String,
    },
    /// RTCP on a port of its own.
    #[error("{media}: no a=rtcp-mux; RTP and RTCP must share the transport")]
    NoRtcpMux {
        /// The `m=` line.
        media: String,
    },
    /// Nothing to check the DTLS certificate against.
    #[error("{media}: no a=fingerprint by SHA-256, SHA-384 or SHA-512")]
    NoFingerprint {
        /// The `m=` line.
        media: String,
    },
    /// No ICE credentials.
    #[error("{media}: no a=ice-ufrag and a=ice-pwd")]
    NoIce {
        /// The `m=` line.
        media: String,
    },
    /// The peer is ICE-lite as we are, so nobody would send checks.
    #[error("a=ice-lite: this end is ICE-lite too, one must be a full agent")]
    BothIceLite,
    /// The peer insists on the role that we have.
    #[error("{media}: a=setup:{}; this end is the DTLS server, offer actpass or active", .setup.as_str())]
    DtlsRole {
        /// The `m=` line.
        media: String,
        /// What it says.
        setup: Setup,
    },
}

/// [`Codec::is_played_by_browsers`] in words.
const BROWSERS_PLAY: &str = "H.264, VP8, VP9, AV1, H.265, Opus and G.711";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AnswerLine {
    pub(super) kind: String,
    pub(super) protocol: String,
    /// To be repeated where the line is rejected.
    pub(super) format: String,
    pub(super) mid: Option<String>,
    /// `None` if rejected.
    pub(super) content: Option<Content>,
}

/// What is agreed for an `m=` line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Media(MediaLine),
    Data,
}

/// How the answer writes an accepted `m=` line of picture or sound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MediaLine {
    pub(super) direction: Direction,
    /// Index into [`Negotiated::tracks`], if we send on it.
    pub(super) track: Option<usize>,
    pub(super) codec: Codec,
    pub(super) payload_type: u8,
    pub(super) rtx_payload_type: Option<u8>,
    pub(super) red_payload_type: Option<u8>,
    pub(super) fmtp: Option<String>,
    pub(super) feedback: Feedback,
    pub(super) reduced_size_rtcp: bool,
    pub(super) extension_maps: Vec<ExtensionMap>,
}

/// Matches what this end wants to an offer; the answer is then written by
/// [`answer`](super::answer).
///
/// Each track goes to the first `m=` line of its kind that wants to receive, is
/// not yet taken and has an acceptable codec. What is received comes on the first line
/// of its kind that sends: one that a track was given, in that track's coding, or
/// another. All other lines are rejected. Sound
/// or picture may be left out by the offer, but video that is wanted and has no
/// codec in common is an error, and so is having nothing to send at all where nothing
/// is received. Tracks that
/// no browser plays are left out. Pictures out of order are refused where they are
/// wanted, rather than left out: sound alone would look like a fault of the viewer's.
/// An offer of data alone gets data alone, whatever there is to send.
///
/// # Errors
/// [`NegotiationError`].
pub fn negotiate(
    offer: &SessionDescription,
    wanted: &Wanted<'_>,
) -> Result<Negotiated, NegotiationError> {
    let mut sections = offer.media.iter().enumerate();
    let data = sections
        .find_map(|(line, media)| data::of(line, media))
        .filter(|_| wanted.data);
    let places = places(offer, wanted, data.is_some())?;
    let lines = places.iter().map(|place| place.line);
    let mut accepted: Vec<usize> = lines.chain(data.as_ref().map(|data| data.line)).collect();
    accepted.sort_unstable();
    let bundle = bundle(offer, &accepted)?;
    let sections = transport_sections(offer, &accepted, &bundle);
    let remote = remote_transport(offer, &accepted, &sections)?;
    let mut negotiated = Negotiated {
        tracks: Vec::new(),
        media: Vec::new(),
        data,
        remote,
        bundle,
        lines: offer.media.iter().map(AnswerLine::rejected).collect(),
    };
    let mut known = Vec::new();
    for place in places {
        negotiated.accept(offer, wanted, place, &mut known);
    }
    if let Some(data) = &negotiated.data {
        negotiated.lines[data.line].content = Some(Content::Data);
    }
    Ok(negotiated)
}

/// The lines of picture and sound that are accepted: none where the offer is of data
/// alone and data is wanted.
fn places(
    offer: &SessionDescription,
    wanted: &Wanted<'_>,
    has_data: bool,
) -> Result<Vec<Place>, NegotiationError> {
    let tracks = wanted.tracks;
    let nothing = tracks.is_empty() && wanted.receive.is_empty();
    if has_data && (nothing || !has_media(offer, wanted)) {
        return Ok(Vec::new());
    }
    if wanted.data && nothing {
        return Err(NegotiationError::NoData {
            offered: offered_lines(offer),
        });
    }
    let mut places = choose(offer, tracks);
    let received = receptions(offer, wanted.receive, &mut places);
    // A peer that only sends may do without what we have.
    if received == 0 && tracks.is_empty() {
        let kinds: Vec<&str> = wanted.receive.iter().map(|kind| kind.as_str()).collect();
        return Err(NegotiationError::NothingSent {
            wanted: kinds.join(" or "),
            offered: offered_lines(offer),
        });
    }
    if received == 0 {
        check_playable(offer, tracks)?;
        check_places(offer, tracks, &places)?;
    }
    Ok(places)
}

/// Some `m=` line wants to receive picture or sound, or sends what is received.
fn has_media(offer: &SessionDescription, wanted: &Wanted<'_>) -> bool {
    let kinds = [Kind::Video, Kind::Audio];
    let mut received = wanted.receive.iter();
    (0..offer.media.len()).any(|line| kinds.iter().any(|&kind| wants(offer, line, kind)))
        || received.any(|&kind| (0..offer.media.len()).any(|line| sends(offer, line, kind)))
}

fn offered_lines(offer: &SessionDescription) -> Vec<String> {
    (0..offer.media.len())
        .map(|line| format!("{}: {}", media_name(offer, line), state(offer, line)))
        .collect()
}

fn is_playable(track: &Track) -> bool {
    track.codec.is_played_by_browsers() && !track.video.reordered
}

fn check_playable(offer: &SessionDescription, tracks: &[Track]) -> Result<(), NegotiationError> {
    let mut pictures = tracks.iter().filter(|track| track.kind() == Kind::Video);
    let wanted = (0..offer.media.len()).any(|line| wants(offer, line, Kind::Video));
    let shown = pictures.clone().any(is_playable);
    let reordered = pictures.find(|it| it.video.reordered && it.codec.is_played_by_browsers());
    let sound = tracks.iter().any(is_playable);
    match reordered.filter(|_| !shown && (wanted || !sound)) {
        Some(track) => Err(NegotiationError::Reordered { codec: track.codec }),
        None if !sound && !shown => {
            let codecs: Vec<String> = tracks.iter().map(|it| it.codec.to_string()).collect();
            Err(NegotiationError::NothingPlayable { has: list(&codecs) })
        }
        None => Ok(()),
    }
}

/// An `m=` line of picture or sound, and what it is for.
struct Place {
    line: usize,
    /// Our track that is sent on it.
    track: Option<usize>,
    /// What the peer sends on it is received.
    receives: bool,
    format: Format,
}

fn choose(offer: &SessionDescription, tracks: &[Track]) -> Vec<Place> {
    let mut places: Vec<Place> = Vec::new();
    let playable = tracks.iter().enumerate().filter(|(_, it)| is_playable(it));
    for (index, track) in playable {
        let found = offer.media.iter().enumerate().find_map(|(line, media)| {
            let free = places.iter().all(|place| place.line != line);
            let format = (free && wants(offer, line, track.kind()) && media.is_secure_rtp())
                .then(|| format::choose(media, track))??;
            Some(Place {
                track: Some(index),
                line,
                receives: false,
                format,
            })
        });
        places.extend(found);
    }
    places
}

/// Finds a line for each kind that is received, among `places` or besides; how many.
fn receptions(offer: &SessionDescription, kinds: &[Kind], places: &mut Vec<Place>) -> usize {
    let mut count = 0;
    for &kind in kinds {
        let found = (0..offer.media.len()).find_map(|line| {
            if !sends(offer, line, kind) || !offer.media[line].is_secure_rtp() {
                return None;
            }
            match places.iter().position(|place| place.line == line) {
                Some(place) => Some((place, None)),
                None => {
                    let format = format::receivable(&offer.media[line])?;
                    Some((places.len(), Some((line, format))))
                }
            }
        });
        let Some((place, new)) = found else { continue };
        count += 1;
        match new {
            None => places[place].receives = true,
            Some((line, format)) => places.push(Place {
                line,
                track: None,
                receives: true,
                format,
            }),
        }
    }
    count
}

/// The `m=` line wants to receive this kind of media.
fn wants(offer: &SessionDescription, line: usize, kind: Kind) -> bool {
    offer.media.get(line).is_some_and(|media| {
        media.media_kind() == Some(kind) && !media.is_rejected() && offer.direction(line).receives()
    })
}

/// The `m=` line sends this kind of media.
fn sends(offer: &SessionDescription, line: usize, kind: Kind) -> bool {
    offer.media.get(line).is_some_and(|media| {
        media.media_kind() == Some(kind) && !media.is_rejected() && offer.direction(line).sends()
    })
}

fn check_places(
    offer: &SessionDescription,
    tracks: &[Track],
    places: &[Place],
) -> Result<(), NegotiationError> {
    let sent = |kind| {
        let mut chosen = places.iter().filter_map(|it| tracks.get(it.track?));
        chosen.any(|track| track.kind() == kind)
    };
    for kind in [Kind::Video, Kind::Audio] {
        let mut ours = tracks.iter().filter(|track| is_playable(track));
        let Some(track) = ours.find(|track| track.kind() == kind) else {
            continue;
        };
        let mut wanting = (0..offer.media.len()).filter(|&line| wants(offer, line, kind));
        let needed = kind == Kind::Video || places.is_empty();
        let Some(line) = wanting.next().filter(|_| needed && !sent(kind)) else {
            continue;
        };
        return Err(match offer.media.get(line) {
            Some(media) if !media.is_secure_rtp() => NegotiationError::NoSecureTransport {
                media: media_name(offer, line),
                protocol: media.protocol.clone(),
            },
            _ => NegotiationError::NoCodec {
                kind,
                wanted: format::wanted(track),
                offered: format::offered(offer.media.iter(), kind),
            },
        });
    }
    if places.is_empty() {
        let playable = tracks.iter().filter(|track| is_playable(track));
        let mut kinds: Vec<&str> = playable.map(|track| track.kind().as_str()).collect();
        kinds.dedup();
        return Err(NegotiationError::NoMedia {
            wanted: kinds.join(" or "),
            offered: offered_lines(offer),
        });
    }
    Ok(())
}

fn state(offer: &SessionDescription, line: usize) -> &'static str {
    match offer.media.get(line) {
        Some(media) if media.is_rejected() => "port 0",
        _ => offer.direction(line).as_str(),
    }
}

/// The accepted tags in the offered bundle's order; RFC 9143 §7.3.
fn bundle(offer: &SessionDescription, accepted: &[usize]) -> Result<Vec<String>, NegotiationError> {
    let tag = |line: usize| offer.media.get(line)?.attributes.mid();
    let (first, others) = accepted.split_first().expect("something is accepted");
    let offered = tag(*first).and_then(|mid| offer.bundle_of(mid));
    let Some(offered) = offered else {
        return match others.first() {
            None => Ok(Vec::new()),
            Some(_) => Err(NegotiationError::NoBundle {
                media: media_name(offer, *first),
            }),
        };
    };
    let outside = |line: &&usize| tag(**line).is_none_or(|mid| !offered.iter().any(|it| it == mid));
    if let Some(line) = others.iter().find(outside) {
        return Err(NegotiationError::NoBundle {
            media: media_name(offer, *line),
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

/// The sections that describe the transport, most telling first.
///
/// The bundle's tag in the answer may be another than in the offer, whose tag we
/// may reject; but a `bundle-only` line refers to the offer's tag (RFC 9143 §7.2.1).
fn transport_sections<'a>(
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

fn remote_transport(
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
            media: media_name(offer, line),
        });
    }
    let media = || media_name(offer, accepted.first().copied().unwrap_or_default());
    let remote = RemoteTransport::read(sections).map_err(|missing| match missing {
        Missing::Credentials => NegotiationError::NoIce { media: media() },
        Missing::Fingerprint => NegotiationError::NoFingerprint { media: media() },
    })?;
    if remote.ice_lite {
        return Err(NegotiationError::BothIceLite);
    }
    match remote.setup {
        Some(setup @ (Setup::Passive | Setup::HoldConn)) => Err(NegotiationError::DtlsRole {
            media: media(),
            setup,
        }),
        _ => Ok(remote),
    }
}

impl AnswerLine {
    fn rejected(media: &MediaDescription) -> Self {
        Self {
            kind: media.kind.clone(),
            protocol: media.protocol.clone(),
            format: media.formats.first().cloned().unwrap_or_default(),
            mid: media.attributes.mid().map(str::to_owned),
            content: None,
        }
    }
}

impl Negotiated {
    /// Takes an `m=` line of picture or sound.
    fn accept(
        &mut self,
        offer: &SessionDescription,
        wanted: &Wanted<'_>,
        place: Place,
        known: &mut Vec<(u16, String)>,
    ) {
        let media = &offer.media[place.line];
        let mut format = place.format;
        let wants = wanted.opus.redundancy;
        let red = opus::redundancy_of(media, format.payload_type)
            .filter(|_| format.codec == Codec::Opus)
            .filter(|red| wants.accepts(media, *red, format.payload_type));
        if place.receives && format.codec == Codec::Opus {
            let channels = place.track.map(|track| wanted.tracks[track].channels);
            format.fmtp = Some(opus::wanted(wanted.opus, channels));
        }
        let has = |kind| media.attributes.has_feedback(format.payload_type, kind);
        let nack = has("nack");
        let rtx_payload_type = format.rtx_payload_type.filter(|_| nack);
        let per_sending = !nack || rtx_payload_type.is_some();
        let (extensions, extension_maps) = extensions(offer, media, per_sending, known);
        let line = MediaLine {
            direction: match (place.track, place.receives) {
                (Some(_), true) => Direction::SendRecv,
                (Some(_), false) => Direction::SendOnly,
                (None, _) => Direction::RecvOnly,
            },
            track: place.track.map(|_| self.tracks.len()),
            codec: format.codec,
            payload_type: format.payload_type,
            rtx_payload_type,
            red_payload_type: red,
            fmtp: format.fmtp,
            feedback: Feedback {
                nack,
                pli: has("nack pli"),
                fir: has("ccm fir"),
                transport_cc: has("transport-cc") && extensions.transport_cc.is_some(),
            },
            reduced_size_rtcp: media.attributes.has(&Attribute::RtcpReducedSize),
            extension_maps,
        };
        if let Some(track) = place.track {
            let sent = line.track(offer, place.line, track, extensions);
            self.tracks.push(sent);
        }
        if place.receives {
            self.media
                .push(line.reception(offer, place.line, extensions));
        }
        self.lines[place.line].content = Some(Content::Media(line));
    }
}

impl MediaLine {
    /// What we send on it.
    fn track(
        &self,
        offer: &SessionDescription,
        line: usize,
        track: usize,
        extensions: ExtensionIds,
    ) -> NegotiatedTrack {
        let attributes = &offer.media[line].attributes;
        NegotiatedTrack {
            track,
            line,
            mid: attributes.mid().unwrap_or_default().to_owned(),
            codec: self.codec,
            payload_type: self.payload_type,
            parameters: parameters(attributes, self.payload_type),
            rtx_payload_type: self.rtx_payload_type,
            red_payload_type: self.red_payload_type,
            extensions,
            feedback: self.feedback,
            reduced_size_rtcp: self.reduced_size_rtcp,
        }
    }

    /// What the peer sends on it.
    fn reception(
        &self,
        offer: &SessionDescription,
        line: usize,
        extensions: ExtensionIds,
    ) -> AgreedMedia {
        let attributes = &offer.media[line].attributes;
        let (ssrc, rtx_ssrc) = agree::sources(attributes);
        AgreedMedia {
            line,
            mid: attributes.mid().unwrap_or_default().to_owned(),
            kind: self.codec.kind(),
            codecs: vec![AgreedCodec {
                payload_type: self.payload_type,
                codec: self.codec,
                parameters: parameters(attributes, self.payload_type),
                rtx_payload_type: self.rtx_payload_type,
                red_payload_type: self.red_payload_type,
                feedback: self.feedback,
            }],
            ssrc,
            rtx_ssrc,
            stream_id: attributes.stream_id().cloned(),
            extensions,
            reduced_size_rtcp: self.reduced_size_rtcp,
        }
    }
}

/// The peer's `a=fmtp` of a payload type.
pub(super) fn parameters(attributes: &Attributes, payload_type: u8) -> String {
    let fmtp = attributes.fmtp(payload_type);
    fmtp.map_or_else(String::new, |it| it.parameters.clone())
}

/// Header extensions of an accepted line, and how the answer writes them.
///
/// `known` holds what the bundle's other lines gave: one number has one meaning in
/// a bundle (RFC 9143 §7.1), so a line that differs goes without.
fn extensions(
    offer: &SessionDescription,
    media: &MediaDescription,
    per_sending: bool,
    known: &mut Vec<(u16, String)>,
) -> (ExtensionIds, Vec<ExtensionMap>) {
    let mut maps = Vec::new();
    let mut accept = |uri: &str| {
        let here = media.attributes.extension_maps();
        let map = here
            .chain(offer.attributes.extension_maps())
            .find(|map| map.uri == uri)
            .filter(|map| {
                (1..=14).contains(&map.id) && map.direction.is_none_or(Direction::receives)
            })
            .filter(|map| {
                let mut same_id = known.iter().filter(|(id, _)| *id == map.id);
                same_id.all(|(_, meaning)| meaning == uri)
            })?;
        known.push((map.id, uri.to_owned()));
        maps.push(ExtensionMap {
            id: map.id,
            direction: map.direction.map(|direction| match direction {
                Direction::RecvOnly => Direction::SendOnly,
                other => other,
            }),
            uri: uri.to_owned(),
            parameters: String::new(),
        });
        u8::try_from(map.id).ok()
    };
    let tag_bytes = media.attributes.mid().map_or(0, str::len);
    let mut ids = ExtensionIds::default();
    if per_sending {
        ids.transport_cc = accept(TRANSPORT_CC_URI);
        if ids.transport_cc.is_none() {
            ids.abs_send_time = accept(ABS_SEND_TIME_URI);
        }
    }
    if (1..=MID_BYTES_MAX).contains(&tag_bytes) {
        ids.mid = accept(MID_URI);
    }
    (ids, maps)
}

/// 20 bytes for all extensions, less 4 of header, 4 of send time or sequence
/// number with their byte of length, and 1 of the tag's.
const MID_BYTES_MAX: usize = 11;

pub(super) fn media_name(description: &SessionDescription, line: usize) -> String {
    let Some(media) = description.media.get(line) else {
        return format!("m= line {}", line + 1);
    };
    match media.attributes.mid() {
        Some(mid) => format!("m= line {} ({}, mid {mid})", line + 1, media.kind),
        None => format!("m= line {} ({})", line + 1, media.kind),
    }
}

fn list(items: &[String]) -> String {
    if items.is_empty() {
        "nothing".to_owned()
    } else {
        items.join(", ")
    }
}
