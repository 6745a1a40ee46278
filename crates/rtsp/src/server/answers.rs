//! How the owner's answers change the session, and the responses that carry them.

use std::time::Instant;

use super::authenticator;
use super::core::Core;
use super::pending::{Pending, Stage};
use super::session::{Announced, Position, Session};
use super::target::Target;
use super::{Access, Answer, Closed, Refusal, RequestId, SelectedTransport, SetUp, Start, State};
use crate::auth::digest;
use crate::message::{Request, Response, Status};
use crate::mikey::Keys;
use crate::range::Range;
use crate::rtp_info::RtpInfo;
use crate::sdp::{self, Presentation};
use crate::transport::{Delivery, Group, Lower, Mode, Profile, Transport};

/// The grant of the owner for a track that is set up.
struct TrackGrant {
    ssrc: Option<glassline_media::Ssrc>,
    server_ports: Option<(u16, u16)>,
    multicast: Option<Group>,
    keys: Option<String>,
}

/// Most characters of a reason that a publisher's text is part of.
const WHY_CHARS_MAX: usize = 300;

/// The terms on which the owner granted PLAY.
struct PlayGrant {
    range: Option<Range>,
    scale: Option<f64>,
    speed: Option<f64>,
    starts: Vec<Start>,
}

impl Core {
    /// Applies the owner's answer. An answer to another request than the pending one is late
    /// and has no effect.
    pub(super) fn answer(&mut self, now: Instant, id: RequestId, answer: Answer) {
        let asked = self.pending.take_if(|pending| pending.id == id);
        let Some(asked) = asked else {
            return;
        };
        if self.session.is_some()
            || !matches!(answer, Answer::Refused(_) | Answer::Explained { .. })
        {
            self.last_activity_at = now;
        }
        let Pending {
            request,
            target,
            stage,
            ..
        } = *asked;
        match answer {
            Answer::Refused(refusal) => self.refuse(now, &request, &stage, refusal, None),
            Answer::Explained { refusal, why } => {
                self.refuse(now, &request, &stage, refusal, Some(why));
            }
            answer => self.grant(now, request, &target, stage, answer),
        }
        self.process_waiting(now);
    }

    fn grant(
        &mut self,
        now: Instant,
        request: Request,
        target: &Target,
        stage: Stage,
        answer: Answer,
    ) {
        match (stage, answer) {
            (
                Stage::Authorize {
                    access, presented, ..
                },
                Answer::Authorized { user },
            ) => {
                self.authenticator.grant(access, &target.path, presented);
                self.user = user;
                self.dispatch(now, request, target.clone());
            }
            (Stage::Describe, Answer::Described(presentation)) => {
                self.described(&request, target, &presentation);
            }
            (Stage::Describe, Answer::Moved { location }) => {
                self.respond(&request, Status::FOUND, |response| {
                    response.headers.push("Location", &location);
                });
            }
            (
                Stage::SetUp {
                    track,
                    transport,
                    profile,
                    access,
                },
                Answer::SetUp {
                    ssrc,
                    server_ports,
                    multicast,
                    keys,
                },
            ) => {
                let given = TrackGrant {
                    ssrc,
                    server_ports,
                    multicast,
                    keys,
                };
                let set_up = SetUp { track, transport };
                self.was_set_up(&request, target, set_up, profile, access, &given);
            }
            (
                Stage::Play,
                Answer::Playing {
                    range,
                    scale,
                    speed,
                    starts,
                },
            ) => {
                let played = PlayGrant {
                    range,
                    scale,
                    speed,
                    starts,
                };
                self.playing(now, &request, &played);
            }
            (Stage::Pause, Answer::Paused { range }) => self.paused(now, &request, range.as_ref()),
            (Stage::Announce { description }, Answer::Announced) => {
                let Target {
                    path, query, base, ..
                } = target.clone();
                let announced = Announced::new(path, query, base, &description);
                self.announced = Some(Box::new(announced));
                self.respond(&request, Status::OK, |_| {});
            }
            (Stage::Record, Answer::Recording) => {
                self.set_state(State::Recording);
                self.respond(&request, Status::OK, |_| {});
            }
            _ => self.respond(&request, Status::INTERNAL_SERVER_ERROR, |_| {}),
        }
    }

    fn refuse(
        &mut self,
        now: Instant,
        request: &Request,
        stage: &Stage,
        refusal: Refusal,
        why: Option<String>,
    ) {
        let (stale, shown) = match stage {
            Stage::Authorize { stale, shown, .. } => (*stale, *shown),
            _ => (false, false),
        };
        let why = match stage {
            Stage::Announce { description } if refusal == Refusal::UnsupportedMedia => {
                let left_out = description.choose(|_| true).left_out.join(", ");
                Some(format!(
                    "no track of the description can be received: {left_out}"
                ))
            }
            _ => why,
        };
        // A line end would end the line of the status.
        let told = |it: char| !it.is_control();
        let why = why.map(|why| {
            why.chars()
                .filter(|it| told(*it))
                .take(WHY_CHARS_MAX)
                .collect()
        });
        let challenge = self
            .authenticator
            .challenge(now, stale, &self.config, &self.endpoints);
        self.respond(request, refusal.status(), |response| {
            response.reason = why.unwrap_or_else(|| response.reason.clone());
            match refusal {
                Refusal::Unauthorized => {
                    for text in challenge {
                        response.headers.push("WWW-Authenticate", &text);
                    }
                }
                Refusal::Unavailable {
                    retry_after: Some(after),
                } => {
                    let seconds = after.as_secs().max(1).to_string();
                    response.headers.push("Retry-After", &seconds);
                }
                _ => {}
            }
        });
        if refusal == Refusal::Unauthorized && shown {
            let failures = self.authenticator.note_failure();
            if failures >= authenticator::FAILURES_MAX {
                self.close(Closed::WrongCredentials { failures });
            }
        }
    }

