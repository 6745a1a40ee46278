//! Summary of a run in a few sentences.

use crate::viewers::bottleneck::Bottleneck;
use crate::viewers::step::Step;

/// Summarizes a run in a few sentences; `stopped` is the reason why the ramp ended early.
pub fn summary(steps: &[Step], stopped: Option<&str>) -> String {
    let Some(first) = steps.first() else {
        return "Nothing was measured.".to_owned();
    };
    // An earlier step that was not delivered was a temporary disturbance, and no limit.
    let mut text = match steps.iter().rposition(Step::is_delivered) {
        Some(best) => {
            let next = steps.get(best + 1);
            let limit = match next.or(Some(&steps[best])) {
                Some(step) if step.bottleneck != Bottleneck::None => limit_of(step),
                _ => "No limit was reached".to_owned(),
            };
            format!("{}. {limit}.", achieved(&steps[best]))
        }
        None => format!("{}.", limit_of(first)),
    };
    if first.rtp_clock_ratio > 1.0 {
        text += &format!(
            " The stream's RTP clock runs {:.1} times as fast as time, which is taken out of what \
             is said here.",
            first.rtp_clock_ratio
        );
    }
    if let Some(stopped) = stopped {
        text += &format!(" The ramp ended early: {stopped}.");
    }
    text
}

fn achieved(step: &Step) -> String {
    let cost = match step.server_cpu_ms_per_viewer_second {
        Some(cost) => format!(", {cost:.2} ms of server CPU per viewer-second"),
        None => String::new(),
    };
    let gap = match step.gap_ms.p99 {
        Some(gap) => format!(", p99 gap {gap:.0} ms"),
        None => String::new(),
    };
    format!(
        "{} viewers at delivered ratio {:.4}{gap}{cost}",
        step.viewers,
        step.delivered_of_clock()
    )
}

fn limit_of(step: &Step) -> String {
    let (viewers, reason) = (step.viewers, &step.reason);
    match step.bottleneck {
        Bottleneck::Server => format!("The server's limit is below {viewers} viewers: {reason}"),
        Bottleneck::None => format!("{viewers} viewers: {reason}"),
        short => format!(
            "The server's limit was not found, because at {viewers} viewers the {} was the \
             bottleneck: {reason}",
            short.name()
        ),
    }
}
