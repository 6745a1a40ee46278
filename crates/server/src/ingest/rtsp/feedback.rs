use std::time::{Duration, Instant};

use glassline_media::Ssrc;
use glassline_rtp::rtcp::{
    FullIntraRequest, PictureLossIndication, ReceiverReport, ReportBlock, SourceDescription,
};
use glassline_rtsp::sdp;

use super::Reporter;

/// Mean interval between receiver reports, as between the server's sender reports. RFC 3550 §6.2
/// allows it to a session of more than 180 kbit/s; audio next to it in a session of its own takes
/// 0.4 kbit/s.
const REPORT_INTERVAL: Duration = Duration::from_secs(2);

/// Shortest interval between two keyframe requests, so that the encoder does not make one for each
/// of many viewers.
const KEYFRAME_INTERVAL: Duration = Duration::from_secs(1);

/// RTCP feedback to a publisher: how its packets arrive, and that a keyframe is wanted.
///
/// Keyframes are requested by PLI (RFC 4585 §6.3.1) from every publisher, though most announce
/// plain RTP/AVP without `rtcp-fb`: RTSP's ANNOUNCE has no answer in which the two could agree on
/// more. GStreamer's `rtspclientsink` (1.22) offers nothing; by UDP it makes the keyframe all the
/// same, and within its connection it ignores RTCP. FFmpeg (5.1) ignores RTCP altogether. Others
/// ignore what they do not know, as RFC 3550 §6.1 requires. FIR (RFC 5104 §4.3.1) is for publishers
/// that announce FIR and no PLI. Either request follows a report, so that each compound packet is
/// valid by RFC 3550.
#[derive(Debug)]
pub(super) struct Feedback {
    reporter: Reporter,
    /// Time of the next report; `None` before RECORD.
    report_at: Option<Instant>,
    by_full_intra_request: bool,
    keyframe_wanted: bool,
    keyframe_requested_at: Option<Instant>,
    full_intra_number: u8,
}

impl Feedback {
    /// Creates the feedback state. `announced` is the feedback that the publisher's video
    /// description offers to take.
    pub(super) fn new(reporter: Reporter, announced: sdp::Feedback) -> Self {
        Self {
            reporter,
            report_at: None,
            by_full_intra_request: announced.fir && !announced.pli,
            keyframe_wanted: false,
            keyframe_requested_at: None,
            full_intra_number: 0,
        }
    }

    /// Begins to report. Most publishers begin with a keyframe; one that does not is asked for it.
    pub(super) fn start(&mut self, now: Instant) {
        self.keyframe_requested_at = Some(now);
    }

    /// Sets whether a keyframe is wanted.
    pub(super) fn set_keyframe_wanted(&mut self, wanted: bool) {
        self.keyframe_wanted = wanted;
    }

    /// Returns whether reports are due. The next ones follow after `spread` (0.5 to 1.5, drawn at
    /// random) times the mean interval (RFC 3550 §6.3.1).
    pub(super) fn poll_report(&mut self, now: Instant, spread: f64) -> bool {
        let is_due = self.report_at.is_some_and(|at| at <= now);
        if is_due || self.report_at.is_none() {
            self.report_at = Some(now + REPORT_INTERVAL.mul_f64(spread.clamp(0.5, 1.5)));
        }
        is_due
    }

    /// Returns whether a keyframe is to be requested now.
    pub(super) fn poll_keyframe(&mut self, now: Instant) -> bool {
        let requested = self.keyframe_requested_at;
        let recent =
            requested.is_some_and(|at| now.saturating_duration_since(at) < KEYFRAME_INTERVAL);
        if !self.keyframe_wanted || recent {
            return false;
        }
        self.keyframe_wanted = false;
        self.keyframe_requested_at = Some(now);
        true
    }

    /// Returns a receiver report with `block`, if any packet came yet, and the server's canonical
    /// name.
    pub(super) fn report(&self, block: Option<ReportBlock>) -> Vec<u8> {
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
    pub(super) fn ask_for_keyframe(&mut self, media: Ssrc, out: &mut Vec<u8>) {
        let sender = self.reporter.ssrc;
        if !self.by_full_intra_request {
            PictureLossIndication { sender, media }.write(out);
            return;
        }
        let requests = vec![(media, self.full_intra_number)];
        FullIntraRequest { sender, requests }.write(out);
        self.full_intra_number = self.full_intra_number.wrapping_add(1);
    }
}
