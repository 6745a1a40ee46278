//! RTCP to who sends RTP to the server: how the packets arrive, and that a keyframe is wanted.
//!
//! ```text
//! SourceReceiver: statistics ─► receiver report, CNAME ─┬► PLI or FIR ─► publisher, camera
//! hub: a keyframe is wanted, frames are damaged ────────┘
//! ```
//!
//! Either request follows a report, so that each compound packet is valid by RFC 3550 §6.1.

use std::time::{Duration, Instant};

use glassline_media::{Ssrc, TrackIndex};
use glassline_rtp::receive::SourceReceiver;
use glassline_rtp::rtcp::{
    Bye, FullIntraRequest, PictureLossIndication, ReceiverReport, ReportBlock, SourceDescription,
};
use glassline_rtsp::sdp;

/// Shortest interval between two keyframe requests, so that the encoder does not make one for each
/// of many viewers.
const KEYFRAME_INTERVAL: Duration = Duration::from_secs(1);

/// The SSRC and canonical name under which the server reports to a source (RFC 3550 §6.4 and §6.5.1).
#[derive(Clone, Debug)]
pub struct Reporter {
    /// SSRC of the reports.
    pub ssrc: Ssrc,
    /// Canonical name of the reporting end.
    pub cname: String,
}

/// The request by which a source is asked for a keyframe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyframeRequest {
    /// PLI (RFC 4585 §6.3.1).
    Pli,
    /// FIR (RFC 5104 §4.3.1).
    Fir,
}

impl KeyframeRequest {
    /// Returns the request that a source says it takes; `None` if it says nothing.
    pub(super) fn offered(offered: sdp::Feedback) -> Option<Self> {
        match (offered.pli, offered.fir) {
            (true, _) => Some(Self::Pli),
            (false, true) => Some(Self::Fir),
            (false, false) => None,
        }
    }
}

/// The feedback to one source.
#[derive(Debug)]
pub(super) struct Feedback {
    reporter: Reporter,
    /// Mean interval between reports.
    interval: Duration,
    /// Time of the next report; `None` before the first call.
    report_at: Option<Instant>,
    request: Option<KeyframeRequest>,
    keyframe_wanted: bool,
    keyframe_requested_at: Option<Instant>,
    full_intra_number: u8,
}

/// A compound packet for the source of a track.
#[derive(Debug)]
pub(super) struct Compound {
    pub(super) track: TrackIndex,
    pub(super) bytes: Vec<u8>,
    /// Whether the packet asks for a keyframe.
    pub(super) asks: bool,
}

impl Feedback {
    /// Creates the feedback state. Reports follow each other in `interval` on average; keyframes are
    /// asked for by `request`.
    pub(super) fn new(
        reporter: Reporter,
        interval: Duration,
        request: Option<KeyframeRequest>,
    ) -> Self {
        Self {
            reporter,
            interval,
            report_at: None,
            request,
            keyframe_wanted: false,
            keyframe_requested_at: None,
            full_intra_number: 0,
        }
    }

    /// Returns whether the source can be asked for keyframes.
    pub(super) const fn asks_for_keyframes(&self) -> bool {
        self.request.is_some()
    }

    /// Begins to report. Most sources begin with a keyframe; one that does not is asked for it.
    pub(super) fn start(&mut self, now: Instant) {
        self.keyframe_requested_at = Some(now);
    }

    /// Sets whether a keyframe is wanted.
    pub(super) fn set_keyframe_wanted(&mut self, wanted: bool) {
        self.keyframe_wanted = wanted;
    }

    /// Returns the compound packets that are due now, one for each track. A request for a keyframe is in
    /// that of the first track, if that is video. `spread` is 0.5 to 1.5, drawn at random: the next
    /// reports follow after so many mean intervals, and the first ones after half of that (RFC 3550 §6.2
    /// and §6.3.1).
    pub(super) fn poll(
        &mut self,
        packets: &mut SourceReceiver,
        has_video: bool,
        now: Instant,
        spread: f64,
    ) -> Vec<Compound> {
        let reports = self.poll_report(now, spread);
        let video = packets.pipeline(TrackIndex(0)).filter(|_| has_video);
        let has_source = video.is_some_and(|video| video.source().is_some());
        let asks = has_source && self.poll_keyframe(now);
        let mut due = Vec::new();
        if !reports && !asks {
            return due;
        }
        for (track, pipeline) in packets.pipelines_mut() {
            let asks = asks && track == TrackIndex(0);
            let Some(source) = pipeline.source().filter(|_| reports || asks) else {
                continue;
            };
            let block = if reports {
                pipeline.report_block(now)
            } else {
                None
            };
            let mut bytes = self.report(block);
            if asks {
                self.ask_for_keyframe(source, &mut bytes);
            }
            due.push(Compound { track, bytes, asks });
        }
        due
    }

    /// Returns when [`Self::poll`] has reports; `None` before its first call.
    pub(super) const fn deadline(&self) -> Option<Instant> {
        self.report_at
    }

    /// Returns the packet by which the server leaves the session (RFC 3550 §6.6).
    pub(super) fn goodbye(&self) -> Vec<u8> {
        let mut out = self.report(None);
        let bye = Bye {
            sources: vec![self.reporter.ssrc],
            reason: &[],
        };
        bye.write(&mut out);
        out
    }

    fn poll_report(&mut self, now: Instant, spread: f64) -> bool {
        let is_due = self.report_at.is_some_and(|at| at <= now);
        let mean = match self.report_at {
            None => Some(self.interval / 2),
            Some(_) => is_due.then_some(self.interval),
        };
        if let Some(mean) = mean {
            self.report_at = Some(now + mean.mul_f64(spread.clamp(0.5, 1.5)));
        }
        is_due
    }

    /// Returns whether a keyframe is to be requested now.
    fn poll_keyframe(&mut self, now: Instant) -> bool {
        let requested = self.keyframe_requested_at;
        let recent =
            requested.is_some_and(|at| now.saturating_duration_since(at) < KEYFRAME_INTERVAL);
        if !self.keyframe_wanted || recent || self.request.is_none() {
            return false;
        }
        self.keyframe_wanted = false;
        self.keyframe_requested_at = Some(now);
        true
    }

    /// Returns a receiver report with `block`, if any packet came yet, and the server's canonical
    /// name.
    fn report(&self, block: Option<ReportBlock>) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        let reports = block.into_iter().collect();
        ReceiverReport {
            ssrc: self.reporter.ssrc,
            reports,
        }
        .write(&mut out);
        SourceDescription::cname(self.reporter.ssrc, self.reporter.cname.as_bytes())
            .write(&mut out);
        out
    }

    /// Appends the request for a keyframe of the SSRC `media`.
    fn ask_for_keyframe(&mut self, media: Ssrc, out: &mut Vec<u8>) {
        let sender = self.reporter.ssrc;
        match self.request {
            None => {}
            Some(KeyframeRequest::Pli) => {
                PictureLossIndication { sender, media }.write(out);
            }
            Some(KeyframeRequest::Fir) => {
                let requests = vec![(media, self.full_intra_number)];
                FullIntraRequest { sender, requests }.write(out);
                self.full_intra_number = self.full_intra_number.wrapping_add(1);
            }
        }
    }
}
