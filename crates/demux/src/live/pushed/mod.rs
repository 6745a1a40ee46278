//! Media whose bytes are pushed, as from a socket.

use std::path::{Path, PathBuf};

use glassline_media::Track;

use crate::container::transport::PushedTransport;
use crate::error::Fault;
use crate::live::arriving::ArrivingUnits;
use crate::{Error, Frame, Warning};

/// Media in ns for which the first keyframe of announced video is waited for.
const VIDEO_WAIT_NS: i64 = 10_000_000_000;

/// The frames of an MPEG transport stream whose bytes are pushed as they arrive.
///
/// The bytes may be cut anywhere, and packets may be lost between two pushes: frames of which a part
/// is lost are left out, and [`Frame::after_loss`] says so at the next one. Nothing is handed out
/// before the first keyframe of the video, which is waited for during ten seconds of sound. Memory is bounded by the bytes of one push, a frame of each track, and a
/// second of media while the tracks are not known. An error ends the demuxer.
///
/// # Example
///
/// ```
/// use std::path::Path;
///
/// use glassline_demux::PushedDemuxer;
///
/// # fn datagrams() -> Vec<Vec<u8>> { Vec::new() }
/// let mut demuxer = PushedDemuxer::transport_stream(Path::new("udp port 5000"));
/// for datagram in datagrams() {
///     demuxer.push(&datagram)?;
///     while let Some(frame) = demuxer.next_frame() {
///         println!("{} bytes of {}", frame.data.len(), demuxer.tracks()[frame.track].codec);
///     }
/// }
/// # Ok::<(), glassline_demux::Error>(())
/// ```
pub struct PushedDemuxer {
    name: PathBuf,
    transport: PushedTransport,
    units: ArrivingUnits,
    is_settled: bool,
    /// Time of the first unit that waits for the tracks to be known.
    waiting_since_ns: Option<i64>,
}

impl PushedDemuxer {
    /// Creates a demuxer of an MPEG transport stream. `name`: the source in errors and warnings.
    pub fn transport_stream(name: &Path) -> Self {
        Self {
            name: name.to_owned(),
            transport: PushedTransport::with_losses(),
            units: ArrivingUnits::default(),
            is_settled: false,
            waiting_since_ns: None,
        }
    }

    /// Takes the next bytes. An empty slice does nothing.
    ///
    /// # Errors
    /// The bytes are no transport stream, or it has nothing that is played.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        match bytes {
            [] => Ok(()),
            bytes => self.take(bytes).map_err(|fault| fault.of(&self.name)),
        }
    }

    /// Ends the stream: the frames that were waiting for further bytes are complete.
    ///
    /// # Errors
    /// The stream had no frame.
    pub fn finish(&mut self) -> Result<(), Error> {
        let ended = self.take(&[]).and_then(|()| self.settle());
        ended.map_err(|fault| fault.of(&self.name))
    }

    /// Returns the tracks, video first. There are none before the first frame.
    pub fn tracks(&self) -> &[Track] {
        &self.units.tracks
    }

    /// Returns the next frame that is complete. Frames come in the order of the stream.
    pub fn next_frame(&mut self) -> Option<Frame> {
        self.is_settled.then(|| self.units.next_frame()).flatten()
    }

    /// Takes the warnings since the last call, which are meant for the user.
    pub fn take_warnings(&mut self) -> Vec<Warning> {
        let mut warnings = self.transport.take_warnings();
        warnings.append(&mut self.units.jumps);
        warnings.of(&self.name).collect()
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.transport.push(bytes);
        while self.transport.advance(&mut self.units.waiting)? {
            // Behind each packet, so that it makes no difference how the bytes are cut.
            if !self.is_settled {
                self.settle_if_known()?;
            }
        }
        Ok(())
    }

    fn settle_if_known(&mut self) -> Result<(), Fault> {
        let Some(latest_ns) = self.units.waiting.back().map(|unit| unit.start_ns) else {
            return Ok(());
        };
        let since_ns = *self.waiting_since_ns.get_or_insert(latest_ns);
        if self.transport.awaits_video() && latest_ns - since_ns < VIDEO_WAIT_NS {
            // Whoever joins within a group of pictures gets its sound first.
            self.units.forget_old();
            return Ok(());
        }
        let has_all = self.transport.has_all_tracks();
        let tracks = self.transport.tracks().len();
        match self.units.is_settled(tracks, has_all) {
            true => self.settle(),
            false => Ok(()),
        }
    }

    fn settle(&mut self) -> Result<(), Fault> {
        if !self.is_settled {
            self.units.settle(&self.transport.tracks())?;
            self.is_settled = true;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
