use glassline_hls::judge::{Findings, Follower, Load, judge_fragment, judge_init, judge_media};
use glassline_hls::reader::{Playlist, Surroundings, read};

/// Playlists of any server, two of them one after the other behind a line of `---`; and bytes of segments.
pub(crate) fn run(bytes: &[u8]) {
    let mut findings = Findings::default();
    judge_init(bytes, "init", 0, &mut findings);
    judge_fragment(bytes, "part", 0, &mut findings);
    let middle = bytes.windows(5).position(|it| it == b"\n---\n");
    let (first, second) = match middle {
        Some(at) => (&bytes[..=at], &bytes[at + 5..]),
        None => (bytes, bytes),
    };
    let mut follower = Follower::default();
    for text in [first, second] {
        let Ok(reading) = read(text, Surroundings::default()) else {
            continue;
        };
        assert!(reading.faults.len() <= 100);
        let Playlist::Media(playlist) = reading.playlist else {
            continue;
        };
        judge_media(&playlist, &mut findings);
        let load = Load {
            at: std::time::Duration::from_secs(1),
            uncertainty: std::time::Duration::ZERO,
            playlist: &playlist,
        };
        follower.take(load, &mut findings);
        assert_eq!(playlist.dates().len(), playlist.segments.len() + 1);
    }
    for finding in findings.into_sorted() {
        assert!(finding.times > 0 && !finding.what.is_empty());
    }
}
