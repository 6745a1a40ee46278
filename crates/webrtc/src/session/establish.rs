use std::time::{Duration, Instant};

use glassline_media::{Kind, Ssrc, TrackIndex, WallClock};
use glassline_rtp::twcc::{Recorder, SendHistory};
use smallvec::SmallVec;

use super::congestion::Congestion;
use super::data::Data;
use super::error::{AcceptError, SetAnswerError};
use super::event::EventQueue;
use super::reports::Reports;
use super::{
    AcceptConfig, DataConfig, DialConfig, Dialing, HANDSHAKE_MAX, ReceiveMode, Receiver, Secrets,
    Sender, SentSource, Session, SimulcastLayer, State,
};
use crate::dtls::Association;
use crate::ice;
use crate::sdp::{self, IceCredentials, OfferedMedia, SessionDescription};
use crate::srtp::Role;

impl Session {
    /// Answers an offer. This end is ICE-lite, and the passive end of DTLS unless the offer
    /// insists on that role. Returns the session and the SDP answer.
    ///
    /// # Errors
    /// [`AcceptError`] states whether the offer or the configuration is at fault.
    pub fn accept(
        config: AcceptConfig<'_>,
        offer: &str,
        now: Instant,
    ) -> Result<(Self, String), AcceptError> {
        Self::answer(config, offer, false, now)
    }

    /// Answers a publisher's offer, all of which is received (RFC 9725 §4.2); `tracks` and
    /// `receive` of `config` have no effect. Lost packets are requested for `repair_budget`.
    ///
    /// Besides connectivity checks, media counts as a sign of life: some publishers send no
    /// checks after the handshake.
    ///
    /// # Errors
    /// [`AcceptError`] states whether the offer or the configuration is at fault.
    pub fn accept_publication(
        config: AcceptConfig<'_>,
        offer: &str,
        repair_budget: Duration,
        now: Instant,
    ) -> Result<(Self, String), AcceptError> {
        let (mut session, answer) = Self::answer(config, offer, true, now)?;
        session.ice.count_media_as_life();
        for receiver in &mut session.receivers {
            receiver.set_repair_budget(repair_budget);
        }
        Ok((session, answer))
    }

    fn answer(
        config: AcceptConfig<'_>,
        offer: &str,
        publication: bool,
        now: Instant,
    ) -> Result<(Self, String), AcceptError> {
        let offer = SessionDescription::parse(offer)?;
        let receive: Vec<Kind> = config.receive.iter().collect();
        let wanted = sdp::AnswerOptions {
            tracks: config.tracks,
            receive: &receive,
            data: config.data.is_some(),
            opus: config.opus,
            publication,
        };
        let negotiated = sdp::negotiate(&offer, &wanted)?;
        let secrets = &config.secrets;
        let senders = senders(&negotiated, secrets)?;
        let data = config.data.filter(|_| negotiated.data.is_some());
        let credentials = credentials(secrets);
        let mut ice = ice::Agent::lite(
            credentials.clone(),
            secrets.tie_breaker,
            &secrets.consent,
            &config.local,
            now,
        );
        if ice.local().is_empty() {
            return Err(AcceptError::NoAddress(config.local));
        }
        let answer = sdp::answer(
            &negotiated,
            &sdp::LocalDescription {
                credentials: credentials.clone(),
                fingerprint: config.certificate.fingerprint().clone(),
                candidates: ice.local().to_vec(),
                session_id: secrets.session_id,
                session_version: 1,
                senders: senders.iter().map(sources).collect(),
                cname: secrets.cname.clone(),
                data: parameters(data.as_ref().unwrap_or(&DataConfig::default())),
                stream_id: secrets.cname.clone(),
            },
        );
        let role = if negotiated.is_dtls_client() {
            Role::Client
        } else {
            Role::Server
        };
        let remote = negotiated.remote;
        for candidate in &remote.candidates {
            ice.describe_remote(candidate);
        }
        ice.set_remote(remote.credentials.clone(), now);
        let dtls = Association::new(
            &config.certificate,
            role,
            remote.fingerprints,
            data.as_ref().map(|data| data.cipher),
            now,
        );
        let mut session = Self::new(ice, secrets, credentials, config.wall, now);
        let reduced = |it: &sdp::AgreedMedia| it.reduced_size_rtcp;
        session.reports.are_lone = publication && negotiated.media.iter().all(reduced);
        session.set_media(senders, negotiated.media);
        session.data = data.map(|config| {
            let mut data = Data::new(config, secrets, now);
            data.agree(role, negotiated.data.as_ref());
            Box::new(data)
        });
        session.dtls = Some(dtls);
        session.remote = Some(remote.credentials);
        Ok((session, answer))
    }

    /// Creates an offer to send and receive. This end is a full ICE agent; the answer decides
    /// its DTLS role. Returns the session and the SDP offer; pass the answer to
    /// [`set_answer`](Self::set_answer).
    pub fn dial(config: DialConfig, now: Instant) -> (Self, String) {
        Self::dial_simulcast(config, &[], now)
    }

