//! How much of recordings an address may read at the same time.

use glassline_recording::NewMark;
use glassline_runtime::BlockingPlace;

use super::super::assembly::{Assembly, Piece};
use super::super::pools::Looks;
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

/// Takes all places for questions to a disk, as if it hung.
fn hang(looks: &Looks) -> Vec<BlockingPlace> {
    std::iter::from_fn(|| looks.places.place().now_or_never()).collect()
}

fn folders(missing: &Missing) -> Vec<&str> {
    missing.0.iter().map(|it| it.name.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_hangs_is_named_and_others_give_what_they_have() {
    let (one, other, subject) = of_two_folders();
    let playback = &one.playback;
    playback.stretches(&subject, always()).await.expect("both");
    let hangs = hang(&playback.pools.of(Origin::Disk(one.folder.path())).looks);
    let path = one.folder.path().display().to_string();
    let begun = tokio::time::Instant::now();
    let listed = playback.stretches(&subject, always()).await;
    let listed = listed.expect("the other disk");
    assert_eq!(listed.items.len(), 1);
    assert_eq!(folders(&listed.missing), [&*path]);
    let waited = begun.elapsed();
    assert!(waited >= Duration::from_secs(10), "it may spin up");

    let stages = playback.stage_minutes(&subject, always()).await;
    assert_eq!(folders(&stages.expect("no minutes").missing), [&*path]);
    let past = playback.past(subject.clone(), at(11.0)).await;
    assert!(past.expect("the other disk").begins >= at(10.0));
    let mark = |from| NewMark {
        stream: subject.stream.clone(),
        label: "door".to_owned(),
        from: at(from),
        to: at(from + 1.0),
        is_for_ever: false,
    };
    for from in [11.0, 100.0] {
        playback.mark(&subject, mark(from)).await.expect("a mark");
    }
    assert_eq!(begun.elapsed(), waited, "who comes later waits no more");
    drop(hangs);
    while !playback
        .marks(&subject, always())
        .await
        .expect("marks")
        .missing
        .0
        .is_empty()
    {
        tokio::task::yield_now().await;
    }
    let marks = other.catalogue.marks(&subject.stream, always());
    assert_eq!(marks.expect("an index").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_hangs_keeps_no_other_server_waiting_for_the_files_of_another_disk() {
    let (one, other, subject) = of_two_folders();
    let playback = &one.playback;
    let answer = |question| {
        let (catalogue, stream) = (subject.catalogue.clone(), subject.stream.clone());
        playback.answer(catalogue, stream, question)
    };
    let all = || Question::holdings(always());
    answer(all()).await.expect("both");
    let hangs = hang(&playback.pools.of(Origin::Disk(one.folder.path())).answers);
    let begun = tokio::time::Instant::now();
    let error = answer(all()).await.expect_err("a part is missing");
    let path = one.folder.path().display().to_string();
    assert!(error.to_string().contains(&path), "{error}");
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "the other server still waits"
    );
    for (recorded, is_there) in [(&one, false), (&other, true)] {
        let files = recorded.catalogue.files(&subject.stream, always());
        let file = files.expect("an index").remove(0).path;
        let bytes = Question::Bytes {
            file,
            offset: 0,
            bytes: 8,
        };
        assert_eq!(answer(bytes).await.is_ok(), is_there);
    }
    drop(hangs);
}