    fn described(&mut self, request: &Request, target: &Target, presentation: &Presentation) {
        let base = format!("{}/", target.base);
        self.respond(request, Status::OK, |response| {
            response.headers.push("Content-Base", &base);
            response.headers.push("Content-Type", "application/sdp");
            let body = match target.query {
                Some(_) => presentation.at(&target.base).to_string(),
                None => presentation.to_string(),
            };
            response.body = body.into_bytes();
        });
    }

    fn was_set_up(
        &mut self,
        request: &Request,
        target: &Target,
        set_up: SetUp,
        profile: Profile,
        access: Access,
        given: &TrackGrant,
    ) {
        let session = match self.session.take() {
            Some(session) => session,
            None => Box::new(self.new_session(target, access)),
        };
        let session = self.session.insert(session);
        session.tracks.retain(|other| other.track != set_up.track);
        session.tracks.push(set_up);
        let session = self.session.as_deref();
        let name = session.map(|session| self.session_header(session));
        let transport = self.transport(set_up.transport, profile, access, given);
        self.respond(request, Status::OK, |response| {
            if let Some(name) = name {
                response.headers.set("Session", &name);
            }
            response.headers.push("Transport", &transport.to_string());
            if let Some(keys) = &given.keys {
                let header = Keys::header(keys, &request.uri);
                response.headers.push("KeyMgmt", &header);
            }
        });
    }

    fn new_session(&mut self, target: &Target, access: Access) -> Session {
        self.sessions += 1;
        let peer = self.endpoints.peer.to_string();
        let count = self.sessions.to_be_bytes();
        Session {
            id: digest::keyed(&self.secret, &[b"session", &count, peer.as_bytes()]),
            path: target.path.clone(),
            base: target.base.clone(),
            access,
            state: State::Ready,
            tracks: Vec::new(),
            position: None,
            is_past: false,
        }
    }

    /// Returns the `Transport` header of the response.
    fn transport(
        &self,
        selected: SelectedTransport,
        profile: Profile,
        access: Access,
        given: &TrackGrant,
    ) -> Transport {
        let mut transport = Transport {
            profile,
            ssrc: given.ssrc,
            delivery: Some(Delivery::Unicast),
            mode: Some(match access {
                Access::Read | Access::Past => Mode::Play,
                Access::Publish => Mode::Record,
            }),
            ..Transport::new(Lower::Udp)
        };
        match selected {
            SelectedTransport::Interleaved { channels } => {
                transport.lower = Lower::Tcp;
                transport.interleaved = Some(channels);
            }
            SelectedTransport::Udp {
                client_ports,
                destination,
            } => {
                transport.client_port = Some(client_ports);
                transport.server_port = given.server_ports;
                // A socket for both families shows IPv4 addresses in IPv6 form.
                let source = self.endpoints.local.ip().to_canonical();
                transport.destination = Some(destination.to_canonical().to_string());
                transport.source = Some(source.to_string());
            }
            SelectedTransport::Multicast => {
                transport.delivery = Some(Delivery::Multicast);
                if let Some(group) = given.multicast {
                    transport.destination = Some(group.address.to_string());
                    transport.port = Some(group.ports);
                    transport.ttl = Some(group.ttl);
                }
            }
        }
        transport
    }

    fn playing(&mut self, now: Instant, request: &Request, played: &PlayGrant) {
        let Some(session) = self.session.as_deref_mut() else {
            return self.respond(request, Status::SESSION_NOT_FOUND, |_| {});
        };
        session.state = State::Playing;
        session.is_past = matches!(played.range, Some(Range::Clock { .. }));
        let scale = played.scale.unwrap_or(1.0) * played.speed.unwrap_or(1.0);
        session.position = Position::of(played.range.as_ref(), Some(now), scale);
        let infos = played.starts.iter().map(|start| {
            let info = RtpInfo {
                url: format!("{}/{}", session.base, sdp::control(start.track)),
                sequence: start.sequence,
                timestamp: start.timestamp,
            };
            info.to_string()
        });
        let infos = infos.collect::<Vec<_>>().join(",");
        self.respond(request, Status::OK, |response| {
            push_range(response, played.range.as_ref());
            let numbers = [("Scale", played.scale), ("Speed", played.speed)];
            for (name, number) in numbers {
                if let Some(number) = number {
                    response.headers.push(name, &format!("{number:.3}"));
                }
            }
            if !infos.is_empty() {
                response.headers.push("RTP-Info", &infos);
            }
        });
    }

    fn paused(&mut self, now: Instant, request: &Request, range: Option<&Range>) {
        if let Some(session) = self.session.as_deref_mut() {
            session.state = State::Ready;
            session.position = match Position::of(range, None, 1.0) {
                Some(position) => Some(position),
                None => session.position.map(|position| position.paused(now)),
            };
        }
        self.respond(request, Status::OK, |response| push_range(response, range));
    }

    fn set_state(&mut self, state: State) {
        if let Some(session) = self.session.as_deref_mut() {
            session.state = state;
        }
    }
}

fn push_range(response: &mut Response, range: Option<&Range>) {
    if let Some(range) = range {
        response.headers.push("Range", &range.to_string());
    }
}
