//! The server end against the client end of this crate, in memory.

use url::Url;

use super::*;
use crate::client::{self, Client};

/// Both ends of one connection, whose bytes arrive in pieces of `cut`.
///
/// Not a `glassline_sim::Simulation`: it moves a byte stream, within which no time passes.
struct Loop {
    scripted: ScriptedClient,
    client: Client,
    cut: usize,
    told: Vec<client::Event>,
    /// The server's frames, as the client received them.
    frames: Vec<(usize, bool, Vec<u8>)>,
}

impl Loop {
    fn open(owner: Owner, url: &str, cut: usize) -> Self {
        let scripted = ScriptedClient::of(owner);
        let url = Url::parse(url).expect("a URL");
        let mut client = Client::new(client::Config::new(url, [9; 32]));
        client.start(scripted.now);
        Self {
            scripted,
            client,
            cut,
            told: Vec::new(),
            frames: Vec::new(),
        }
    }

    /// Moves bytes until neither end sends any more.
    fn run(&mut self) {
        loop {
            let asked = self.client.output().to_vec();
            self.client.advance(asked.len());
            for piece in asked.chunks(self.cut) {
                self.scripted.feed(piece);
            }
            let answered = self.scripted.connection.transmit().to_vec();
            self.scripted.connection.advance(answered.len());
            self.receive(&answered);
            if asked.is_empty() && answered.is_empty() {
                return;
            }
        }
    }

    fn receive(&mut self, bytes: &[u8]) {
        let Self {
            scripted,
            client,
            cut,
            told,
            frames,
        } = self;
        for piece in bytes.chunks(*cut) {
            client.handle_data(scripted.now, piece, |frame| {
                frames.push((frame.track.get(), frame.control, frame.payload.to_vec()));
            });
            told.extend(std::iter::from_fn(|| client.poll_event()));
        }
    }

    fn play(&mut self, transport: impl Fn(u16) -> client::RequestedTransport) {
        self.run();
        let Some(client::Event::Described(description)) = self.told.last() else {
            panic!("{:?}", self.told);
        };
        let count = u16::try_from(description.tracks.len()).expect("few tracks");
        let tracks: Vec<_> = (0..count)
            .map(|track| (TrackIndex(track.into()), transport(track)))
            .collect();
        self.client.set_up(self.scripted.now, &tracks);
        self.run();
        assert!(
            matches!(self.told.last(), Some(client::Event::Playing { .. })),
            "{:?}",
            self.told
        );
        assert_eq!(self.scripted.connection.state(), State::Playing);
    }
}

#[test]
fn our_client_plays_within_the_connection() {
    for cut in [1, 7, 100_000] {
        let mut both = Loop::open(Owner::default(), CAM, cut);
        both.play(|_| client::RequestedTransport::Interleaved);
        let Some(client::Event::Playing { rtp_info, range }) = both.told.last() else {
            panic!("{:?}", both.told);
        };
        assert_eq!(range, &Some(Range::LIVE), "it said that it is live");
        let starts: Vec<_> = rtp_info
            .iter()
            .map(|info| (info.sequence, info.timestamp))
            .collect();
        assert_eq!(starts, [(Some(10), Some(100)), (Some(20), Some(200))]);

        let mut sent = Vec::new();
        for (channel, payload) in [(0, [1, 2].as_slice()), (3, &[3]), (2, &[])] {
            crate::interleaved::write_frame(&mut sent, channel, payload);
        }
        both.receive(&sent);
        let expected = [
            (0, false, vec![1, 2]),
            (1, true, vec![3]),
            (1, false, vec![]),
        ];
        assert_eq!(both.frames, expected);
        assert!(both.client.send_control(TrackIndex(1), &[5, 6]));
        both.run();
        assert_eq!(both.scripted.frames, [(1, true, vec![5, 6])]);

        // Keep-alives come in time, then a TEARDOWN.
        for _ in 0..10 {
            both.scripted.now = both.client.poll_timeout().expect("a keep-alive");
            both.client.handle_timeout(both.scripted.now);
            both.scripted.connection.handle_timeout(both.scripted.now);
            both.run();
        }
        assert_eq!(both.scripted.connection.state(), State::Playing);
        both.client.leave(both.scripted.now);
        both.run();
        assert_eq!(
            both.told.last(),
            Some(&client::Event::Closed(client::Closed::Left))
        );
        assert_eq!(both.scripted.connection.state(), State::Init);
    }
}

#[test]
fn our_client_plays_by_udp() {
    let mut both = Loop::open(
        Owner::default(),
        "rtsp://192.0.2.1:8554/dir/a%20file.mkv",
        64,
    );
    both.play(|track| client::RequestedTransport::Udp {
        ports: (5000 + track * 2, 5001 + track * 2),
    });
    assert_eq!(both.scripted.connection.path(), Some("dir/a file.mkv"));
    let ports = both.told.iter().filter_map(|event| match event {
        client::Event::SetUp { transport, .. } => transport.server_port,
        _ => None,
    });
    assert_eq!(ports.collect::<Vec<_>>(), [(6000, 6001), (6000, 6001)]);
    let transports: Vec<_> = both
        .scripted
        .connection
        .tracks()
        .iter()
        .map(|set_up| set_up.transport)
        .collect();
    let destination = [192, 0, 2, 7].into();
    assert_eq!(
        transports[1],
        SelectedTransport::Udp {
            client_ports: (5002, 5003),
            destination
        }
    );
}

#[test]
fn our_client_shows_who_it_is() {
    for (basic_over_plain, secure) in [(false, false), (false, true), (true, false)] {
        let mut owner = Owner {
            users: vec![("ann", "p:@w")],
            secure,
            ..Owner::default()
        };
        owner.config.basic_over_plain = basic_over_plain;
        let url = "rtsp://ann:p%3A%40w@192.0.2.1:8554/cam";
        let mut both = Loop::open(owner, url, 1000);
        both.play(|_| client::RequestedTransport::Interleaved);
        assert_eq!(both.scripted.connection.user(), Some("ann"));
    }
    let owner = Owner {
        users: vec![("ann", "right")],
        ..Owner::default()
    };
    let mut both = Loop::open(owner, "rtsp://ann:wrong@192.0.2.1:8554/cam", 1000);
    both.run();
    let user = "ann".to_owned();
    let refused = client::Closed::CredentialsRefused { user };
    assert_eq!(both.told, [client::Event::Closed(refused)]);
}

#[test]
fn our_client_takes_a_refusal() {
    let mut both = Loop::open(Owner::default(), "rtsp://192.0.2.1:8554/none", 1000);
    both.run();
    assert!(
        matches!(
            both.told[..],
            [client::Event::Closed(client::Closed::Refused {
                status: Status::NOT_FOUND,
                ..
            })]
        ),
        "{:?}",
        both.told
    );
}
