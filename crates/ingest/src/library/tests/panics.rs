//! What a panic costs the others.

use super::*;

/// Waits until a thread that plays for others has sent something of `reading`.
async fn plays(reading: &PrivateReading, deadline: Instant) {
    while reading.stream().totals().packets == 0 {
        assert!(Instant::now() < deadline, "no newcomer is served");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_reading_that_panics_is_down_and_the_others_play_on() {
    let folder = Folder::new();
    let (library, supervisor) = folder.faulty_library();
    let file = found(&library, "clip.h264").await;
    let readings: Vec<_> = (0..2).map(|_| file.fork(None).expect("a place")).collect();
    assert!(supervisor.inject("library-0", Fault::PanicServing));
    readings.iter().for_each(|reading| reading.play(LOOPED));
    let is_down =
        |reading: &&PrivateReading| matches!(reading.stream().state(), State::Down { .. });
    let packets = || readings.iter().map(|it| it.stream().totals().packets);
    let deadline = Instant::now() + 4 * SOON;
    while readings.iter().filter(is_down).count() != 1 || packets().max() < Some(30) {
        assert!(
            Instant::now() < deadline,
            "{:?}",
            packets().collect::<Vec<_>>()
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(supervisor.failure(), None);
    let again = file.fork(Some(LOOPED)).expect("a place");
    plays(&again, deadline).await;
}

#[tokio::test]
async fn a_thread_that_panics_ends_its_readings_and_plays_new_ones() {
    let folder = Folder::new();
    let (library, supervisor) = folder.faulty_library();
    let file = found(&library, "clip.h264").await;
    for _ in 0..2 {
        let reading = file.fork(Some(LOOPED)).expect("a place");
        let deadline = Instant::now() + 4 * SOON;
        plays(&reading, deadline).await;
        assert!(supervisor.inject("library-0", Fault::Panic));
        while !matches!(reading.stream().state(), State::Down { .. }) {
            assert!(Instant::now() < deadline, "its client is not told");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    assert_eq!(supervisor.failure(), None);
}

#[tokio::test]
async fn a_file_whose_opening_panics_is_like_a_broken_one_and_others_are_opened() {
    let folder = Folder::new();
    let (library, supervisor) = folder.faulty_library();
    let copy = folder.0.join("other.h264");
    fs::copy(folder.0.join("clip.h264"), copy).expect("written");
    supervisor.inject_at(FaultPoint::OpenFile, Fault::Panic);
    // The second lookup does not open it again.
    for _ in 0..2 {
        let found = library.find("clip.h264").await;
        let error = found.expect_err("it panicked");
        assert!(error.to_string().contains("it panicked"), "{error}");
    }
    let other = library.find("other.h264").await.expect("a good file");
    assert!(other.is_some());
    let panics = supervisor
        .parts()
        .map(|(_, counters)| counters.panics.get());
    assert_eq!(panics.sum::<u64>(), 1);
}
