//! Reports of a viewer, joined to spans of a second. Peers that add a report to each request for lost
//! packets send many in a moment, each about few packets.

use std::time::{Duration, Instant};

/// Shortest time that a span of reports covers.
const SPAN: Duration = Duration::from_millis(900);

/// Joins the reports of a viewer on one track.
#[derive(Debug, Default)]
pub(crate) struct ReportWindow {
    span: Option<Span>,
}

/// The beginning of a span, and its reports so far.
#[derive(Clone, Copy, Debug)]
struct Span {
    began: Instant,
    /// Packets that had been sent, and those that were reported lost.
    sent: u64,
    lost: i64,
    /// Least round trip of the reports since.
    round_trip: Option<Duration>,
}

impl ReportWindow {
    /// Takes a report, by which `lost` packets are lost since the beginning, duplicates subtracted;
    /// `sent` packets have left so far. Returns the share of packets that were lost in the span, 0 to 1,
    /// and its least round trip, if the report ends a span.
    pub(crate) fn take(
        &mut self,
        sent: u64,
        lost: i32,
        round_trip: Duration,
        now: Instant,
    ) -> Option<(f64, Duration)> {
        let lost = i64::from(lost);
        let next = Span {
            began: now,
            sent,
            lost,
            round_trip: None,
        };
        let span = self.span.get_or_insert(next);
        let least = span.round_trip.map_or(round_trip, |it| it.min(round_trip));
        span.round_trip = Some(least);
        let fresh = sent.saturating_sub(span.sent);
        if fresh == 0 || now.saturating_duration_since(span.began) < SPAN {
            return None;
        }
        let lost = lost.saturating_sub(span.lost).max(0);
        self.span = Some(next);
        Some(((lost as f64 / fresh as f64).min(1.0), least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_reports_in_a_moment_count_as_one() {
        let start = Instant::now();
        let ms = Duration::from_millis;
        let mut window = ReportWindow::default();
        assert_eq!(window.take(1_000, 7, ms(300), start), None, "the beginning");
        for (at, sent, lost, round_trip) in [(20, 1_002, 8, 310), (40, 1_004, 9, 290)] {
            assert_eq!(
                window.take(sent, lost, ms(round_trip), start + ms(at)),
                None
            );
        }
        let span = window.take(1_100, 10, ms(400), start + ms(1_000));
        assert_eq!(span, Some((0.03, ms(290))));
        let duplicates = window.take(1_200, 4, ms(300), start + ms(2_000));
        assert_eq!(duplicates, Some((0.0, ms(300))));
        assert_eq!(
            window.take(1_200, 4, ms(300), start + ms(3_000)),
            None,
            "silence"
        );
        let all = window.take(1_210, i32::MAX, ms(300), start + ms(4_000));
        assert_eq!(all, Some((1.0, ms(300))));
    }
}
