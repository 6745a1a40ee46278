//! Raw frames through an encoder that nothing waits for.
//!
//! ```text
//! capture ── newest frame ─► slot of one ─► encoder thread ─► units
//!              an older frame in it is dropped, and counted
//! ```

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use glassline_demux::y4m::{Frame, Header};
use glassline_media::{Codec, Track, VideoParameters};
use parking_lot::{Condvar, Mutex};

use super::{Error, NAP, SourceContext, SourceControl, SourceCounters, ThreadRole};
use crate::publish::encoder::{Config, Encoder, OpenH264};
use crate::publish::input::Spec;
use crate::publish::pattern::Pattern;
use crate::publish::unit::Unit;

/// Length of a group of pictures, unless a keyframe is requested earlier.
const KEYFRAME_INTERVAL: Duration = Duration::from_secs(2);

/// A frame that owns its planes.
#[derive(Debug, Default)]
struct Raw {
    y: Vec<u8>,
    u: Vec<u8>,
    v: Vec<u8>,
    stride: usize,
    chroma_stride: usize,
    /// When the frame was captured, or due.
    at: Option<Instant>,
}

impl Raw {
    /// Copies a frame into the planes' existing memory.
    fn set(&mut self, frame: Frame<'_>, at: Instant) {
        let planes = [&mut self.y, &mut self.u, &mut self.v];
        for (own, plane) in planes.into_iter().zip([frame.y, frame.u, frame.v]) {
            own.clear();
            own.extend_from_slice(plane);
        }
        (self.stride, self.chroma_stride) = (frame.stride, frame.chroma_stride);
        self.at = Some(at);
    }

    fn frame(&self) -> Frame<'_> {
        Frame {
            y: &self.y,
            u: &self.u,
            v: &self.v,
            stride: self.stride,
            chroma_stride: self.chroma_stride,
        }
    }
}

/// Slot for the newest frame, and for the end.
#[derive(Debug, Default)]
struct FrameSlot {
    state: Mutex<SlotState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct SlotState {
    /// The frame that waits, if its `at` is set.
    waiting: Raw,
    /// How the frames ended, once they have.
    ended: Option<Result<(), Error>>,
    /// Whether the encoder has ended.
    abandoned: bool,
}

impl FrameSlot {
    /// Waits for the next frame and swaps it with `used`; returns the end once there are no
    /// more frames.
    fn take(&self, used: &mut Raw, control: &SourceControl) -> Option<Result<(), Error>> {
        let mut state = self.state.lock();
        loop {
            if state.waiting.at.is_some() {
                used.at = None;
                std::mem::swap(used, &mut state.waiting);
                return None;
            }
            if let Some(how) = state.ended.take() {
                return Some(how);
            }
            if control.is_stopped() {
                return Some(Ok(()));
            }
            self.changed.wait_for(&mut state, NAP);
        }
    }
}

/// Sending end for captured frames. Dropping it ends the stream.
pub(super) struct RawFrameSender {
    slot: Arc<FrameSlot>,
    counters: Arc<SourceCounters>,
}

impl RawFrameSender {
    /// Hands a frame, captured `at`, to the encoder; returns false if the encoder has ended.
    pub(super) fn send(&self, frame: Frame<'_>, at: Instant) -> bool {
        let mut state = self.slot.state.lock();
        if state.waiting.at.is_some() {
            SourceCounters::add(&self.counters.raw_dropped);
        }
        state.waiting.set(frame, at);
        self.slot.changed.notify_one();
        !state.abandoned
    }

    /// Notes that no further frame comes, and how the source ended.
    pub(super) fn end(self, how: Result<(), Error>) {
        self.slot.state.lock().ended = Some(how);
    }
}

impl Drop for RawFrameSender {
    fn drop(&mut self) {
        self.slot.state.lock().ended.get_or_insert(Ok(()));
        self.slot.changed.notify_one();
    }
}

/// Starts an encoder for video of `header`, `fps` frames per second.
pub(super) fn start(
    header: Header,
    fps: f64,
    spec: &Spec,
    context: &SourceContext,
) -> Result<(Track, RawFrameSender), Error> {
    if !(spec.carries)(&Track::new(Codec::H264)) {
        return Err(Error::Codec { codec: Codec::H264 });
    }
    let config = Config {
        width: header.width,
        height: header.height,
        fps,
        full_range: header.full_range,
        bitrate: context.control.target(),
        keyframe_interval: KEYFRAME_INTERVAL,
    };
    let encoder = OpenH264::new(config)?;
    let slot = Arc::new(FrameSlot::default());
    let raw_frames = RawFrameSender {
        slot: Arc::clone(&slot),
        counters: Arc::clone(&context.counters),
    };
    context.spawn("encoder", ThreadRole::Primary, move |context| {
        let how = encode(Box::new(encoder), &slot, context);
        slot.state.lock().abandoned = true;
        how
    })?;
    let track = Track::h264(VideoParameters {
        width: header.width,
        height: header.height,
        ..VideoParameters::default()
    });
    Ok((track, raw_frames))
}

/// Encodes frames until the end.
fn encode(
    mut encoder: Box<dyn Encoder>,
    slot: &FrameSlot,
    context: &SourceContext,
) -> Result<(), Error> {
    let mut raw = Raw::default();
    let mut first = None;
    loop {
        if let Some(how) = slot.take(&mut raw, &context.control) {
            return how;
        }
        let Some(at) = raw.at else { continue };
        let first = *first.get_or_insert(at);
        encoder.set_bitrate(context.control.target());
        if context.control.take_keyframe() {
            encoder.request_keyframe();
        }
        let shown = at.saturating_duration_since(first);
        let Some(encoded) = encoder.encode(raw.frame(), shown)? else {
            context.counters.skipped.fetch_add(1, Ordering::Relaxed);
            continue;
        };
        let unit = Unit {
            track: context.video,
            time: context.timeline.place(at),
            keyframe: encoded.keyframe,
            data: encoded.data,
            made: at,
        };
        if !context.deliver(unit) {
            return Ok(());
        }
    }
}

/// Draws the test pattern and encodes it.
pub(super) fn play_pattern(
    width: u32,
    height: u32,
    fps: u32,
    spec: &Spec,
    context: &SourceContext,
) -> Result<Track, Error> {
    let header = Header {
        width: width & !1,
        height: height & !1,
        rate: None,
        full_range: false,
    };
    let fps = fps.max(1);
    let (track, raw_frames) = start(header, f64::from(fps), spec, context)?;
    // One pass is ten seconds, like the built-in clip.
    let once = spec.once.then_some(fps.saturating_mul(10));
    context.spawn("pattern", ThreadRole::Auxiliary, move |context| {
        let mut pattern = Pattern::new(header.width, header.height, fps);
        let begun = context.began();
        for number in 0..once.unwrap_or(u32::MAX) {
            let due = begun + Duration::from_secs(1) * number / fps;
            if !context.control.sleep_until(due) || !raw_frames.send(pattern.draw(number), due) {
                break;
            }
        }
        Ok(())
    })?;
    Ok(track)
}