    /// Creates an offer as [`dial`](Self::dial) does, in which the tracks that `layers` name, the best
    /// first, are encodings of one video (RFC 8853). All have the codec of the first. Each that the answer
    /// receives has a [`Sender`] of its own; of an answer without simulcast the first has.
    pub fn dial_simulcast(
        config: DialConfig,
        layers: &[SimulcastLayer],
        now: Instant,
    ) -> (Self, String) {
        let secrets = &config.secrets;
        let credentials = credentials(secrets);
        let mut ice =
            ice::Agent::full(credentials.clone(), secrets.tie_breaker, &config.local, now);
        let (media, sent) = offered(&config, layers);
        let mut turn_allocations = config.turn_allocations;
        turn_allocations.retain(|allocation| allocation.relayed().is_some());
        let relayed = turn_allocations
            .iter()
            .filter_map(|it| Some((it.relayed()?, it.local())));
        let relayed: Vec<_> = relayed.collect();
        for (relayed, base) in &relayed {
            ice.add_relayed(*relayed, *base);
        }
        let offer = sdp::offer(&sdp::OfferParameters {
            media,
            opus: config.opus,
            fec: config.mode == ReceiveMode::Rebuild,
            cname: secrets.cname.clone(),
            data: config.data.as_ref().map(parameters),
            credentials: credentials.clone(),
            fingerprint: config.certificate.fingerprint().clone(),
            candidates: ice.local().to_vec(),
            relayed,
            session_id: secrets.session_id,
        });
        let text = offer.to_string();
        let mut session = Self::new(ice, secrets, credentials, config.wall, now);
        session.mode = config.mode;
        let cipher = config.data.as_ref().map(|data| data.cipher);
        session.data = config
            .data
            .map(|config| Box::new(Data::new(config, secrets, now)));
        session.turn_allocations = turn_allocations;
        session.dialing = Some(Box::new(Dialing {
            certificate: config.certificate,
            offer,
            sent,
            cipher,
        }));
        (session, text)
    }

    /// Takes the answer to the offer of [`dial`](Self::dial) and starts to connect.
    ///
    /// # Errors
    /// [`SetAnswerError`]. After an answer that cannot be used, another one may be tried.
    pub fn set_answer(&mut self, answer: &str, now: Instant) -> Result<(), SetAnswerError> {
        self.timeout = None;
        let dialing = self.dialing.as_ref().ok_or(SetAnswerError::NotAwaited)?;
        let agreed = sdp::apply_answer(&dialing.offer, answer)?;
        let senders = agreed.tracks.into_iter().flat_map(|mut track| {
            let sources = &dialing.sent[track.track];
            let rids = std::mem::take(&mut track.rids);
            let is_taken = |it: &&SentSource| it.rid.as_ref().is_some_and(|it| rids.contains(it));
            let layers: Vec<_> = sources.iter().filter(is_taken).collect();
            let only = sources.iter().take(usize::from(layers.is_empty()));
            let only = only.map(|it| (it, None));
            let sent = layers.into_iter().map(|it| (it, it.rid.as_deref()));
            let senders = sent.chain(only).map(|(source, rid)| {
                track.track = source.track;
                Sender::new(&track, &source.secrets, rid)
            });
            senders.collect::<Vec<_>>()
        });
        let senders: Vec<Sender> = senders.collect();
        if !all_differ(senders.iter().flat_map(ssrcs).collect()) {
            return Err(SetAnswerError::Secrets);
        }
        let role = if agreed.dtls_client {
            Role::Client
        } else {
            Role::Server
        };
        self.data = self.data.take().filter(|_| agreed.data.is_some());
        if let Some(data) = &mut self.data {
            data.agree(role, agreed.data.as_ref());
        }
        self.dtls = Some(Association::new(
            &dialing.certificate,
            role,
            agreed.remote.fingerprints,
            dialing.cipher.filter(|_| agreed.data.is_some()),
            now,
        ));
        self.set_media(senders, agreed.media);
        self.ice.set_remote(agreed.remote.credentials.clone(), now);
        for candidate in &agreed.remote.candidates {
            self.ice.add_remote_candidate(candidate, now);
        }
        self.remote = Some(agreed.remote.credentials);
        self.state = State::Connecting {
            deadline: now + HANDSHAKE_MAX,
        };
        self.dialing = None;
        Ok(())
    }

    /// Stores the agreed senders and receivers.
    fn set_media(&mut self, senders: Vec<Sender>, media: Vec<sdp::AgreedMedia>) {
        self.receivers = media.into_iter().map(Receiver::new).collect();
        let mut receivers = self.receivers.iter();
        if receivers.any(|receiver| receiver.transport_extension().is_some()) {
            self.recorder = Some(Box::<Recorder>::default());
        }
        // A participant that sends media reports under the SSRC of its media (RFC 3550 §6.1).
        if let (Some(sender), false) = (senders.first(), self.receivers.is_empty()) {
            self.rtcp_ssrc = sender.ssrc;
        }
        self.senders = senders.into();
    }

