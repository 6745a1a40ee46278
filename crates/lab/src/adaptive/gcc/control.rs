//! The congestion control of libwebrtc, as the crate `goog_cc` has it, in virtual time.
//!
//! Its detector of application-limited times reads the real clock, where a run takes milliseconds: such
//! times all seem to begin at the start of the run, so that probes of them come at once instead of after
//! some seconds.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use glassline_media::Bitrate;
use goog_cc::network_control::{NetworkControllerConfig, NetworkControllerInterface as _};
use goog_cc::transport::{
    NetworkAvailability, NetworkControlUpdate, PacedPacketInfo, PacketResult, ProbeClusterConfig,
    ProcessInterval, RoundTripTimeUpdate, SentPacket, StreamsConfig, TargetRateConstraints,
    TransportPacketsFeedback,
};
use goog_cc::units::{DataRate, DataSize, TimeDelta, Timestamp};
use goog_cc::{GoogCcConfig, GoogCcNetworkController};

use crate::adaptive::receipts::Receipt;

/// Time of the controller at the start of a run: its clock may not begin at zero.
const EPOCH_US: i64 = 1_000_000_000;
/// Interval of the controller's own turns.
const INTERVAL: Duration = Duration::from_millis(25);
/// Estimate before the first feedback, as libwebrtc has it.
const START: i64 = 300_000;
const LEAST: i64 = 30_000;
/// Bytes of the IP and UDP headers.
const HEADERS: i64 = 28;
/// Time after which a probe that was not sent is given up.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// The controller, and what it needs to know of packets.
pub(super) struct Control {
    controller: GoogCcNetworkController,
    start: Instant,
    sent: BTreeMap<u64, SentPacket>,
    in_flight: i64,
    due: Instant,
    probes: VecDeque<Probe>,
    /// Rate at which packets leave.
    pub(super) pacing: Bitrate,
    /// Rate that the path is believed to carry.
    pub(super) target: Bitrate,
}

/// A cluster of packets that leave faster than the media, to measure the path.
#[derive(Debug)]
pub(super) struct Probe {
    config: ProbeClusterConfig,
    created: Instant,
    packets: i32,
    bytes: i64,
    /// When the next packets leave.
    next: Instant,
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control")
            .field("pacing", &self.pacing)
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

impl Control {
    /// Returns a controller for a sender that would send `most`, from `now` on.
    pub(super) fn new(most: Bitrate, start: Instant, now: Instant) -> Self {
        let at_time = timestamp(start, now);
        let most = i64::try_from(most.bps()).unwrap_or(i64::MAX);
        let config = NetworkControllerConfig {
            constraints: TargetRateConstraints {
                at_time,
                min_data_rate: Some(DataRate::from_bits_per_sec(LEAST)),
                max_data_rate: None,
                starting_rate: Some(DataRate::from_bits_per_sec(START)),
            },
            stream_based_config: StreamsConfig {
                at_time,
                requests_alr_probing: Some(true),
                pacing_factor: Some(2.5),
                max_total_allocated_bitrate: Some(DataRate::from_bits_per_sec(most)),
                ..StreamsConfig::default()
            },
            ..NetworkControllerConfig::default()
        };
        let start_rate = Bitrate::from_bps(START.unsigned_abs());
        let mut control = Self {
            controller: GoogCcNetworkController::new(config, GoogCcConfig::default()),
            start,
            sent: BTreeMap::new(),
            in_flight: 0,
            due: now,
            probes: VecDeque::new(),
            pacing: Bitrate::from_bps(start_rate.bps() * 5 / 2),
            target: start_rate,
        };
        let available = NetworkAvailability {
            at_time,
            network_available: true,
        };
        let update = control.controller.on_network_availability(available);
        control.follow(update, now);
        control.handle_timeout(now);
        control
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) is due.
    pub(super) const fn due(&self) -> Instant {
        self.due
    }

