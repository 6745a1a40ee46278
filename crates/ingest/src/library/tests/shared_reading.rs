//! Readings of a file that all who ask share.

use super::*;

#[tokio::test]
async fn a_file_is_read_through_once_for_fifty_who_ask_together() {
    let folder = Folder::new();
    let (library, hub) = folder.library(Limits::default());
    let library = Arc::new(library);
    let asks = (0..50).map(|_| {
        let library = Arc::clone(&library);
        tokio::spawn(async move { found(&library, "clip.h264").await })
    });
    let mut media_files = Vec::new();
    for ask in asks.collect::<Vec<_>>() {
        media_files.push(ask.await.expect("no panic"));
    }
    assert_eq!(library.counts().opened, 1);
    assert_eq!(media_files[0].duration(), Duration::from_secs(10));
    let lives: Vec<_> = media_files.iter().map(|it| it.live()).collect();
    let mut clients: Vec<_> = lives.iter().map(|live| Client::of(live.stream())).collect();
    assert_eq!(library.counts().readings, 1);
    assert_eq!(lives[0].stream().tracks().len(), 1);
    assert!(hub.streams().is_empty(), "nothing plays yet");
    for live in &lives {
        live.play();
    }
    assert_eq!(hub.streams().len(), 1, "listed once");
    for client in &mut clients {
        client.count(3);
        assert_eq!(client.media_units[0].index, 0);
        assert!(client.media_units[0].keyframe, "the file's first frame");
    }
}

#[tokio::test]
async fn who_comes_alone_gets_the_file_from_its_start_each_time() {
    let folder = Folder::new();
    let limits = Limits {
        linger: Duration::from_millis(100),
        ..Limits::default()
    };
    let (library, hub) = folder.library(limits);
    let media_file = found(&library, "clip.ogg").await;
    for round in 0..2 {
        let live = media_file.live();
        let mut client = Client::of(live.stream());
        live.play();
        assert!(hub.stream("clip.ogg").is_some(), "WHEP finds it");
        client.count(5);
        assert_eq!(client.media_units[0].index, 0, "round {round}");
        let spacing = client.media_units[4]
            .time
            .saturating_since(client.media_units[0].time);
        assert_eq!(spacing, Duration::from_millis(80));
        assert_eq!(live.stream().state().as_str(), "live");
        let stream = Arc::clone(live.stream());
        drop(live);
        // A viewer that found the stream in the hub keeps it playing.
        let viewer = stream.add_viewer();
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(stream.state().as_str(), "live");
        drop(viewer);
        until("it ends", || hub.stream("clip.ogg").is_none());
        assert_eq!(stream.state().as_str(), "ended");
        until("it is gone", || library.counts().readings == 0);
    }
    assert_eq!(library.counts().opened, 1);
}

#[tokio::test]
async fn a_name_that_a_stream_has_stays_that_stream() {
    let folder = Folder::new();
    fs::create_dir(folder.0.join("films")).expect("a folder");
    folder.write("films/a b.ogg", AUDIO);
    let (library, hub) = folder.library(Limits::default());
    let name = glassline_hub::StreamName::parse("clip.ogg").expect("a good name");
    let camera = hub.create(name).expect("room");
    let live = found(&library, "clip.ogg").await.live();
    live.play();
    assert!(!Arc::ptr_eq(live.stream(), &camera));
    let nested = found(&library, "films/a b.ogg").await.live();
    assert_eq!(nested.stream().name().as_str(), "~films_a_b.ogg");
    assert_eq!(hub.streams().len(), 1, "neither is listed");
    nested.play();
    Client::of(nested.stream()).count(3);
}