    fn new(
        ice: ice::Agent,
        secrets: &Secrets,
        local: IceCredentials,
        wall: WallClock,
        now: Instant,
    ) -> Self {
        Self {
            state: State::Connecting {
                deadline: now + HANDSHAKE_MAX,
            },
            ice,
            turn_allocations: Vec::new(),
            dtls: None,
            keys: None,
            senders: SmallVec::new(),
            receivers: Vec::new(),
            data: None,
            mode: ReceiveMode::default(),
            // Above zero, so that feedback about earlier numbers can be extended downwards.
            transport_sequence: 1,
            history: SendHistory::new(),
            congestion: Congestion::Free,
            recorder: None,
            reports: Reports::new(secrets.cname.as_str().into(), wall),
            events: EventQueue::default(),
            rtcp_ssrc: secrets.rtcp_ssrc,
            local,
            remote: None,
            dialing: None,
            timeout: None,
        }
    }
}

fn credentials(secrets: &Secrets) -> IceCredentials {
    IceCredentials {
        ufrag: secrets.ufrag.clone(),
        pwd: secrets.pwd.clone(),
    }
}

/// Returns the `m=` lines of our offer and, for those that send, in the same order, the RTP sources of
/// each. The tracks of `layers` share a line.
fn offered(
    config: &DialConfig,
    layers: &[SimulcastLayer],
) -> (Vec<OfferedMedia>, Vec<Vec<SentSource>>) {
    let (mut media, mut sent) = (Vec::new(), Vec::<Vec<SentSource>>::new());
    let rid = |track| layers.iter().find(|it| it.track == track);
    let rid = |track| rid(track).map(|it| it.rid.clone());
    for kind in [Kind::Video, Kind::Audio] {
        let mut receive = config.receive.iter().any(|it| it == kind);
        let tracks = TrackIndex::enumerate(config.send.iter().zip(&config.secrets.tracks));
        let of_kind = tracks.filter(|(_, (it, _))| it.kind() == kind);
        let mut simulcast: Option<usize> = None;
        for (index, (track, secrets)) in of_kind {
            let source = SentSource {
                track: index,
                secrets: *secrets,
                rid: rid(index),
            };
            if let (Some(line), true) = (simulcast, source.rid.is_some()) {
                sent[line].push(source);
                continue;
            }
            media.push(match source.rid {
                Some(_) => {
                    simulcast = Some(sent.len());
                    OfferedMedia::Simulcast {
                        codec: track.codec,
                        rids: layers.iter().map(|it| it.rid.clone()).collect(),
                    }
                }
                None => OfferedMedia::Send {
                    codec: track.codec,
                    channels: track.channels,
                    sender: sdp::SenderSsrc {
                        ssrc: secrets.ssrc,
                        rtx: (kind == Kind::Video).then_some(secrets.rtx_ssrc),
                        fec: None,
                    },
                    receive: std::mem::take(&mut receive),
                },
            });
            sent.push(vec![source]);
        }
        if receive {
            media.push(OfferedMedia::Receive(kind));
        }
    }
    (media, sent)
}

/// Returns the SDP parameters of our association.
fn parameters(data: &DataConfig) -> sdp::DataParameters {
    sdp::DataParameters {
        port: data.association.local_port,
        max_message_size: Some(data.association.max_message_size as u64),
    }
}

/// Creates a sender for each agreed track, with SSRCs that all differ.
fn senders(negotiated: &sdp::Negotiated, secrets: &Secrets) -> Result<Vec<Sender>, AcceptError> {
    let pairs = negotiated.tracks.iter().zip(&secrets.tracks);
    let used = pairs
        .clone()
        .flat_map(|(_, it)| [it.ssrc, it.rtx_ssrc, it.fec_ssrc]);
    let all_differ = all_differ(used.collect());
    let senders: Vec<Sender> = pairs
        .map(|(track, secrets)| Sender::new(track, secrets, None))
        .collect();
    if !all_differ || senders.len() != negotiated.tracks.len() {
        return Err(AcceptError::Secrets);
    }
    Ok(senders)
}

fn ssrcs(sender: &Sender) -> impl Iterator<Item = Ssrc> + use<> {
    let rtx = sender.rtx.map(|rtx| rtx.ssrc);
    let fec = sender.fec().map(|fec| fec.ssrc);
    std::iter::once(sender.ssrc).chain(rtx).chain(fec)
}

fn all_differ(mut ssrcs: Vec<Ssrc>) -> bool {
    ssrcs.sort_unstable();
    ssrcs.windows(2).all(|pair| pair[0] != pair[1])
}

fn sources(sender: &Sender) -> sdp::SenderSsrc {
    sdp::SenderSsrc {
        ssrc: sender.ssrc,
        rtx: sender.rtx.map(|rtx| rtx.ssrc),
        fec: sender.fec().map(|fec| fec.ssrc),
    }
}
