//! Sources that pause, are held up, or run late.

use std::ops::Range;

use super::*;

/// Length of each case.
const SPAN: Duration = Duration::from_secs(24);

/// The arrival of a frame by its decode time; `None` for a frame that is never sent.
type Arrival = fn(Duration) -> Option<Duration>;

/// Sources, and how many gaps the playlists have of each.
const CASES: &[(&str, Arrival, Range<usize>)] = &[
    ("a steady source", |at| Some(at), 0..1),
    (
        "frames are missing for less than a segment",
        |at| (at < ms(7300) || at >= ms(8500)).then_some(at),
        0..1,
    ),
    (
        "frames are missing for five seconds",
        |at| (at < ms(7300) || at >= ms(12_300)).then_some(at),
        1..4,
    ),
    (
        "frames are held up for five seconds, and come at once",
        |at| {
            Some(if at < ms(7300) {
                at
            } else {
                at.max(ms(12_300))
            })
        },
        1..4,
    ),
    (
        "the source stands still for five seconds, and is late from then on",
        |at| Some(if at < ms(7300) { at } else { at + ms(5000) }),
        1..5,
    ),
    (
        "frames are held up for less than a segment",
        |at| Some(if at < ms(7300) { at } else { at.max(ms(8500)) }),
        0..1,
    ),
];

#[tokio::test]
async fn playlists_keep_the_rules_whenever_frames_come() {
    let (tracks, frames) = film(SPAN);
    for (source, arrival, gaps) in CASES {
        let arriving = frames.iter().filter_map(|it| {
            let arrives = arrival(it.decode_time)?;
            let frame = it.clone();
            Some(Sent { arrives, ..frame })
        });
        let arriving: Vec<_> = arriving.collect();
        let mut scene = Scene::new();
        let mut publisher = scene.publish(tracks.clone());
        scene.watch();
        scene.play(&mut publisher, &arriving);
        let errors = scene.errors(OF_SOURCE);
        assert!(errors.is_empty(), "{source}: {errors:#?}");
        for name in ["video0", "audio0"] {
            let last = &scene.playlist(name).segments;
            let found = last.iter().filter(|it| it.is_gap).count();
            assert!(gaps.contains(&found), "{source}: {found} gaps");
            let end: Duration = last.iter().rev().take(2).map(|it| it.duration).sum();
            assert!(end > ms(2000), "{source}: it ends with segments of media");
        }
    }
}
