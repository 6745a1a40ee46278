use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use glassline_media::WallClock;
use glassline_net::UdpSocket;
use glassline_webrtc::sdp::{Candidate, Protocol, SessionDescription};
use glassline_webrtc::{Certificate, DialConfig, ReceiveMode, Secrets, Session, TransportAddress};
use parking_lot::Mutex;
use url::Url;

use super::command::{Command, Mailbox};
use super::frame_reports::ServerClock;
use super::job::{Answered, Dialled, Job};
use super::webrtc::{Connection, MediaSocket};
use super::{Endpoint, IceTransport, Join, Mode, Options, route, rtsp};
use crate::whep;

/// The threads that exchange offers and answers with the server.
pub(super) struct Workers {
    jobs: Sender<Job>,
    stopping: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// Data that every signalling thread needs.
struct Context {
    options: Options,
    certificate: Arc<Certificate>,
    wall: WallClock,
    mailbox: Mailbox,
    jobs: Mutex<Receiver<Job>>,
    stopping: Arc<AtomicBool>,
}

impl Workers {
    pub(super) fn start(
        options: &Options,
        certificate: Arc<Certificate>,
        wall: WallClock,
        mailbox: Mailbox,
    ) -> std::io::Result<Self> {
        let (sender, receiver) = channel();
        let stopping = Arc::new(AtomicBool::new(false));
        let context = Arc::new(Context {
            options: options.clone(),
            certificate,
            wall,
            mailbox,
            jobs: Mutex::new(receiver),
            stopping: Arc::clone(&stopping),
        });
        let threads = (0..options.signalling_threads.clamp(1, 64))
            .map(|index| {
                let context = Arc::clone(&context);
                std::thread::Builder::new()
                    .name(format!("signalling-{index}"))
                    .spawn(move || context.run())
            })
            .collect::<std::io::Result<_>>()?;
        Ok(Self {
            jobs: sender,
            stopping,
            threads,
        })
    }

    pub(super) fn submit(&self, job: Job) {
        // Fails only if every worker has panicked; its viewer then stays in
        // signalling, and the panic is on the terminal.
        let _ = self.jobs.send(job);
    }

