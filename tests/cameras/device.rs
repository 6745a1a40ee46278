//! A fake camera: what it films, and what it remembers of all its connections.

use std::sync::{Arc, Mutex, PoisonError};

use super::media::Media;
use super::packet_source::{PacketSource, sound_of};
use super::row::{Row, Video};
use super::sound::SoundTrack;

/// A camera of a row.
pub(crate) struct Device {
    pub(crate) row: &'static Row,
    pub(crate) media: Arc<Media>,
    sound: Option<Arc<SoundTrack>>,
    ledger: Mutex<Ledger>,
}

/// The ledger of a camera about its clients.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) connections: usize,
    pub(crate) keep_alives: usize,
    /// RTCP packets of the clients.
    pub(crate) reports: usize,
    pub(crate) teardowns: usize,
    /// Sessions whose connection ended without TEARDOWN.
    pub(crate) left_behind: usize,
    /// Requests that were refused because a session was there.
    pub(crate) refused: usize,
    /// Requests to another host than the source's that had credentials.
    pub(crate) told_elsewhere: usize,
    /// Whether a session was set up and not ended by TEARDOWN.
    pub(crate) busy: bool,
}

impl Device {
    pub(crate) fn new(row: &'static Row, video: Video) -> Result<Arc<Device>, String> {
        let sound = sound_of(row).map(SoundTrack::make).transpose()?;
        Ok(Arc::new(Device {
            row,
            media: Media::of(row.film, video)?,
            sound: sound.map(Arc::new),
            ledger: Mutex::default(),
        }))
    }

    /// Reads or changes what the camera remembers.
    pub(crate) fn ledger<T>(&self, look: impl FnOnce(&mut Ledger) -> T) -> T {
        look(&mut self.ledger.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A stream from its beginning.
    pub(crate) fn packets(&self) -> PacketSource {
        PacketSource::new(self.row, Arc::clone(&self.media), self.sound.clone())
    }
}
