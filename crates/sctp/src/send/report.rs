use super::Sender;
use crate::Report;

impl Sender {
    /// Adds round trips, windows and counters to a report.
    pub(crate) fn fill_report(&self, report: &mut Report) {
        let trips = self.flow.round_trips();
        report.rtt = trips.smoothed();
        report.rtt_min = trips.least();
        report.rtt_latest = trips.latest();
        report.rto = self.rto();
        report.cwnd = self.flow.window();
        report.in_flight = self.flow.in_flight();
        report.pacing_rate = self.flow.pacing_rate();
        report.peer_rwnd = self.peer_room();
        report.buffered = self.send_queue.buffered_total() as u64;
        report.unacknowledged = self.outstanding.bytes() as u64;
        report.mtu = self.mtu;
        report.data_sent = self.counts.data_sent;
        report.retransmitted = self.counts.retransmitted;
        report.lost = self.counts.lost;
        report.spurious = self.counts.spurious;
        report.timeouts = self.counts.timeouts;
        report.probes = self.counts.probes;
        report.abandoned = self.counts.abandoned;
        report.sacks_received = self.counts.sacks;
        report.interleaving = self.interleaving;
    }
}
