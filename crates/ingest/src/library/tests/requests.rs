//! What is left of requests that fail, and of those that nobody waits for.

use super::*;

#[tokio::test]
async fn a_reading_that_is_dropped_stops_and_frees_its_place_and_its_file() {
    let folder = Folder::new();
    let limits = Limits {
        private: 20,
        idle_span: Duration::from_millis(50),
        ..Limits::default()
    };
    let (library, _hub) = folder.library(limits);
    let media_file = found(&library, "clip.h264").await;
    let path = folder
        .0
        .join("clip.h264")
        .canonicalize()
        .expect("it is there");
    let descriptors = || {
        let all = fs::read_dir("/proc/self/fd").expect("our own");
        let to = all.filter_map(|it| fs::read_link(it.ok()?.path()).ok());
        to.filter(|to| *to == path).count()
    };
    let before = descriptors();
    let fork = || media_file.fork(Some(Play::default()));
    let privates: Vec<_> = (0..20).map(|_| fork().expect("room")).collect();
    for private in &privates {
        begun(private);
    }
    assert_eq!(descriptors(), before, "they share the file's");
    assert_eq!(fork().expect_err("no more"), Full { limit: 20 });
    assert_eq!(library.counts().private, 20);
    let stream = Arc::clone(privates[0].stream());
    drop(privates);
    until("they are gone", || library.counts().readings == 0);
    assert_eq!(stream.state().as_str(), "ended");
    assert!(fork().is_ok(), "there is room again");
    drop(media_file);
    let end = Instant::now() + SOON;
    while library.counts().media_files > 0 {
        assert!(Instant::now() < end, "the file is put back");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(descriptors() < before, "and closed");
}

#[tokio::test]
async fn a_broken_file_is_read_once_and_again_when_it_changed() {
    let folder = Folder::new();
    folder.write("broken.ogg", &AUDIO[..60]);
    let (library, _hub) = folder.library(Limits::default());
    let mut reasons = Vec::new();
    for _ in 0..50 {
        let error = library.find("broken.ogg").await.expect_err("it ends early");
        reasons.push(error.to_string());
    }
    assert_eq!(library.counts().opened, 1);
    reasons.dedup();
    assert_eq!(reasons.len(), 1);
    assert!(
        reasons[0].contains("broken.ogg") && reasons[0].contains("byte"),
        "{reasons:?}"
    );
    folder.write("broken.ogg", AUDIO);
    let end = Instant::now() + SOON;
    while library.find("broken.ogg").await.is_err() {
        assert!(Instant::now() < end, "it is seen that the file changed");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(library.counts().opened, 2);
}

#[tokio::test]
async fn names_that_lead_nowhere_leave_nothing_behind() {
    let folder = Folder::new();
    let (library, _hub) = folder.library(Limits::default());
    let outside = format!(
        "../{}/clip.ogg",
        folder.0.file_name().expect("it has one").display()
    );
    for name in [
        "",
        "none.ogg",
        "../clip.ogg",
        &outside,
        "clip.txt",
        "/etc/passwd",
        ".h.ogg",
    ] {
        assert!(
            library.find(name).await.expect("no error").is_none(),
            "{name}"
        );
    }
    assert_eq!(library.counts(), Counts::default());
}

#[tokio::test]
async fn one_thread_paces_hundreds() {
    let folder = Folder::new();
    let limits = Limits {
        threads: 1,
        ..Limits::default()
    };
    let (library, _hub) = folder.library(limits);
    let media_file = found(&library, "clip.h264").await;
    // An eighth of the recorded speed: 1,125 frames a second in all, which a busy machine manages
    // without optimization, too.
    let play = Play {
        from: at(0),
        scale: 0.125,
        ..Play::default()
    };
    let fork = || media_file.fork(Some(play)).expect("room");
    let privates: Vec<_> = (0..300).map(|_| fork()).collect();
    let mut clients: Vec<_> = privates.iter().map(|it| Client::of(it.stream())).collect();
    for _ in 0..15 {
        std::thread::sleep(Duration::from_millis(200));
        for client in &mut clients {
            client.poll();
        }
    }
    let mut late = Vec::new();
    for client in &mut clients {
        let count = client.media_units.len();
        assert!(count >= 6, "{count} frames of some 11");
        late.extend(client.media_units.iter().map(|media_unit| {
            let stamps = media_unit.stamps;
            stamps.published.saturating_duration_since(stamps.origin)
        }));
    }
    late.sort();
    let (median, most) = (late[late.len() / 2], late[late.len() * 9 / 10]);
    assert!(
        median < Duration::from_millis(50),
        "median {median:?}, nine of ten {most:?}"
    );
}

#[tokio::test]
async fn a_request_that_is_dropped_leaves_no_entry_behind() {
    let folder = Folder::new();
    let (library, _) = folder.library(Limits::default());
    let (mut number, mut dropped) = (0, 0);
    while dropped < 20 {
        number += 1;
        assert!(number < 100_000, "no lookup takes more than one poll");
        let name = format!("missing-{number}.mp4");
        // Polled once, and dropped like the request of a client that hung up.
        let found = library.find(&name).now_or_never();
        dropped += usize::from(found.is_none());
    }
    // Threads may still be looking for the last ones.
    while library.counts().media_files > 0 {
        tokio::task::yield_now().await;
    }
    let found = library.find("clip.h264").await.expect("a good file");
    assert!(found.is_some());
    assert_eq!(library.counts().media_files, 1);
}

#[tokio::test]
async fn a_file_that_nobody_waits_for_any_more_is_opened_once_and_kept() {
    let folder = Folder::new();
    let (library, supervisor) = folder.faulty_library();
    supervisor.inject_at(FaultPoint::OpenFile, Fault::Hang(SOON / 20));
    let mut asked = Box::pin(library.find("clip.h264"));
    while library.counts().opened == 0 {
        let _ = (&mut asked).now_or_never();
        tokio::task::yield_now().await;
    }
    drop(asked);
    for _ in 0..50 {
        let _ = library.find("clip.h264").now_or_never();
    }
    let found = library.find("clip.h264").await.expect("a good file");
    assert!(found.is_some());
    assert_eq!(library.counts().opened, 1, "one thread has read it for all");
}

#[tokio::test]
async fn a_list_that_nobody_waits_for_any_more_is_made_and_kept() {
    let folder = Folder::new();
    let (library, _) = folder.library(Limits::default());
    assert!(library.list().now_or_never().is_none());
    let made = loop {
        let listed = library.listed.try_lock();
        if let Some((_, listing)) = listed.ok().as_deref().and_then(Option::as_ref) {
            break Arc::clone(listing);
        }
        tokio::task::yield_now().await;
    };
    assert!(Arc::ptr_eq(&library.list().await, &made));
}
