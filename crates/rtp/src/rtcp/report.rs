use std::time::Duration;

use glassline_media::{NtpTime, Ssrc};

use super::{RawPacket, packet_type, put_u32, write_packet};
use crate::ParseError;

/// Most report blocks in one report: the count has five bits.
pub const REPORTS_MAX: usize = 31;

/// Sender report: what a sender has sent, and the calendar time of its RTP timestamps (RFC 3550
/// §6.4.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SenderReport {
    /// SSRC of the sender.
    pub ssrc: Ssrc,
    /// Wall-clock time of this report.
    pub ntp: NtpTime,
    /// RTP timestamp of the instant `ntp`.
    pub rtp_timestamp: u32,
    /// Number of RTP packets sent so far, wrapping.
    pub packet_count: u32,
    /// Number of payload bytes sent so far, wrapping.
    pub octet_count: u32,
    /// The reports about media that the sender receives from others; at most [`REPORTS_MAX`] blocks are
    /// written.
    pub reports: Vec<ReportBlock>,
}

impl SenderReport {
    pub(super) fn parse(raw: RawPacket<'_>) -> Result<Self, ParseError> {
        raw.need("sender report", 0, SENDER_BYTES)?;
        Ok(Self {
            ssrc: raw.ssrc(0),
            ntp: NtpTime(u64::from(raw.u32(4)) << 32 | u64::from(raw.u32(8))),
            rtp_timestamp: raw.u32(12),
            packet_count: raw.u32(16),
            octet_count: raw.u32(20),
            reports: ReportBlock::parse_all(raw, SENDER_BYTES)?,
        })
    }

    /// Appends the report to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let (count, reports) = counted(&self.reports);
        write_packet(out, count, packet_type::SENDER_REPORT, |out| {
            put_u32(out, self.ssrc.0);
            out.extend_from_slice(&self.ntp.0.to_be_bytes());
            put_u32(out, self.rtp_timestamp);
            put_u32(out, self.packet_count);
            put_u32(out, self.octet_count);
            reports.iter().for_each(|report| report.write(out));
        });
    }
}

/// Receiver report: what a participant that sends no media receives (RFC 3550 §6.4.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiverReport {
    /// SSRC of the receiver.
    pub ssrc: Ssrc,
    /// One block for each source that is received; at most [`REPORTS_MAX`] are written.
    pub reports: Vec<ReportBlock>,
}

impl ReceiverReport {
    pub(super) fn parse(raw: RawPacket<'_>) -> Result<Self, ParseError> {
        raw.need("receiver report", 0, RECEIVER_BYTES)?;
        Ok(Self {
            ssrc: raw.ssrc(0),
            reports: ReportBlock::parse_all(raw, RECEIVER_BYTES)?,
        })
    }

    /// Appends the report to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let (count, reports) = counted(&self.reports);
        write_packet(out, count, packet_type::RECEIVER_REPORT, |out| {
            put_u32(out, self.ssrc.0);
            reports.iter().for_each(|report| report.write(out));
        });
    }
}

/// Report block: how one source is received (RFC 3550 §6.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportBlock {
    /// SSRC of the source that is described.
    pub ssrc: Ssrc,
    /// Fraction of packets lost since the last report, in 1/256.
    pub fraction_lost: u8,
    /// Number of packets lost since the start, minus duplicates; −2²³..2²³, clamped when
    /// written.
    pub cumulative_lost: i32,
    /// Highest sequence number received, with the number of wraps in the upper 16 bits.
    pub highest_sequence: u32,
    /// Interarrival jitter, in ticks of the source's RTP clock.
    pub jitter: u32,
    /// Middle 32 bits of the NTP time in the last sender report; 0 if none was received yet.
    pub last_sr: u32,
    /// Time from the arrival of that report until this block was sent, in 1/65,536 s.
    pub delay_since_last_sr: u32,
}

impl ReportBlock {
    /// Returns the round-trip time between the reported source and the reporter, at the source.
    /// `now` is the NTP time at which the block arrived.
    ///
    /// `None` before the reporter has received a sender report, or if the result is above an
    /// hour or more than a millisecond negative (clocks that step, or nonsense). Values less
    /// below zero are due to rounding and returned as zero.
    pub fn round_trip(&self, now: NtpTime) -> Option<Duration> {
        if self.last_sr == 0 {
            return None;
        }
        let units = now
            .compact()
            .wrapping_sub(self.last_sr)
            .wrapping_sub(self.delay_since_last_sr);
        let units = match units as i32 {
            -64..=0 => 0,
            1..=HOUR => units,
            _ => return None,
        };
        Some(Duration::from_nanos(
            (u64::from(units) * 1_000_000_000) >> 16,
        ))
    }

    fn parse_all(raw: RawPacket<'_>, start: usize) -> Result<Vec<Self>, ParseError> {
        let count = usize::from(raw.format);
        raw.need("report blocks", start, count * BLOCK_BYTES)?;
        Ok((0..count)
            .map(|index| Self::parse(raw, start + index * BLOCK_BYTES))
            .collect())
    }

    fn parse(raw: RawPacket<'_>, at: usize) -> Self {
        let loss = raw.u32(at + 4);
        Self {
            ssrc: raw.ssrc(at),
            fraction_lost: (loss >> 24) as u8,
            // Shifting up and back extends the sign of the 24 bits.
            cumulative_lost: (loss << 8) as i32 >> 8,
            highest_sequence: raw.u32(at + 8),
            jitter: raw.u32(at + 12),
            last_sr: raw.u32(at + 16),
            delay_since_last_sr: raw.u32(at + 20),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let lost = self.cumulative_lost.clamp(-0x80_0000, 0x7f_ffff) as u32 & 0xff_ffff;
        put_u32(out, self.ssrc.0);
        put_u32(out, u32::from(self.fraction_lost) << 24 | lost);
        put_u32(out, self.highest_sequence);
        put_u32(out, self.jitter);
        put_u32(out, self.last_sr);
        put_u32(out, self.delay_since_last_sr);
    }
}

/// An hour in 1/65,536 s.
const HOUR: i32 = 3600 << 16;
/// Length of a sender report in front of its report blocks, without the RTCP header, in bytes.
const SENDER_BYTES: usize = 24;
/// Length of a receiver report in front of its report blocks, without the RTCP header, in
/// bytes.
const RECEIVER_BYTES: usize = 4;
/// Length of a report block in bytes.
const BLOCK_BYTES: usize = 24;

/// Returns the blocks that fit one packet, and their number.
fn counted(reports: &[ReportBlock]) -> (u8, &[ReportBlock]) {
    let reports = &reports[..reports.len().min(REPORTS_MAX)];
    (reports.len() as u8, reports)
}
