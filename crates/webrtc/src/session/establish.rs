use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Instant;

use glassline_media::{Kind, Ssrc, WallClock};
use glassline_rtp::twcc::{Recorder, SendHistory};
use smallvec::SmallVec;

use super::data::Data;
use super::{
    AcceptConfig, DataConfig, DialConfig, Dialling, HANDSHAKE_MAX, ReceiveMode, Receiver, Secrets,
    Sender, Session, State, TRACKS_MAX,
};
use crate::dtls::Association;
use crate::ice;
use crate::sdp::{self, IceCredentials, SessionDescription};
use crate::srtp::Role;

/// Why an offer cannot be answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcceptError {
    /// The offer is not SDP: the peer's fault, answer 400.
    #[error(transparent)]
    Malformed(#[from] sdp::Error),
    /// The offer does not meet what we send: answer 406.
    #[error(transparent)]
    Negotiation(#[from] sdp::NegotiationError),
    /// The configuration has no address that a peer could reach.
    #[error("no usable local address among {0:?}: configure one that viewers can reach")]
    NoAddress(Vec<SocketAddr>),
    /// Too few or equal numbers were drawn: our caller's fault.
    #[error("the session's secrets must name {TRACKS_MAX} tracks at most, with distinct SSRCs")]
    Secrets,
}

/// Why an answer cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetAnswerError {
    /// The peer's fault; the session cannot start.
    #[error(transparent)]
    Answer(#[from] sdp::AnswerError),
    /// The session was not dialled, or has its answer already.
    #[error("no answer is awaited")]
    NotAwaited,
}

impl Session {
    /// Answers an offer as a server: ICE-lite, DTLS passive, sending only.
    /// Returns the session and the SDP answer.
    ///
    /// # Errors
    /// [`AcceptError`].
    pub fn accept(
        config: AcceptConfig<'_>,
        offer: &str,
        now: Instant,
    ) -> Result<(Self, String), AcceptError> {
        let offer = SessionDescription::parse(offer)?;
        let negotiated = sdp::negotiate(&offer, config.tracks, config.data.is_some())?;
        let secrets = &config.secrets;
        let senders = senders(&negotiated, secrets)?;
        let data = config.data.filter(|_| negotiated.data.is_some());
        let credentials = credentials(secrets);
        let mut ice =
            ice::Agent::lite(credentials.clone(), secrets.tie_breaker, &config.local, now);
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
        let remote = negotiated.remote;
        for candidate in &remote.candidates {
            ice.describe_remote(candidate);
        }
        ice.set_remote(remote.credentials.clone(), now);
        let dtls = Association::new(
            &config.certificate,
            Role::Server,
            remote.fingerprints,
            data.as_ref().map(|data| data.cipher),
            now,
        );
        let mut session = Self::new(ice, secrets, credentials, config.wall, now);
        session.senders = senders.into();
        session.data = data.map(|config| {
            let mut data = Data::new(config, secrets, now);
            data.agree(Role::Server, negotiated.data.as_ref());
            Box::new(data)
        });
        session.dtls = Some(dtls);
        session.remote = Some(remote.credentials);
        Ok((session, answer))
    }

    /// Prepares to receive as a client: full ICE, DTLS role by the answer.
    /// Returns the session and the SDP offer.
    pub fn dial(config: DialConfig, now: Instant) -> (Self, String) {
        let secrets = &config.secrets;
        let credentials = credentials(secrets);
        let mut ice =
            ice::Agent::full(credentials.clone(), secrets.tie_breaker, &config.local, now);
        let mut relays = config.relays;
        relays.retain(|relay| relay.relayed().is_some());
        let relayed = relays
            .iter()
            .filter_map(|it| Some((it.relayed()?, it.local())));
        let relayed: Vec<_> = relayed.collect();
        for (relayed, base) in &relayed {
            ice.add_relayed(*relayed, *base);
        }
        let wanted = [
            (config.receive.video, Kind::Video),
            (config.receive.audio, Kind::Audio),
        ];
        let offer = sdp::offer(&sdp::OfferParameters {
            kinds: wanted
                .into_iter()
                .filter_map(|(wanted, kind)| wanted.then_some(kind))
                .collect(),
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
        session.relays = relays;
        session.dialling = Some(Box::new(Dialling {
            certificate: config.certificate,
            offer,
            cipher,
        }));
        (session, text)
    }

    /// Takes the answer to the offer of [`dial`](Self::dial) and starts connecting.
    ///
    /// # Errors
    /// [`SetAnswerError`]; after an unusable answer another one may be tried.
    pub fn set_answer(&mut self, answer: &str, now: Instant) -> Result<(), SetAnswerError> {
        self.timeout = None;
        let dialling = self.dialling.as_ref().ok_or(SetAnswerError::NotAwaited)?;
        let agreed = sdp::apply_answer(&dialling.offer, answer)?;
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
            &dialling.certificate,
            role,
            agreed.remote.fingerprints,
            dialling.cipher.filter(|_| agreed.data.is_some()),
            now,
        ));
        self.receivers = agreed.media.into_iter().map(Receiver::new).collect();
        if self
            .receivers
            .iter()
            .any(|receiver| receiver.transport_extension().is_some())
        {
            self.recorder = Some(Box::<Recorder>::default());
        }
        self.ice.set_remote(agreed.remote.credentials.clone(), now);
        for candidate in &agreed.remote.candidates {
            self.ice.add_remote_candidate(candidate, now);
        }
        self.remote = Some(agreed.remote.credentials);
        self.state = State::Connecting {
            deadline: now + HANDSHAKE_MAX,
        };
        self.dialling = None;
        Ok(())
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
            relays: Vec::new(),
            dtls: None,
            keys: None,
            senders: SmallVec::new(),
            receivers: Vec::new(),
            data: None,
            mode: ReceiveMode::default(),
            // Above zero, so that feedback about the first packet can be widened down.
            transport_sequence: 1,
            history: SendHistory::new(),
            steering: None,
            recorder: None,
            rtcp: VecDeque::new(),
            events: VecDeque::new(),
            events_dropped: 0,
            report_at: None,
            nacked: 0,
            wall,
            cname: secrets.cname.as_str().into(),
            rtcp_ssrc: secrets.rtcp_ssrc,
            local,
            remote: None,
            dialling: None,
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

/// What we say of our association.
fn parameters(data: &DataConfig) -> sdp::DataParameters {
    sdp::DataParameters {
        port: data.association.local_port,
        max_message_size: Some(data.association.max_message_size as u64),
    }
}

/// A sender for each agreed track, with SSRCs that all differ.
fn senders(negotiated: &sdp::Negotiated, secrets: &Secrets) -> Result<Vec<Sender>, AcceptError> {
    let mut used: Vec<Ssrc> = Vec::new();
    let mut senders = Vec::new();
    for (track, secrets) in negotiated.tracks.iter().zip(&secrets.tracks) {
        used.extend([secrets.ssrc, secrets.rtx_ssrc]);
        senders.push(Sender::new(track, secrets));
    }
    used.sort_unstable();
    let all_differ = used.windows(2).all(|pair| pair[0] != pair[1]);
    if !all_differ || senders.len() != negotiated.tracks.len() {
        return Err(AcceptError::Secrets);
    }
    Ok(senders)
}

fn sources(sender: &Sender) -> sdp::SenderSsrc {
    sdp::SenderSsrc {
        ssrc: sender.ssrc,
        rtx: sender.rtx.map(|rtx| rtx.ssrc),
    }
}
