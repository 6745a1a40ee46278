use std::time::{Duration, Instant};

use glassline_media::Ssrc;
use glassline_rtp::rtcp::{
    FullIntraRequest, PictureLossIndication, ReceiverReport, ReportBlock, SourceDescription,
};
use glassline_rtsp::sdp;

use super::Reporter;

/// Mean time between receiver reports, as between our sender reports. RFC 3550 §6.2
/// lets a session of more than 180 kbit/s report that often, and audio beside it in a
/// session of its own takes 0.4 kbit/s.
const REPORT_INTERVAL: Duration = Duration::from_secs(2);

/// A keyframe was asked for and is being made: an encoder that made one for each of
/// many viewers would send little else.
const KEYFRAME_INTERVAL: Duration = Duration::from_secs(1);

/// What a publisher is told: how its packets arrive, and that a keyframe is wanted.
///
/// Keyframes are asked for by PLI (RFC 4585 §6.3.1) of everybody, though most announce
/// plain RTP/AVP without `rtcp-fb`: RTSP's ANNOUNCE has no answer in which the two could
/// agree on more. GStreamer's `rtspclientsink` (1.22) offers nothing and by UDP makes the
/// keyframe all the same; within its connection it passes over RTCP. FFmpeg (5.1) passes
/// over all of it. Others ignore what they do not know, as RFC 3550 §6.1 has them do.
/// FIR (RFC 5104 §4.3.1) is for those who announce it and no PLI. Either stands behind
/// a report, so that nobody gets a compound that RFC 3550 does not have.
#[derive(Debug)]
pub(super) struct Feedback {
    reporter: Reporter,
    /// `None` before RECORD.
    report_at: Option<Instant>,
    by_full_intra_request: bool,
    keyframe_wanted: bool,
    keyframe_asked: Option<Instant>,
    full_intra_number: u8,
}

impl Feedback {
    /// `announced` is the feedback that the publisher of the video offers to take.
    pub(super) fn new(reporter: Reporter, announced: sdp::Feedback) -> Self {
        Self {
            reporter,
            report_at: None,
            by_full_intra_request: announced.fir && !announced.pli,
            keyframe_wanted: false,
            keyframe_asked: None,
            full_intra_number: 0,
        }
    }

    /// The publisher begins: with a keyframe, as most do, and if none comes it is asked.
    pub(super) fn start(&mut self, now: Instant) {
        self.keyframe_asked = Some(now);
    }

    /// A keyframe is wanted now, or there is one and it is not any more.
    pub(super) fn set_keyframe_wanted(&mut self, wanted: bool) {
        self.keyframe_wanted = wanted;
    }

    /// Whether reports are due; the next ones are `spread` (0.5 to 1.5, drawn by
    /// chance) of the mean interval away (RFC 3550 §6.3.1).
    pub(super) fn poll_report(&mut self, now: Instant, spread: f64) -> bool {
        let is_due = self.report_at.is_some_and(|at| at <= now);
        if is_due || self.report_at.is_none() {
            self.report_at = Some(now + REPORT_INTERVAL.mul_f64(spread.clamp(0.5, 1.5)));
        }
        is_due
    }

    /// Whether a keyframe is to be asked for now.
    pub(super) fn poll_keyframe(&mut self, now: Instant) -> bool {
        let asked = self.keyframe_asked;
        let recent = asked.is_some_and(|at| now.saturating_duration_since(at) < KEYFRAME_INTERVAL);
        if !self.keyframe_wanted || recent {
            return false;
        }
        self.keyframe_wanted = false;
        self.keyframe_asked = Some(now);
        true
    }

    /// A report of `block`, if anything came yet, with our name.
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

    /// Appends the request to `media` for a keyframe.
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
