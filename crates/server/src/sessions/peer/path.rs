//! What is known of the path to a peer, and where it is shown.

use std::time::Instant;

use glassline_egress::webrtc::ReceptionReport;
use glassline_latency::{LatencyRegistry, PathView, SelectedPath};

use super::role::Role;
use super::{PATH_SHOWN, Peer};

impl Peer {
    /// Takes a report of the peer on how it receives a track, of which `fraction_lost` was lost.
    pub(super) fn take_reception(
        &mut self,
        report: ReceptionReport,
        fraction_lost: u8,
        now: Instant,
        latencies: &LatencyRegistry,
    ) {
        if let Role::Viewer(viewer) = &mut self.role {
            viewer.sender.on_reception(report, &mut self.session, now);
        }
        self.rtt = report.round_trip.or(self.rtt);
        self.lost = self.lost.max(Some(fraction_lost));
        let soon = |at: Instant| now.saturating_duration_since(at) < PATH_SHOWN;
        if !self.selected_shown.is_some_and(soon) {
            self.show_selected(now, latencies);
        }
    }

    /// Publishes the ICE candidate pair that carries the peer's datagrams.
    pub(super) fn show_selected(&mut self, now: Instant, latencies: &LatencyRegistry) {
        if matches!(self.role, Role::DataPublisher(_) | Role::Publisher(_)) {
            return;
        }
        if let Some(path) = self.session.path() {
            self.selected_shown = Some(now);
            let mut path = SelectedPath::of(&path, self.rtt, self.lost.take());
            if let Role::Viewer(viewer) = &self.role {
                path.fec_percent = viewer.sender.fec_percent();
            }
            latencies.show_selected(self.listed_name(), &self.id, path);
        }
    }

    /// Publishes the state of the path to this viewer, once a second, as far as it is known.
    pub(super) fn show_path(&mut self, now: Instant, latencies: &LatencyRegistry) {
        let Role::Viewer(viewer) = &mut self.role else {
            return;
        };
        let soon = |at: Instant| now.saturating_duration_since(at) < PATH_SHOWN;
        if viewer.path_shown.is_some_and(soon) {
            return;
        }
        if let Some(report) = self.session.path_report() {
            viewer.path_shown = Some(now);
            let mut view = PathView::of(&report);
            view.layer = viewer.layer_view(&self.session, &self.stream, now);
            latencies.show_path(viewer.listed_under(&self.stream), &self.id, view, now);
        }
    }
}
