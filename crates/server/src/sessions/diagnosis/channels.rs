//! Data channels that were agreed on and never opened.

use std::time::Duration;

use glassline_events::failures::Stage;
use glassline_sctp::Report;

use super::Diagnosis;

/// Says why no data channel could open: SCTP, which carries them, has not begun `waited` after the
/// offer. `refusal` is how the association ended, if it ended.
pub(in crate::sessions) fn never_opened(
    report: &Report,
    refusal: Option<&str>,
    waited: Duration,
) -> Diagnosis {
    let (arrived, dropped) = (report.packets_received, report.dropped);
    let (sent, within) = (report.packets_sent, waited.as_secs());
    let (cause, remedy) = if let Some(refusal) = refusal {
        (
            format!("the association ended before it was established: {refusal}"),
            "the log of the client says why its end refused; both ends must speak SCTP as RFC 8831 has it",
        )
    } else if arrived == 0 {
        (
            format!(
                "no packet of the client arrived within {within} s, and none of our {sent} was answered"
            ),
            "a client whose offer has m=application must begin SCTP after the handshake: create a data channel \
             before the offer, or leave m=application out of it",
        )
    } else {
        (
            format!(
                "{arrived} packets of the client arrived within {within} s, of which {dropped} were not \
                 understood, and the association was not established"
            ),
            "the client must finish the handshake of SCTP (INIT, COOKIE ECHO): its log says where it stopped",
        )
    };
    Diagnosis::new(
        Stage::Media,
        format!("SCTP: connected, but the data channels of the offer never opened: {cause}"),
        remedy,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_that_never_open_tell_what_arrived() {
        let told = |received, dropped, refusal| {
            let mut report = Report::default();
            report.packets_sent = 4;
            report.packets_received = received;
            report.dropped = dropped;
            let found = never_opened(&report, refusal, Duration::from_secs(12));
            (found.reason, found.remedy.unwrap_or_default())
        };
        let (silent, remedy) = told(0, 0, None);
        assert!(
            silent.ends_with(
                "no packet of the client arrived within 12 s, and none of our 4 was answered"
            ),
            "{silent}"
        );
        assert!(remedy.contains("m=application"), "{remedy}");
        let (partly, remedy) = told(3, 2, None);
        assert!(
            partly.contains("3 packets of the client arrived within 12 s, of which 2"),
            "{partly}"
        );
        assert!(remedy.contains("COOKIE ECHO"), "{remedy}");
        let (refused, _) = told(1, 0, Some("aborted by the peer"));
        assert!(
            refused.ends_with("established: aborted by the peer"),
            "{refused}"
        );
    }
}
