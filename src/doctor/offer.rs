//! The answer to an offer: each of its addresses, and each TURN server, is asked.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use glassline_client::probe::candidate::{self, Transport, TransportAddress};
use glassline_client::probe::whep::{Negotiated, negotiate};
use glassline_client::relay;
use glassline_client::trust::Trust;
use glassline_client::viewers::wildcard;
use glassline_client::whep;
use url::Url;

use super::addresses::{self, Answered};
use super::finding::Finding;

/// Time that the answer may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Time that a candidate or a TURN server has to answer.
const CANDIDATE: Duration = Duration::from_millis(1_500);

/// Posts an offer to a WHEP endpoint, and checks the candidates and TURN servers of the answer. `page`: the
/// address at which the server was reached over HTTP. `others`: addresses that viewers elsewhere are told;
/// they are checked at the port of the first candidate.
pub(super) fn check(
    url: &Url,
    token: Option<&str>,
    trust: Trust,
    page: IpAddr,
    others: &[IpAddr],
) -> Vec<Finding> {
    let Ok(mut session) = negotiate(url, token, trust, PATIENCE) else {
        // The viewer that plays tells it.
        return Vec::new();
    };
    let port = session.candidates.first().map(|first| first.socket.port());
    for ip in others {
        let socket = SocketAddr::new(*ip, port.unwrap_or_default());
        let added = [TransportAddress::udp(socket), TransportAddress::tcp(socket)];
        for address in added {
            if !session.candidates.contains(&address) {
                session.candidates.push(address);
            }
        }
    }
    let session = session;
    let findings = std::thread::scope(|scope| {
        let answers: Vec<_> = session
            .candidates
            .iter()
            .map(|address| scope.spawn(|| answered(&session, *address)))
            .collect();
        let turn: Vec<_> = session
            .turn
            .iter()
            .map(|(server, credentials)| scope.spawn(move || turn(server, credentials, page)))
            .collect();
        let answers: Vec<Answered> = answers
            .into_iter()
            .filter_map(|it| it.join().ok())
            .collect();
        let mut findings = addresses::of_answers(page, &answers, &session.names);
        findings.extend(turn.into_iter().filter_map(|it| it.join().ok()));
        findings
    });
    if let Some(location) = &session.location {
        // A session that is not deleted ends by itself.
        let _ = whep::delete(location, token, trust);
    }
    findings
}

fn answered(session: &Negotiated, address: TransportAddress) -> Answered {
    let outcome = candidate::check(address, &session.local, &session.remote, CANDIDATE);
    let outcome = outcome.map_err(|error| match error.kind() {
        std::io::ErrorKind::TimedOut => "no answer".to_owned(),
        _ => match (address.transport, error.kind()) {
            (Transport::Udp, std::io::ErrorKind::ConnectionRefused) => "port closed".to_owned(),
            _ => error.to_string(),
        },
    });
    Answered { address, outcome }
}

/// Asks a TURN server of the `Link` headers for a relay.
fn turn(server: &relay::Server, credentials: &relay::Credentials, page: IpAddr) -> Finding {
    let local = wildcard(SocketAddr::new(page, 0));
    let socket = glassline_net::UdpSocket::bind(local, &glassline_net::Options::default());
    let outcome = match &socket {
        Ok(socket) => relay::gather(
            std::slice::from_ref(server),
            credentials,
            socket,
            socket.local_addr(),
            Trust::System,
            CANDIDATE,
        )
        .map(drop)
        .map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    match outcome {
        Ok(()) => Finding::ok("turn", server.to_string(), "gives a relay"),
        Err(error) => Finding::failure("turn", server.to_string(), error)
            .why("viewers that need the relay do not connect, and the others wait for it")
            .change(
                "start the TURN server, open its port, and compare its secret with \
                 `webrtc.ice_servers`",
            ),
    }
}