    /// Gives the controller its turn.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if self.due > now {
            return;
        }
        self.due = now + INTERVAL;
        let update = self.controller.on_process_interval(ProcessInterval {
            at_time: timestamp(self.start, now),
            pacer_queue: None,
        });
        self.follow(update, now);
    }

    /// Notes that packet `number` of a datagram of `bytes` was sent, as part of the present probe if
    /// there is one.
    pub(super) fn on_sent(&mut self, number: u64, bytes: usize, now: Instant) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX) + HEADERS;
        let pacing_info = self
            .probes
            .front_mut()
            .map_or_else(PacedPacketInfo::default, |probe| probe.on_sent(bytes, now));
        if self.probes.front().is_some_and(Probe::is_done) {
            self.probes.pop_front();
        }
        let packet = SentPacket {
            send_time: timestamp(self.start, now),
            size: DataSize::from_bytes(bytes),
            pacing_info,
            sequence_number: i64::try_from(number).unwrap_or(i64::MAX),
            data_in_flight: DataSize::from_bytes(self.in_flight + bytes),
            ..SentPacket::default()
        };
        self.in_flight += bytes;
        self.sent.insert(number, packet);
        let update = self.controller.on_sent_packet(packet);
        self.follow(update, now);
    }

    /// Takes feedback that names `named` packets, of which those that are not in `receipts` are lost. Of
    /// packets before, nothing is known.
    pub(super) fn on_feedback(&mut self, receipts: &[Receipt], named: u32, now: Instant) {
        let numbers = || receipts.iter().map(|it| it.number);
        let (Some(oldest), Some(newest)) = (numbers().min(), numbers().max()) else {
            return;
        };
        let later = self.sent.split_off(&(newest + 1));
        let mut known = std::mem::replace(&mut self.sent, later);
        let first = (newest + 1).saturating_sub(named.into()).min(oldest);
        let reported = known.split_off(&first);
        self.in_flight -= known.values().map(|it| it.size.bytes()).sum::<i64>();
        let mut results: Vec<PacketResult> = Vec::with_capacity(reported.len());
        for (number, sent_packet) in reported {
            self.in_flight -= sent_packet.size.bytes();
            let receipt = receipts.iter().find(|it| it.number == number);
            let mut result = PacketResult {
                sent_packet,
                ..PacketResult::default()
            };
            if let Some(receipt) = receipt {
                result.receive_time = timestamp(self.start, receipt.at);
            }
            results.push(result);
        }
        let feedback = TransportPacketsFeedback {
            feedback_time: timestamp(self.start, now),
            data_in_flight: DataSize::from_bytes(self.in_flight.max(0)),
            packet_feedbacks: results,
            ..TransportPacketsFeedback::default()
        };
        let update = self.controller.on_transport_packets_feedback(feedback);
        self.follow(update, now);
    }

    /// Takes a round-trip time of a receiver report.
    pub(super) fn on_round_trip(&mut self, round_trip: Duration, now: Instant) {
        let micros = i64::try_from(round_trip.as_micros()).unwrap_or(i64::MAX);
        let update = self
            .controller
            .on_round_trip_time_update(RoundTripTimeUpdate {
                receive_time: timestamp(self.start, now),
                round_trip_time: TimeDelta::from_micros(micros.max(1)),
                smoothed: false,
            });
        self.follow(update, now);
    }

    /// Returns the probe that is to be sent now.
    pub(super) fn probe(&mut self, now: Instant) -> Option<&Probe> {
        let is_late = |probe: &Probe| now.saturating_duration_since(probe.created) > PROBE_TIMEOUT;
        while self.probes.front().is_some_and(is_late) {
            self.probes.pop_front();
        }
        self.probes.front()
    }

    fn follow(&mut self, update: NetworkControlUpdate, now: Instant) {
        let rate = |rate: DataRate| Bitrate::from_bps(rate.bps().unsigned_abs());
        if let Some(pacer) = update.pacer_config {
            self.pacing = rate(pacer.data_rate());
        }
        if let Some(target) = update.target_rate {
            self.target = rate(target.target_rate);
        }
        for config in update.probe_cluster_configs {
            self.probes.push_back(Probe {
                config,
                created: now,
                packets: 0,
                bytes: 0,
                next: now,
            });
        }
    }
}

impl Probe {
    /// Returns when the next packet of the probe leaves.
    pub(super) const fn next(&self) -> Instant {
        self.next
    }

    fn is_done(&self) -> bool {
        let wanted = self.config.target_data_rate.bps() / 8 * self.config.target_duration.us();
        self.bytes >= wanted / 1_000_000 && self.packets >= self.config.target_probe_count
    }

    fn on_sent(&mut self, bytes: i64, now: Instant) -> PacedPacketInfo {
        let rate = self.config.target_data_rate;
        let config = &self.config;
        let least = rate.bps() / 8 * config.target_duration.us() / 1_000_000;
        let mut info = PacedPacketInfo::new(config.id, config.target_probe_count.into(), least);
        info.send_bitrate = rate;
        info.probe_cluster_bytes_sent = self.bytes;
        self.bytes += bytes;
        self.packets += 1;
        let span = bytes.unsigned_abs() * 8_000_000 / rate.bps().unsigned_abs().max(1);
        self.next = self.next.max(now) + Duration::from_micros(span);
        info
    }
}

fn timestamp(start: Instant, at: Instant) -> Timestamp {
    let since = at.saturating_duration_since(start).as_micros();
    Timestamp::from_micros(EPOCH_US + i64::try_from(since).unwrap_or(i64::MAX / 2))
}
