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
