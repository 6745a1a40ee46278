//! A session of our RTSP client with the fake camera in virtual time: two minutes pass in milliseconds.
//!
//! What the server does around the client (new connections, redirects, reports) is not here.

use std::time::{Duration, Instant};

use glassline_media::TrackIndex;
use glassline_rtsp::client::{Client, Config, Event, RequestedTransport};

use super::camera::{Connection, Output};
use super::device::Device;
use super::quirk::Quirk;
use super::reader::Playing;
use super::row::{Row, Viewer, Way};
use super::scene::Case;
use super::sight::Sight;

/// Virtual time of a session: many keep-alives, and several rounds of the film.
const TIME: Duration = Duration::from_secs(120);

/// Longest time without a frame: no row makes the reader wait, but for a frame behind the next one.
const GAP_MAX: Duration = Duration::from_millis(200);

/// Longest wait for a response, as the server has it.
const PATIENCE: Duration = Duration::from_secs(5);

/// Ports of the first track at the client, by UDP; the others follow.
const PORTS: u16 = 7_000;

/// Whether a row is one of the client alone.
pub(crate) fn is_within_a_session(row: &Row) -> bool {
    let needs_the_server = row.quirks.iter().any(|quirk| {
        matches!(
            quirk,
            Quirk::NeedsReports(_)
                | Quirk::Restarts(_)
                | Quirk::Redirect(..)
                | Quirk::ClosesAfterChallenge
                | Quirk::From(_)
                | Quirk::OneSession
                | Quirk::WithinTls(_)
                | Quirk::NoVideo
        )
    });
    row.viewer == Viewer::Plays && !needs_the_server
}

/// Plays `case` for two minutes.
///
/// # Errors
/// Returns why the session ended, or what is wrong with its frames.
pub(crate) fn play(case: Case) -> Result<(), String> {
    let device = Device::new(case.row, case.video)?;
    let user = device.user_in_url();
    let url = format!("rtsp://{user}camera.example/live");
    let url = url.parse().map_err(|error| format!("{url}: {error}"))?;
    let begin = Instant::now();
    let mut config = Config::new(url, [7; 32]);
    config.response_timeout = PATIENCE;
    let mut session = Session {
        sight: Sight::of(case.row, device.media.clone()),
        connection: Connection::open(device, begin),
        client: Client::new(config),
        way: case.way,
        playing: None,
        playing_since: None,
        now: begin,
    };
    session.client.start(begin);
    while session.now < begin + TIME {
        session.exchange()?;
        session.sleep();
    }
    let since = session.playing_since.ok_or("PLAY was never granted")?;
    let gap = session.sight.gap;
    if gap > GAP_MAX {
        return Err(format!("no frame came for {gap:?}"));
    }
    session.sight.whole_film(session.now - since)
}

/// Both ends of a session, at one time.
struct Session {
    connection: Connection,
    client: Client,
    way: Way,
    playing: Option<Playing>,
    playing_since: Option<Instant>,
    sight: Sight,
    now: Instant,
}

impl Session {
    /// Moves what both ends send until neither has more.
    fn exchange(&mut self) -> Result<(), String> {
        loop {
            let sent = self.client.output().to_vec();
            self.client.advance(sent.len());
            if !sent.is_empty() {
                self.connection.take(self.now, &sent, (40_000, 40_001));
            }
            self.events()?;
            match self.connection.poll() {
                Some(output) => self.take(output),
                None if self.client.output().is_empty() => return Ok(()),
                None => {}
            }
        }
    }

    fn take(&mut self, output: Output) {
        let Session {
            client,
            playing,
            sight,
            now,
            ..
        } = self;
        match output {
            Output::Bytes(bytes) => client.handle_data(*now, &bytes, |frame| {
                if let Some(playing) = playing {
                    playing.take((frame.track, frame.control), frame.payload, *now, sight);
                }
            }),
            Output::Datagram {
                port,
                is_control,
                bytes,
            } => {
                if let Some(playing) = playing {
                    let track = TrackIndex(usize::from((port - PORTS) / 2));
                    playing.take((track, is_control), &bytes, *now, sight);
                }
            }
            Output::Close => client.handle_end(),
        }
    }

    fn events(&mut self) -> Result<(), String> {
        while let Some(event) = self.client.poll_event() {
            match event {
                Event::Described(description) => {
                    let mut playing = Playing::of(description.choose(|_| true).tracks)?;
                    let mut wanted = playing.wanted();
                    if self.way == Way::Udp {
                        playing.come_by_datagrams();
                        for (track, transport) in &mut wanted {
                            let port = PORTS + 2 * track.get() as u16;
                            let ports = (port, port + 1);
                            *transport = RequestedTransport::Udp { ports };
                        }
                    }
                    self.client.set_up(self.now, &wanted);
                    self.playing = Some(playing);
                }
                Event::Playing { .. } => self.playing_since = Some(self.now),
                Event::Closed(reason) => return Err(format!("the session ended: {reason}")),
                _ => {}
            }
        }
        Ok(())
    }

    /// Passes the time until something is due.
    fn sleep(&mut self) {
        let playing = self.playing.as_ref().and_then(Playing::deadline);
        let due = [
            self.client.poll_timeout(),
            self.connection.deadline(),
            playing,
        ];
        let next = due.into_iter().flatten().min();
        let second = self.now + Duration::from_secs(1);
        self.now = next.map_or(second, |at| at.clamp(self.now, second));
        self.client.handle_timeout(self.now);
        self.connection.turn(self.now);
        if let Some(playing) = &mut self.playing {
            playing.expire(self.now, &mut self.sight);
        }
    }
}
