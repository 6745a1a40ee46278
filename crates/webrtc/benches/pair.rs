//! Two sessions in memory that have only data channels, with a virtual clock.
//!
//! This is not a `glassline_sim::Simulation`: the benches measure the cost of sessions, so
//! datagrams pass from one buffer into the other end without a network that would own them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_media::WallClock;
use glassline_sctp::channel::{ChannelId, Event, Init, Message};
use glassline_webrtc::{AcceptConfig, Certificate, DataConfig, DialConfig, Secrets, Session};

/// A server, a client, and the channel that the client opened.
pub(crate) struct Pair {
    pub(crate) ends: [Session; 2],
    pub(crate) channel: ChannelId,
    pub(crate) now: Instant,
    out: Vec<u8>,
}

fn addresses() -> [SocketAddr; 2] {
    [([127, 0, 0, 1], 1000).into(), ([127, 0, 0, 1], 2000).into()]
}

impl Pair {
    /// Connects two sessions and sends one message.
    pub(crate) fn connect(
        certificate: &Arc<Certificate>,
        config: &DataConfig,
        number: usize,
        mut now: Instant,
    ) -> Self {
        let addresses = addresses();
        let wall = WallClock::new(now, Duration::from_secs(1_700_000_000));
        let secrets = |end: u8| {
            let mut seed = [end; 32];
            seed[..8].copy_from_slice(&number.to_be_bytes());
            Secrets::expand(&seed)
        };
        let (mut client, offer) = Session::dial(
            DialConfig {
                local: vec![addresses[1]],
                data: Some(config.clone()),
                ..DialConfig::new(Arc::clone(certificate), secrets(1), wall)
            },
            now,
        );
        let (server, answer) = Session::accept(
            AcceptConfig {
                local: vec![addresses[0].into()],
                data: Some(config.clone()),
                ..AcceptConfig::new(Arc::clone(certificate), secrets(2), wall)
            },
            &offer,
            now,
        )
        .expect("our own offer");
        client.set_answer(&answer, now).expect("our own answer");
        let channels = client.channels_mut().expect("data");
        let channel = channels.open(Init::default(), now).expect("a channel");
        let mut pair = Self {
            ends: [server, client],
            channel,
            now,
            out: Vec::new(),
        };
        let (mut said, mut heard) = (false, false);
        for _ in 0..400 {
            now += Duration::from_millis(5);
            pair.now = now;
            pair.exchange();
            for end in &mut pair.ends {
                while let Some(event) = end.channels_mut().and_then(|it| it.poll_event(now)) {
                    heard |= matches!(event, Event::Message { .. });
                }
            }
            let channels = pair.ends[1].channels_mut().expect("data");
            said = said || channels.send(channel, Message::text("hello"), now).is_ok();
        }
        assert!(heard, "the word did not arrive");
        pair
    }

    /// Passes everything that each end has to send to the other end at once.
    pub(crate) fn exchange(&mut self) {
        let (addresses, now) = (addresses(), self.now);
        for from in 0..2 {
            let to = 1 - from;
            self.ends[from].handle_timeout(now);
            while let Some((_, segment)) = self.ends[from].poll_transmit_batch(now, &mut self.out) {
                for datagram in self.out.chunks_mut(segment) {
                    let (source, destination) = (addresses[from], addresses[to]);
                    // The session counts refused datagrams.
                    let _ = self.ends[to].handle_datagram(now, source, destination, datagram);
                }
            }
            self.ends[to].end_batch(now);
            while self.ends[from].poll_event().is_some() {}
        }
    }
}
