//! What came back from a player since PLAY, and whether its end means that it received nothing.
//!
//! By UDP the server cannot see what arrives. It knows what it sent, whether a receiver report says
//! that some of it came (RFC 3550 §6.4.2), and whether the network says that the player's port is
//! closed. A player without RTCP that plays and leaves after a while looks like one whose firewall
//! drops every packet, and is given the benefit of the doubt.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use glassline_events::failures::Stage;
use glassline_hub::State;
use glassline_rtp::rtcp::{self, Packet};

use super::failures::Explained;

/// Time within which a player sends its first receiver report: half of the shortest interval of 5 s,
/// times 1.5 at most, divided by 1.22 (RFC 3550 §6.3.1), and a second for the way.
const REPORT_DUE: Duration = Duration::from_secs(4);

/// Longest time for which players wait for the first packet by UDP before they give up, or try TCP:
/// GStreamer waits 5 s, FFmpeg and live555 (VLC) 10 s.
const PLAYERS_WAIT: Duration = Duration::from_secs(15);

/// Time for which the network must say that a port is closed. The ports of a player that is killed
/// are closed just before its connection.
const REFUSED_SPAN: Duration = Duration::from_secs(1);

/// Time after PLAY in which the stream must send something.
const MEDIA_DUE: Duration = Duration::from_secs(5);

/// The remedy where datagrams do not arrive.
const USE_TCP: &str = "have the player use TCP (ffmpeg: -rtsp_transport tcp, VLC: --rtsp-tcp), or let UDP from \
                       the server's port through to it";

/// The reports of a player, and the errors of the network.
#[derive(Debug, Default)]
pub(super) struct Reception {
    /// When the player began to play, and its position in the stream then; `None` before PLAY.
    begun: Option<(Instant, u64)>,
    /// Whether a report of the player said that packets arrive.
    is_reported: bool,
    /// When the network said first and last that the player's port for media is closed.
    refused: Option<(Instant, Instant)>,
    is_noted: bool,
}

/// Whether and how a player's session has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Departure {
    /// The session goes on.
    NotYet,
    /// The player left.
    Left,
    /// The player sent nothing for so long that its session ended.
    TimedOut(Duration),
}

/// A player's session as the server sees it.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    pub(super) departure: Departure,
    /// Where the first track goes by UDP; `None` if the tracks go within the connection, or to groups.
    pub(super) by_udp: Option<SocketAddr>,
    /// Whether the tracks go to groups, which the session's own packets do not tell.
    pub(super) is_multicast: bool,
    /// The player's position in the stream.
    pub(super) position: u64,
    /// Packets of media that were sent since PLAY.
    pub(super) packets: u64,
    pub(super) state: State,
}

impl Reception {
    /// Notes that the player begins to play at a position of the stream.
    pub(super) fn begin(&mut self, position: u64, now: Instant) {
        self.begun = Some((now, position));
        self.refused = None;
    }

    /// Notes an RTCP packet of the player, which must be authentic if the track has SRTP.
    pub(super) fn note_control(&mut self, bytes: &[u8]) {
        // A report without blocks is sent before anything has arrived, to open a path through a NAT.
        self.is_reported = self.is_reported
            || rtcp::parse(bytes).flatten().any(|packet| match packet {
                Packet::ReceiverReport(report) => !report.reports.is_empty(),
                Packet::SenderReport(report) => !report.reports.is_empty(),
                _ => false,
            });
    }

    /// Notes that the network says that the player's port for media is closed.
    pub(super) fn note_refused(&mut self, now: Instant) {
        let (first, _) = self.refused.unwrap_or((now, now));
        self.refused = Some((first, now));
    }

    /// Remembers that a failure was noted: a session has one at most.
    pub(super) fn set_noted(&mut self) {
        self.is_noted = true;
    }

    /// Returns why the player received nothing; `None` if it may have received something, or if that
    /// is not known yet.
    pub(super) fn explain(&self, seen: &Observed, now: Instant) -> Option<Explained> {
        let (begun, first) = self.begun.filter(|_| !self.is_noted)?;
        let span = now.saturating_duration_since(begun);
        let is_silent = match seen.is_multicast {
            true => seen.position <= first,
            false => seen.packets == 0,
        };
        if is_silent {
            return (span >= MEDIA_DUE).then(|| nothing_sent(seen, seen.position > first, span));
        }
        let to = seen.by_udp.filter(|_| !self.is_reported)?;
        let sent = format!(
            "PLAY by UDP to {to}: {} packets were sent within {} s",
            seen.packets,
            span.as_secs_f64().ceil()
        );
        if let Some((first, latest)) = self.refused
            && latest.saturating_duration_since(first) >= REFUSED_SPAN
        {
            let reason = format!(
                "{sent}, and the network answered that this port is closed (ICMP port unreachable)"
            );
            return Some((Stage::Media, reason, Some(USE_TCP)));
        }
        let end = match seen.departure {
            Departure::Left if (REPORT_DUE..=PLAYERS_WAIT).contains(&span) => {
                "no receiver report came, and the player left".to_owned()
            }
            Departure::TimedOut(silence) => format!(
                "no receiver report came, and the session ended after {} s without a request",
                silence.as_secs()
            ),
            Departure::NotYet | Departure::Left => return None,
        };
        let reason = format!("{sent}, {end}: a firewall may drop them");
        Some((Stage::Media, reason, Some(USE_TCP)))
    }
}

