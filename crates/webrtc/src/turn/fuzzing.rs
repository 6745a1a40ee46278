//! Driver of the fuzz target `turn`: an allocation on a server that may send anything.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::test_server::TestServer;
use super::{
    Allocation, CHANNEL_HEADER_BYTES, Credentials, Input, PEERS_MAX, Server, State, Transport,
    WAITING_MAX, frame,
};

/// Most operations of one input.
const STEPS_MAX: usize = 300;
/// Most frames that an allocation may send before it waits for time to pass.
const FRAMES_MAX: usize = 256;

/// Runs the operations that `bytes` describe: answers of the server that come whole, changed, twice
/// or not at all, frames of its own, datagrams for peers, and time.
///
/// # Panics
/// The allocation panics, or an invariant does not hold: a datagram lies within its frame, what is
/// written is one whole frame, queues are bounded, deadlines move.
pub fn turn(bytes: &[u8]) {
    let Some((&options, mut rest)) = bytes.split_first() else {
        return;
    };
    let mut scene = Scene::new(options);
    for _ in 0..STEPS_MAX {
        let Some((&[operation, argument], after)) = rest.split_first_chunk() else {
            break;
        };
        rest = after;
        let count = usize::from(argument).min(rest.len());
        match operation % 8 {
            0 => scene.exchange(&[]),
            1 => {
                let (mask, after) = rest.split_at(count);
                rest = after;
                scene.exchange(mask);
            }
            2 => {
                let (frame, after) = rest.split_at(count);
                rest = after;
                scene.receive(frame);
            }
            3 => scene.receive_data(argument, &rest[..count.min(32)]),
            4 => scene.send(argument),
            5 => scene.wait(Duration::from_millis(u64::from(argument) * 8)),
            6 => scene.wait(Duration::from_secs(u64::from(argument) * 4)),
            7 if argument == 0xff => scene.allocation.close(),
            _ => scene.server.nonce += 1,
        }
        scene.check();
    }
}

struct Scene {
    now: Instant,
    allocation: Allocation,
    server: TestServer,
    transport: Transport,
    /// Channels that frames of the server's name: those that the client bound.
    channel: u16,
}

impl Scene {
    #[expect(clippy::disallowed_methods, reason = "virtual time may begin anywhere")]
    fn new(options: u8) -> Self {
        let now = Instant::now();
        let address: SocketAddr = ([192, 0, 2, 53], 3478).into();
        let credentials = Credentials {
            username: "alice".to_owned(),
            password: "secret".to_owned(),
        };
        let transport = match options & 1 {
            0 => Transport::Udp,
            _ => Transport::Tcp,
        };
        let at = Server {
            host: "turn.example".to_owned(),
            port: 3478,
            transport,
        };
        let mut server = TestServer::new(address, &credentials);
        server.offers_sha256 = options & 2 != 0;
        let local = ([192, 0, 2, 7], 5000).into();
        let mut scene = Self {
            now,
            allocation: Allocation::new(at, address, local, &credentials, now),
            server,
            transport,
            channel: 0x4000,
        };
        if options & 4 == 0 {
            for _ in 0..100 {
                if scene.allocation.relayed().is_some() {
                    return scene;
                }
                scene.exchange(&[]);
                scene.wait(Duration::from_millis(10));
            }
            panic!("no allocation on an honest server");
        }
        scene
    }

    /// Sends everything to the server; changes its answers by `mask`, and passes these on.
    fn exchange(&mut self, mask: &[u8]) {
        if self
            .allocation
            .poll_timeout()
            .is_some_and(|at| at <= self.now)
        {
            self.allocation.handle_timeout(self.now);
        }
        let (client, to) = (self.allocation.local(), self.allocation.address());
        for frame in self.frames() {
            let answer = self.server.handle(client, to, &frame);
            let Some((from, _, mut bytes)) = answer.filter(|answer| answer.0 == to) else {
                continue;
            };
            assert_eq!(from, to);
            for (byte, change) in bytes.iter_mut().zip(mask) {
                *byte ^= change;
            }
            self.receive(&bytes);
        }
    }

    /// The frames that the allocation wants to send, each of which is whole.
    fn frames(&mut self) -> Vec<Vec<u8>> {
        let (mut frames, mut out) = (Vec::new(), Vec::new());
        while self.allocation.poll_transmit(&mut out) {
            frames.push(self.whole(&out));
            assert!(frames.len() <= FRAMES_MAX, "frames without end");
        }
        frames
    }

    /// Checks a frame that was written, and returns it without padding.
    fn whole(&self, out: &[u8]) -> Vec<u8> {
        let written = frame(out).expect("a header");
        match self.transport {
            Transport::Udp => assert_eq!(written.content, out.len()),
            _ => assert_eq!(written.length, out.len(), "padding of a stream"),
        }
        out[..written.content].to_vec()
    }

    fn receive(&mut self, bytes: &[u8]) {
        if let Input::Data { range, .. } = self.allocation.handle(self.now, bytes) {
            assert!(range.start <= range.end && range.end <= bytes.len());
            // A datagram stands behind a channel's header, or in an attribute.
            assert!(range.start >= CHANNEL_HEADER_BYTES);
        }
    }

    fn receive_data(&mut self, argument: u8, payload: &[u8]) {
        let length = u16::from(argument);
        let mut frame = (self.channel + u16::from(argument & 3))
            .to_be_bytes()
            .to_vec();
        frame.extend_from_slice(&length.to_be_bytes());
        frame.extend_from_slice(payload);
        self.receive(&frame);
    }

    fn send(&mut self, argument: u8) {
        let peer = SocketAddr::from(([203, 0, 113, argument % 40], 9));
        let (payload, mut out) = (vec![argument; usize::from(argument)], Vec::new());
        self.allocation.set_now(self.now);
        if self.allocation.wrap(peer, &payload, &mut out) {
            let whole = self.whole(&out);
            assert!(whole.ends_with(&payload));
        }
    }

    fn wait(&mut self, duration: Duration) {
        self.now += duration;
        if self
            .allocation
            .poll_timeout()
            .is_some_and(|at| at <= self.now)
        {
            self.allocation.handle_timeout(self.now);
        }
    }

    fn check(&mut self) {
        let allocation = &self.allocation;
        assert!(allocation.waiting.len() <= WAITING_MAX);
        assert!(allocation.peers.len() <= PEERS_MAX);
        assert_eq!(
            allocation.relayed().is_some(),
            matches!(allocation.state(), State::Allocated(_))
        );
        // With nothing to send, a deadline that stays in the past would spin.
        for _ in 0..16 {
            if self
                .allocation
                .poll_timeout()
                .is_none_or(|at| at > self.now)
            {
                return;
            }
            self.frames();
            self.allocation.handle_timeout(self.now);
        }
        panic!("the deadline does not move");
    }
}

#[cfg(test)]
mod tests {
    use glassline_sim::Rng;

    /// The seeds of the fuzz target, and random operations.
    #[test]
    fn a_server_may_answer_anything() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/turn");
        for entry in std::fs::read_dir(folder).expect("the seeds are part of the checkout") {
            let path = entry.expect("a file").path();
            super::turn(&std::fs::read(&path).expect("a readable seed"));
        }
        for seed in 0..100 {
            println!("seed {seed}");
            let mut input = vec![0; 600];
            Rng::new(seed).fill(&mut input);
            super::turn(&input);
        }
    }
}
