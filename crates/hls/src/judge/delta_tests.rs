use super::test_playlist::{live, live_with, media, names};
use super::*;

fn of_delta(edit: impl Fn(String) -> String) -> Vec<&'static str> {
    of_delta_after(&live(7, 12, 1), edit)
}

/// Judges a delta update for a client that has `known`.
fn of_delta_after(known: &str, edit: impl Fn(String) -> String) -> Vec<&'static str> {
    let known = media(known);
    let full = media(&live(7, 12, 2));
    let delta = live_with(7, 12, 2, edit);
    let mut findings = Findings::default();
    judge_delta(&media(&delta), &known, &full, &mut findings);
    names(findings)
}

/// Leaves out the first `count` segments of [`live`] from 7 on.
fn skipping(count: u64) -> impl Fn(String) -> String {
    let seen = std::cell::Cell::new(0);
    move |line| {
        let is_of_segment = line.starts_with("#EXTINF")
            || line.starts_with("#EXT-X-PROGRAM")
            || !line.starts_with('#');
        if line.starts_with("#EXT-X-MAP") {
            return format!("#EXT-X-SKIP:SKIPPED-SEGMENTS={count}");
        }
        if is_of_segment && seen.get() < count {
            seen.set(seen.get() + u64::from(!line.starts_with('#')));
            return String::new();
        }
        line
    }
}

#[test]
fn a_delta_update_must_complete_to_the_full_playlist() {
    assert_eq!(of_delta(skipping(6)), [""; 0]);
    assert_eq!(of_delta(skipping(8)), ["skipped-too-much"]);
    assert_eq!(of_delta(|line| line), ["no-delta"]);
    // What would be skipped is new to a client whose playlist ends long before.
    assert_eq!(of_delta_after(&live(5, 6, 1), |line| line), [""; 0]);
    let skip = skipping(6);
    assert_eq!(
        of_delta(|line| skip(line).replace("15.mp4", "x.mp4")),
        ["delta-differs"]
    );
    let skip = skipping(6);
    assert_eq!(
        of_delta(|line| skip(line).replace("SEQUENCE:7", "SEQUENCE:9")),
        ["delta-differs"]
    );
}
