//! How much of recordings an address may read at the same time.

use super::super::assembly::{Assembly, Piece};
use super::*;

#[tokio::test]
async fn a_reader_that_goes_away_gives_its_place_back() {
    let recorded = Recorded::of(&[(0, 3)]);
    let clip = recorded
        .clip(0.0, 3.0, ClipForm::Fragments)
        .await
        .expect("footage");
    let read = || {
        let (assembly, length) = (clip.assembly.clone(), clip.assembly.length());
        recorded.playback.read(assembly, 0..length, CLIENT)
    };
    let mut readers: Vec<_> = (0..BODIES_PER_ADDRESS)
        .map(|_| read().expect("a place"))
        .collect();
    assert!(matches!(read(), Err(NoFootage::Crowded)));
    let mut begun = Box::pin(readers.pop().expect("some").into_chunks());
    begun.next().await.expect("a chunk").expect("readable");
    assert!(matches!(read(), Err(NoFootage::Crowded)), "it reads on");
    drop(begun);
    read().expect("the place of the one that went away");
}

#[tokio::test]
async fn long_indexes_that_nobody_takes_are_bounded_in_bytes() {
    let recorded = Recorded::of(&[(0, 3)]);
    let mut whole_day = Assembly::default();
    whole_day.push(Piece::Bytes(vec![0_u8; 60 << 20].into()));
    let read = |client| {
        let length = whole_day.length();
        recorded.playback.read(whole_day.clone(), 0..length, client)
    };
    let held = [read(CLIENT).expect("one"), read(CLIENT).expect("two")];
    assert!(matches!(read(CLIENT), Err(NoFootage::Crowded)));
    let other = SourcePrefix::V4(Ipv4Addr::new(192, 0, 2, 77));
    let others = read(other).expect("a share of its own");
    drop(held);
    drop(others);
    read(CLIENT).expect("all is given back");
}

/// A recording of three seconds, and one of another folder that begins ten seconds later, as one subject.
fn of_two_folders() -> (Recorded, Recorded, Subject) {
    let (one, other) = (Recorded::of(&[(0, 3)]), Recorded::of(&[(10, 3)]));
    let subject = one.subject();
    subject.catalogue.add(&other.folder).expect("an index");
    (one, other, subject)
}

fn three_seconds_from(from: f64) -> Wanted {
    Wanted {
        from: at(from),
        to: at(from + 3.0),
        stops_at_gap: false,
    }
}

#[tokio::test]
async fn clips_of_a_disk_that_hangs_keep_no_place_of_those_of_another_disk() {
    let (one, other, subject) = of_two_folders();
    let playback = &one.playback;
    let clip = |from| {
        let form = ClipForm::Whole(SpanCut::Keyframe);
        playback.clip(subject.clone(), three_seconds_from(from), form)
    };
    clip(10.0).await.expect("footage");
    let hangs = playback.pools.of(Origin::Disk(one.folder.path()));
    let _making = [hangs.indexes.place().await, hangs.indexes.place().await];
    let mut waits = Box::pin(clip(0.0));
    tokio::select! {
        made = clip(10.0) => drop(made.expect("footage of the other disk")),
        _ = &mut waits => panic!("all places of its disk are taken"),
    }
    drop(other);
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_hangs_is_named_and_others_give_what_they_have() {
    let (one, other, subject) = of_two_folders();
    let playback = &one.playback;
    playback.stretches(&subject, always()).await.expect("both");
    let hangs = playback.pools.of(Origin::Disk(one.folder.path()));
    let mut reads = Vec::new();
    while let Some(place) = hangs.reads.place().now_or_never() {
        reads.push(place);
    }
    let listed = playback.stretches(&subject, always()).await;
    let listed = listed.expect("the other disk");
    assert_eq!(listed.items.len(), 1);
    let missing: Vec<_> = listed.missing.0.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(missing, [one.folder.path().display().to_string()]);
    drop((reads, other));
}
