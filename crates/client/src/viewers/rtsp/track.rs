use std::time::Instant;

use glassline_media::Ssrc;
use glassline_rtp::receive::ReceiveStatistics;
use glassline_rtp::rtcp::{self, ReceiverReport, ReportBlock, SourceDescription};
use glassline_rtp::{Header, SequenceExtender};

use crate::viewers::capture::SenderClock;

/// Reception state of one track.
#[derive(Debug)]
pub(super) struct Track {
    clock_rate: u32,
    source: Option<RtpSource>,
    /// Whether the source has sent RTCP BYE.
    pub(super) ended: bool,
}

/// One RTP source (SSRC); a server that restarts comes back with another.
#[derive(Debug)]
struct RtpSource {
    ssrc: Ssrc,
    sequences: SequenceExtender,
    statistics: ReceiveStatistics,
    /// Clock of its last sender report.
    clock: Option<SenderClock>,
}

impl Track {
    pub(super) const fn new(clock_rate: u32) -> Self {
        Self {
            clock_rate,
            source: None,
            ended: false,
        }
    }

    /// Counts a packet. Returns its extended sequence number if it was not received before.
    pub(super) fn take(&mut self, now: Instant, header: &Header, bytes: usize) -> Option<u64> {
        let clock_rate = self.clock_rate;
        if self
            .source
            .as_ref()
            .is_none_or(|old| old.ssrc != header.ssrc)
        {
            self.source = Some(RtpSource {
                ssrc: header.ssrc,
                sequences: SequenceExtender::new(),
                statistics: ReceiveStatistics::new(header.ssrc, clock_rate),
                clock: None,
            });
        }
        let source = self.source.as_mut()?;
        self.ended = false;
        let sequence = source.sequences.extend(header.sequence);
        let doubles = source.statistics.totals().duplicates;
        let statistics = &mut source.statistics;
        statistics.on_packet(sequence, header.timestamp, bytes, now);
        (statistics.totals().duplicates == doubles).then_some(sequence)
    }

    /// Handles the server's RTCP. Malformed packets are skipped.
    pub(super) fn take_control(&mut self, now: Instant, bytes: &[u8]) {
        let rate = self.clock_rate;
        for packet in rtcp::parse(bytes).flatten() {
            match packet {
                rtcp::Packet::SenderReport(report) => {
                    if let Some(source) = self.source_of(report.ssrc) {
                        source.statistics.on_sender_report(report.ntp, now);
                        source.clock = Some(SenderClock {
                            ntp: report.ntp,
                            rtp_timestamp: report.rtp_timestamp,
                            rate,
                        });
                    }
                }
                rtcp::Packet::Bye(bye) => {
                    self.ended |= bye.sources.iter().any(|&ssrc| self.is_source(ssrc));
                }
                _ => {}
            }
        }
    }

    pub(super) fn clock(&self) -> Option<SenderClock> {
        self.source.as_ref()?.clock
    }

    /// Report block about the source, for the next receiver report.
    pub(super) fn report(&mut self, now: Instant) -> Option<ReportBlock> {
        self.source.as_mut()?.statistics.report_block(now)
    }

    fn source_of(&mut self, ssrc: Ssrc) -> Option<&mut RtpSource> {
        self.source.as_mut().filter(|source| source.ssrc == ssrc)
    }

    fn is_source(&self, ssrc: Ssrc) -> bool {
        self.source
            .as_ref()
            .is_some_and(|source| source.ssrc == ssrc)
    }
}

/// Writes a compound packet of a receiver: report and CNAME, which RFC 3550 §6.1 requires.
pub(super) fn write_report(ssrc: Ssrc, cname: &str, block: Option<ReportBlock>) -> Vec<u8> {
    let mut packet = Vec::with_capacity(64);
    let report = ReceiverReport {
        ssrc,
        reports: block.into_iter().collect(),
    };
    report.write(&mut packet);
    SourceDescription::cname(ssrc, cname.as_bytes()).write(&mut packet);
    packet
}
