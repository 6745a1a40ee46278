//! Floods from one address, and requests that are never finished.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use super::connections::{ConnectionFlood, HeldConnections};
use super::datagrams::{self, DatagramFlood};
use super::{Attack, STRANGER};
use crate::chaos::action::Kind;
use crate::chaos::error::Error;

/// Beginning of an HTTP request.
const HTTP_HALF: &[u8] = b"GET /x HTTP/1.1\r\nHost: a\r\nX-";

/// Beginning of an RTSP request.
const RTSP_HALF: &[u8] = b"DESCRIBE rtsp://a/demo RTSP/1.0\r\nCSeq: ";

/// Header of a TLS record with a client hello that never follows.
const TLS_HALF: &[u8] = &[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3];

/// Time after which no half-open connection may be left: the server's deadline for a header, and
/// as much again for a slow machine.
const HALF_OPEN_MAX: Duration = Duration::from_secs(20);

/// A whole request, after which the connection stays open for the next one.
const HTTP_WHOLE: &[u8] = b"GET /-/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";

/// A whole request of RTSP.
const RTSP_WHOLE: &[u8] = b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n";

/// Connections that one address opens, a quarter of them RTSP: a server allows 1,024 of HTTP.
const HELD_PER_ADDRESS: usize = 1500;

impl Attack<'_> {
    pub(super) fn flood_datagrams(&mut self) -> Result<(), Error> {
        let configuration = &self.deployment.configuration;
        let (target, datagrams) = match self.action.kind {
            Kind::FloodStun => (configuration.media, datagrams::stun(&mut self.random)),
            Kind::FloodDtls => (configuration.media, datagrams::dtls(&mut self.random)),
            _ => {
                let target = configuration.quic;
                (target, datagrams::quic(&mut self.random, target))
            }
        };
        // With a count, from so many addresses, as if they were forged.
        let addresses = u32::try_from(self.action.count.max(1)).unwrap_or(u32::MAX);
        let rate = (self.action.rate / addresses).max(1);
        let flood = |index| DatagramFlood::new(stranger(index), target, rate, &datagrams);
        let floods = (0..addresses as usize).map(flood);
        self.send_datagrams(floods.collect::<Result<_, _>>()?)
    }

    /// Random bytes to every UDP port.
    pub(super) fn flood_noise(&mut self) -> Result<(), Error> {
        let configuration = &self.deployment.configuration;
        let mut floods = Vec::new();
        for target in [configuration.media, configuration.quic] {
            let noise = datagrams::noise(&mut self.random);
            let rate = self.action.rate / 2;
            floods.push(DatagramFlood::new(STRANGER, target, rate, &noise)?);
        }
        self.send_datagrams(floods)
    }

    fn send_datagrams(&mut self, mut floods: Vec<DatagramFlood>) -> Result<(), Error> {
        let begun = Instant::now();
        self.repeat(|attack| {
            for flood in &mut floods {
                flood.send(&mut attack.random);
            }
            Ok(())
        })?;
        self.outcome.sent = floods.iter().map(|flood| flood.sent).sum();
        self.outcome.refused = floods.iter().map(|flood| flood.refused).sum();
        self.note_rate(begun, "datagrams");
        Ok(())
    }

    pub(super) fn flood_connections(&mut self) -> Result<(), Error> {
        let configuration = &self.deployment.configuration;
        let (target, request): (_, &[u8]) = match self.action.kind {
            Kind::FloodRtsp => (configuration.rtsp, RTSP_WHOLE),
            _ => (configuration.http, HTTP_WHOLE),
        };
        let mut flood = ConnectionFlood::new(STRANGER, target, self.action.rate, request)?;
        let begun = Instant::now();
        self.repeat(|_| {
            flood.send();
            Ok(())
        })?;
        let (tried, answered, refused) = flood.counts();
        self.outcome.sent = tried;
        self.outcome.answered = answered;
        self.outcome.refused = refused;
        self.note_rate(begun, "connections");
        Ok(())
    }

    /// Opens connections that have a whole request behind them, and holds them: from as many
    /// addresses as are needed for every limit of the server to be met.
    pub(super) fn hold_connections(&mut self) -> Result<(), Error> {
        let configuration = self.deployment.configuration.clone();
        // The harness needs as many descriptors as the server.
        if let Err(error) = glassline_net::raise_descriptor_limit() {
            tracing::debug!(%error, "the limit of descriptors stays");
        }
        let mut held = HeldConnections::new(STRANGER)?;
        for index in 0..self.action.count {
            held.from = stranger(index / HELD_PER_ADDRESS);
            let (target, request) = match index % 4 {
                3 => (configuration.rtsp, RTSP_WHOLE),
                _ => (configuration.http, HTTP_WHOLE),
            };
            held.open(target, request);
            self.outcome.sent += 1;
            if index % 20 == 0 {
                self.step(Duration::from_millis(1))?;
            }
        }
        self.outcome.refused = held.refused as u64;
        self.wait(self.action.time)?;
        let open = held.settle();
        let addresses = self.action.count.div_ceil(HELD_PER_ADDRESS);
        self.note(format!("{open} are open, of {addresses} addresses"));
        drop(held);
        // The next action begins without them.
        self.wait(Duration::from_millis(300))
    }

    fn note_rate(&mut self, begun: Instant, what: &str) {
        let reached = self.outcome.sent as f64 / begun.elapsed().as_secs_f64().max(1e-3);
        let wanted = self.action.rate;
        self.note(format!("{reached:.0} of {wanted} {what} a second"));
    }

    /// Half of the connections are HTTP; the others are RTSP and TLS.
    pub(super) fn open_halves(&mut self) -> Result<(), Error> {
        let configuration = self.deployment.configuration.clone();
        let mut held = HeldConnections::new(STRANGER)?;
        for index in 0..self.action.count {
            let (target, beginning) = match index % 4 {
                0 | 1 => (configuration.http, HTTP_HALF),
                2 => (configuration.rtsp, RTSP_HALF),
                _ => (configuration.rtsps, TLS_HALF),
            };
            held.open(target, beginning);
            self.outcome.sent += 1;
            if index % 20 == 0 {
                self.step(Duration::from_millis(1))?;
            }
        }
        self.outcome.refused = held.refused as u64;
        let begun = Instant::now();
        let most = held.settle();
        let patience = self.action.time.max(Duration::from_secs(1));
        while begun.elapsed() < patience && held.settle() > 0 {
            self.wait(Duration::from_millis(200))?;
        }
        let open = held.settle();
        let waited = begun.elapsed();
        self.note(format!(
            "{most} were open at most, {open} after {:.1} s",
            waited.as_secs_f64()
        ));
        if open > 0 && waited >= HALF_OPEN_MAX {
            self.miss(format!(
                "{open} half-open requests are still open after {:.0} s",
                waited.as_secs_f64()
            ));
        }
        Ok(())
    }
}

/// Address of one of several strangers.
fn stranger(index: usize) -> IpAddr {
    let last = 66 + u8::try_from(index % 100).unwrap_or(0);
    let third = u8::try_from(index / 100 % 256).unwrap_or(0);
    IpAddr::V4(Ipv4Addr::new(127, 0, third, last))
}
