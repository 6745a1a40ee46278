//! An RTSP player of the server's stream, which looks at every frame.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use glassline_media::{Kind, Track, TrackIndex};
use glassline_rtp::units::{TimedUnit, UnitReceiver};
use glassline_rtsp::client::{Client, Config, Event, RequestedTransport};

use super::sight::Sight;

/// Longest wait before the clock is looked at.
const TURN: Duration = Duration::from_millis(20);

/// The tracks of a playing session, up to the frames.
pub(crate) struct Playing {
    described: Vec<TrackIndex>,
    tracks: Vec<Track>,
    source: UnitReceiver,
}

impl Playing {
    /// Chooses the tracks as the server does.
    pub(crate) fn of(chosen: Vec<(TrackIndex, Track)>) -> Result<Playing, String> {
        let (described, tracks): (Vec<_>, Vec<_>) = chosen.into_iter().unzip();
        Ok(Playing {
            described,
            source: UnitReceiver::new(&tracks).map_err(|error| error.to_string())?,
            tracks,
        })
    }

    /// Notes that the packets come by UDP.
    pub(crate) fn come_by_datagrams(&mut self) {
        for track in TrackIndex::first(self.tracks.len()) {
            self.source.packets().come_by_datagrams(track);
        }
    }

    /// The tracks as SETUP wants them, in the connection.
    pub(crate) fn wanted(&self) -> Vec<(TrackIndex, RequestedTransport)> {
        let described = self.described.iter();
        described
            .map(|track| (*track, RequestedTransport::Interleaved))
            .collect()
    }

    /// Takes a packet of the described track.
    pub(crate) fn take(
        &mut self,
        (track, is_control): (TrackIndex, bool),
        bytes: &[u8],
        now: Instant,
        sight: &mut Sight,
    ) {
        let mut described = self.described.iter();
        let Some(track) = described.position(|it| *it == track).map(TrackIndex) else {
            return;
        };
        let tracks = &self.tracks;
        self.source.take(track, is_control, bytes, now, |unit| {
            show(tracks, &unit, now, sight);
        });
    }

    /// Returns when [`Self::expire`] must be called.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.source.deadline()
    }

    /// Gives up packets that are missing for too long.
    pub(crate) fn expire(&mut self, now: Instant, sight: &mut Sight) {
        let tracks = &self.tracks;
        self.source
            .expire(now, |unit| show(tracks, &unit, now, sight));
    }
}

/// Adds a unit to what was seen: the bytes of video, and the number of other units.
fn show(tracks: &[Track], unit: &TimedUnit, now: Instant, sight: &mut Sight) {
    match tracks[unit.track.get()].kind() {
        Kind::Video => sight.take(&unit.data, unit.time, now),
        _ => sight.sounds += 1,
    }
}

/// Plays `url` and fills `sight` until `time` has passed since the first frame, or until
/// `deadline`.
///
/// # Errors
/// Returns why the session did not begin, or ended.
pub(crate) fn watch(
    url: &str,
    sight: &mut Sight,
    time: Duration,
    deadline: Instant,
) -> Result<(), String> {
    let url: url::Url = url.parse().map_err(|error| format!("{url}: {error}"))?;
    let address = (
        url.host_str().unwrap_or_default(),
        url.port().unwrap_or(554),
    );
    let mut stream = TcpStream::connect(address).map_err(|error| error.to_string())?;
    let timeout = stream.set_read_timeout(Some(TURN));
    timeout.map_err(|error| error.to_string())?;
    let mut client = Client::new(Config::new(url.clone(), [0; 32]));
    client.start(Instant::now());
    let mut playing: Option<Playing> = None;
    let mut buffer = vec![0; 64 << 10];
    loop {
        let now = Instant::now();
        if sight.seen_for(now) >= time || now >= deadline {
            sight.note_gap(now);
            client.leave(now);
            let _ = stream.write_all(client.output());
            return Ok(());
        }
        let waits = client.output().len();
        let written = stream.write_all(client.output());
        written.map_err(|error| format!("the connection to the server: {error}"))?;
        client.advance(waits);
        match stream.read(&mut buffer) {
            Ok(0) => client.handle_end(),
            Ok(count) => client.handle_data(Instant::now(), &buffer[..count], |frame| {
                if let Some(playing) = &mut playing {
                    let track = (frame.track, frame.control);
                    playing.take(track, frame.payload, Instant::now(), sight);
                }
            }),
            Err(_) => client.handle_timeout(Instant::now()),
        }
        while let Some(event) = client.poll_event() {
            match event {
                Event::Described(description) => {
                    let described = Playing::of(description.choose(|_| true).tracks)?;
                    client.set_up(Instant::now(), &described.wanted());
                    playing = Some(described);
                }
                Event::Closed(reason) => return Err(format!("the server's stream: {reason}")),
                _ => {}
            }
        }
    }
}