/// Says that the stream sent nothing. `is_moving`: units came that no decoder can begin with.
fn nothing_sent(seen: &Observed, is_moving: bool, span: Duration) -> Explained {
    let what = match is_moving {
        true => "the stream had no keyframe to begin with",
        false => "the stream had nothing to send",
    };
    let detail = seen.state.detail().map(|it| format!(": {it}"));
    let reason = format!(
        "PLAY was granted, but {what} within {} s; it is {}{}",
        span.as_secs(),
        seen.state.as_str(),
        detail.unwrap_or_default()
    );
    let remedy = match is_moving {
        true => "set the encoder's keyframe interval to 1 or 2 s",
        false => "look at the source: GET /api/v1/streams has its state",
    };
    (Stage::Media, reason, Some(remedy))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const TO: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 0, 0, 5)), 5000);

    /// A player by UDP that was sent this many packets.
    fn seen(departure: Departure, packets: u64) -> Observed {
        Observed {
            departure,
            by_udp: Some(TO),
            is_multicast: false,
            position: packets,
            packets,
            state: State::Connecting,
        }
    }

    fn reception(now: Instant) -> Reception {
        let mut reception = Reception::default();
        reception.begin(0, now);
        reception
    }

    #[track_caller]
    fn says(explained: Option<Explained>, reason: &str, remedy: &str) {
        let (stage, why, known) = explained.expect("a failure");
        assert_eq!(stage, Stage::Media);
        assert!(why.contains(reason), "{why}");
        assert!(known.is_some_and(|it| it.contains(remedy)), "{known:?}");
    }

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// A receiver report (RFC 3550 §6.4.2) with a block about one source, or without.
    fn report(has_block: bool) -> Vec<u8> {
        let words = if has_block { 7 } else { 1 };
        let mut packet = vec![0; 4 + 4 * words];
        packet[0] = 0x80 | u8::from(has_block);
        packet[1] = 201;
        packet[3] = u8::try_from(words).expect("few");
        packet
    }

    #[test]
    fn a_player_by_udp_that_gives_up_without_a_report_is_told_of_firewalls() {
        let start = Instant::now();
        let reception = reception(start);
        for after in [s(5), s(10)] {
            let why = reception.explain(&seen(Departure::Left, 1240), start + after);
            let sent = format!(
                "PLAY by UDP to 10.0.0.5:5000: 1240 packets were sent within {} s, no receiver report came",
                after.as_secs()
            );
            says(why, &sent, "-rtsp_transport tcp");
        }
        let why = reception.explain(&seen(Departure::TimedOut(s(60)), 9), start + s(70));
        says(why, "after 60 s without a request", "TCP");
    }

    #[test]
    fn a_player_that_may_have_played_is_no_failure() {
        let start = Instant::now();
        let mut reception = reception(start);
        let left = seen(Departure::Left, 900);
        // Too soon for a report, and after a while without RTCP.
        for span in [s(0), s(3), s(16), s(3600)] {
            assert_eq!(reception.explain(&left, start + span), None, "{span:?}");
        }
        assert_eq!(
            reception.explain(&seen(Departure::NotYet, 900), start + s(10)),
            None
        );
        let within = Observed {
            by_udp: None,
            ..left.clone()
        };
        assert_eq!(reception.explain(&within, start + s(10)), None, "by TCP");
        reception.note_control(&report(false));
        reception.note_control(b"not RTCP");
        assert!(reception.explain(&left, start + s(10)).is_some());
        reception.note_control(&report(true));
        assert_eq!(reception.explain(&left, start + s(10)), None);
    }

    #[test]
    fn a_port_that_stays_closed_is_told_at_once_and_one_of_a_killed_player_is_not() {
        let start = Instant::now();
        let mut reception = reception(start);
        let plays = seen(Departure::NotYet, 40);
        for ms in [0, 100, 900] {
            let now = start + Duration::from_millis(ms);
            reception.note_refused(now);
            assert_eq!(reception.explain(&plays, now), None);
        }
        reception.note_refused(start + s(1));
        let why = reception.explain(&plays, start + s(1));
        says(why, "port is closed (ICMP", "TCP");
        reception.set_noted();
        assert_eq!(reception.explain(&plays, start + s(2)), None, "once");
    }

    #[test]
    fn a_stream_that_sends_nothing_is_told_while_the_player_waits() {
        let start = Instant::now();
        let reception = reception(start);
        let silent = Observed {
            state: State::Down {
                detail: "no answer".to_owned(),
            },
            ..seen(Departure::NotYet, 0)
        };
        assert_eq!(reception.explain(&silent, start + s(4)), None);
        let why = reception.explain(&silent, start + s(5));
        says(
            why,
            "nothing to send within 5 s; it is down: no answer",
            "source",
        );
        let without_keyframe = Observed {
            position: 80,
            by_udp: None,
            ..silent.clone()
        };
        let why = reception.explain(&without_keyframe, start + s(6));
        says(why, "no keyframe to begin with within 6 s", "interval");
        // A group's packets are not the session's own.
        let group = Observed {
            is_multicast: true,
            ..without_keyframe
        };
        assert_eq!(reception.explain(&group, start + s(9)), None);
    }
}