    /// Cancels joins that have not begun; farewells still go out.
    pub(super) fn stop_joining(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Lets the threads finish submitted jobs until `deadline`; a thread that waits longer
    /// for a silent server ends by itself.
    pub(super) fn finish(self, deadline: Instant) {
        drop(self.jobs);
        for thread in self.threads {
            while !thread.is_finished() && Instant::now() < deadline {
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            if thread.is_finished() && thread.join().is_err() {
                tracing::error!("a signalling thread has panicked");
            }
        }
    }
}

impl Context {
    fn run(&self) {
        loop {
            // A panicking worker leaves the receiver as good as it was.
            let job = self.jobs.lock().recv();
            match job {
                Ok(Job::ControlTeardown(farewell)) => farewell.finish(),
                Ok(Job::Join { id, join }) => {
                    let result = if self.stopping.load(Ordering::Relaxed) {
                        Err("the pool is being dropped".to_owned())
                    } else {
                        self.dial(&join)
                    };
                    self.mailbox.send(Command::Answered { id, result });
                }
                Ok(Job::Leave { location }) => {
                    let token = self.options.token.as_deref();
                    if let Err(error) = whep::delete(&location, token, self.options.trust) {
                        tracing::debug!(%error, "cannot DELETE the session; the server will time it out");
                    }
                }
                Ok(Job::Report { id, report }) => {
                    let token = self.options.token.as_deref();
                    let result = report.post(token, self.options.trust);
                    self.mailbox.send(Command::Reported { id, result });
                }
                Err(_) => return,
            }
        }
    }

    fn dial(&self, join: &Join) -> Result<Dialled, String> {
        match &join.endpoint {
            Endpoint::DoSignaling(url)
            | Endpoint::Whep {
                url,
                transport: IceTransport::Udp,
            } => {
                let answered = self.offer(url, join.mode)?;
                Ok(Dialled::WebRtc(Box::new(answered)))
            }
            Endpoint::Whep { url, .. } => {
                let answered = self.offer_tcp(url, join)?;
                Ok(Dialled::WebRtc(Box::new(answered)))
            }
            Endpoint::Hls(url) => {
                let url = glassline_url::shown(url);
                Err(format!("{url}: viewers of HLS join without signalling"))
            }
            Endpoint::Rtsp { url, transport } => Ok(Dialled::Rtsp {
                connection: rtsp::connect(
                    url,
                    *transport,
                    join.conduct.receive_buffer(),
                    self.options.trust,
                )?,
                url: url.clone(),
                transport: *transport,
            }),
        }
    }

    /// Posts an offer and returns the answer. Where the page and the media of a server have addresses
    /// of different IP versions, a second offer is made with a socket of the media's version.
    fn offer(&self, url: &Url, mode: Mode) -> Result<Answered, String> {
        let server = url
            .socket_addrs(|| None)
            .ok()
            .and_then(|addresses| addresses.into_iter().next())
            .ok_or_else(|| format!("cannot resolve the host of {url}"))?;
        let answered = self.offer_from(url, mode, server)?;
        let Some(media) = media_of_other_version(&answered.answer.sdp, server) else {
            return Ok(answered);
        };
        let token = self.options.token.as_deref();
        if let Some(location) = &answered.answer.location
            && let Err(error) = whep::delete(location, token, self.options.trust)
        {
            tracing::debug!(%error, "cannot DELETE the session; the server will time it out");
        }
        self.offer_from(url, mode, media)
    }

    /// Opens a socket that reaches `server`, posts an offer and returns the answer.
    fn offer_from(&self, url: &Url, mode: Mode, server: SocketAddr) -> Result<Answered, String> {
        let ips = route::local_addresses(server)
            .map_err(|error| format!("no route to {server}: {error}"))?;
        let socket = UdpSocket::bind(route::wildcard(server), &self.options.sockets())
            .map_err(|error| error.to_string())?;
        let port = socket.local_addr().port();
        let local: Vec<_> = ips
            .into_iter()
            .map(|ip| SocketAddr::new(ip, port))
            .collect();
        let (session, started, answer) = self.negotiate(url, mode, local.clone())?;
        Ok(Answered {
            url: url.clone(),
            socket: MediaSocket::Udp { socket, local },
            session,
            started,
            clock: self.clock(&answer)?,
            answer,
        })
    }

    /// Posts an offer without candidates, and connects to the TCP candidate of the answer.
    fn offer_tcp(&self, url: &Url, join: &Join) -> Result<Answered, String> {
        let (mut session, started, answer) = self.negotiate(url, join.mode, Vec::new())?;
        let server = passive_candidate(&answer.sdp)
            .ok_or_else(|| format!("{url} offers no media over TCP"))?;
        let connection = Connection::open(server, join.conduct.receive_buffer())
            .map_err(|error| format!("cannot connect to {server}, the TCP candidate: {error}"))?;
        session.add_local(TransportAddress::tcp(connection.local()));
        Ok(Answered {
            url: url.clone(),
            socket: MediaSocket::Tcp(Box::new(connection)),
            session,
            started,
            clock: self.clock(&answer)?,
            answer,
        })
    }

    /// Asks for the clock of the server that has the session of `answer`, if viewers report.
    fn clock(&self, answer: &whep::Answer) -> Result<Option<ServerClock>, String> {
        let location = answer.location.as_ref().filter(|_| self.options.reports);
        let (token, trust) = (self.options.token.as_deref(), self.options.trust);
        location
            .map(|it| ServerClock::ask(it, token, trust))
            .transpose()
    }

    /// Posts an offer with the candidates `local`. Returns the session, the instant of the request,
    /// and the answer.
    fn negotiate(
        &self,
        url: &Url,
        mode: Mode,
        local: Vec<SocketAddr>,
    ) -> Result<(Session, Instant, whep::Answer), String> {
        let secrets = Secrets::expand(&rand::random());
        let config = DialConfig {
            local,
            receive: self.options.kinds,
            mode: match mode {
                Mode::Verify => ReceiveMode::Rebuild,
                Mode::Count => ReceiveMode::CountOnly,
            },
            ..DialConfig::new(Arc::clone(&self.certificate), secrets, self.wall)
        };
        let started = Instant::now();
        let (session, offer) = Session::dial(config, started);
        let (token, trust) = (self.options.token.as_deref(), self.options.trust);
        let answer =
            whep::post_offer(url, &offer, token, trust).map_err(|error| error.to_string())?;
        Ok((session, started, answer))
    }
}

/// Returns the address of the answer's first passive TCP candidate (RFC 6544 §4.5).
fn passive_candidate(answer: &str) -> Option<SocketAddr> {
    let answer = SessionDescription::parse(answer).ok()?;
    let mut candidates = answer
        .media
        .iter()
        .flat_map(|it| it.attributes.candidates());
    let passive = candidates.find(|candidate| candidate.is_tcp_passive())?;
    passive.socket_addr()
}

/// Returns the address of the answer's first UDP candidate, if no UDP candidate has the IP version of
/// `server`, from whose version a socket cannot send to any of them.
fn media_of_other_version(answer: &str, server: SocketAddr) -> Option<SocketAddr> {
    let answer = SessionDescription::parse(answer).ok()?;
    let candidates = answer.media.iter();
    let candidates = candidates.flat_map(|it| it.attributes.candidates());
    let by_udp = candidates.filter(|candidate| candidate.protocol == Protocol::Udp);
    let media: Vec<_> = by_udp.filter_map(Candidate::socket_addr).collect();
    let is_reached = media.iter().any(|it| it.is_ipv4() == server.is_ipv4());
    media.first().copied().filter(|_| !is_reached)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(candidates: &[&str]) -> String {
        let mut sdp = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n\
                       m=video 9 UDP/TLS/RTP/SAVPF 96\r\nc=IN IP4 0.0.0.0\r\n"
            .to_owned();
        for candidate in candidates {
            sdp += &format!("a=candidate:{candidate}\r\n");
        }
        sdp
    }

    #[test]
    fn media_of_the_other_ip_version_is_found_where_no_candidate_has_that_of_the_page() {
        let page = SocketAddr::from(([127, 0, 0, 1], 8889));
        let udp_v4 = "1 1 udp 2130706431 192.0.2.1 8189 typ host";
        let udp_v6 = "2 1 udp 2130706431 2001:db8::1 8189 typ host";
        let tcp_v4 = "3 1 tcp 1671430143 192.0.2.1 8189 typ host tcptype passive";
        let other = |candidates: &[&str]| media_of_other_version(&answer(candidates), page);
        let v6 = "[2001:db8::1]:8189".parse().expect("an address");
        assert_eq!(other(&[udp_v6, tcp_v4]), Some(v6));
        assert_eq!(other(&[udp_v6, udp_v4]), None);
        assert_eq!(other(&[udp_v4]), None);
        assert_eq!(other(&[tcp_v4]), None, "there is no UDP at all");
        assert_eq!(other(&[]), None);
        let page = "[::1]:80".parse().expect("an address");
        let v4 = media_of_other_version(&answer(&[udp_v4]), page);
        assert_eq!(v4, Some(SocketAddr::from(([192, 0, 2, 1], 8189))));
    }
}
