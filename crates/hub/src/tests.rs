use super::*;

#[test]
fn streams_are_made_once_and_bounded() {
    let hub = Hub::new(Limits {
        streams: 1,
        ..Limits::default()
    });
    let name = |text: &str| StreamName::parse(text).expect("a good name");
    assert!(hub.lookup(&name("cam")).expect("room").is_none());
    assert!(hub.stream("cam").is_none(), "looking makes nothing");
    let first = hub.create(name("cam")).expect("room for one");
    assert!(Arc::ptr_eq(
        &first,
        &hub.create(name("cam")).expect("the same one")
    ));
    assert!(matches!(
        hub.create(name("other")),
        Err(CreateError::TooMany { limit: 1 })
    ));
    assert!(hub.lookup(&name("cam")).expect("there").is_some());
    assert!(hub.lookup(&name("other")).is_err());
    assert!(hub.stream("cam").is_some());
    assert!(hub.remove("cam").is_some());
    assert!(hub.stream("cam").is_none());
}

#[test]
fn a_deleted_stream_ends_its_publisher_and_receivers_and_its_name_is_free() {
    let (hub, now) = (Hub::default(), Instant::now());
    let name = || StreamName::parse("cam").expect("a good name");
    let track = || {
        vec![glassline_media::Track::audio(
            glassline_media::Codec::Opus,
            2,
        )]
    };
    let stream = hub.create(name()).expect("room");
    let mut publisher = stream.publish(track(), now).expect("free");
    let layout = stream.layout();
    assert!(hub.delete("cam"));
    assert!(stream.layout() > layout, "receivers compare it");
    assert!(stream.tracks().is_empty() && stream.is_deleted());
    assert_eq!(stream.state().detail(), Some("the stream was deleted"));
    let mut unit = glassline_media::UnitBuilder::default();
    unit.push(b"late");
    let stamps = glassline_media::Stamps::arrived(now);
    let (index, time) = (
        glassline_media::TrackIndex(0),
        glassline_media::MediaTime::ZERO,
    );
    let unit = unit.build(index, time, true, stamps).expect("a packet");
    let deleted = PublishError::Deleted { name: name() };
    assert_eq!(publisher.push(unit, now).err(), Some(deleted.clone()));
    drop(publisher);
    stream.set_state(State::Connecting);
    assert_eq!(stream.state().as_str(), "ended", "it stays deleted");
    assert_eq!(
        stream.take_over(SourceNote::default(), track(), now).err(),
        Some(deleted)
    );
    let next = hub.create(name()).expect("room");
    assert!(!Arc::ptr_eq(&stream, &next));
    assert!(next.publish(track(), now).is_ok());
    assert!(!hub.delete("other"));
}

#[test]
fn a_stream_of_a_check_is_forgotten_with_its_publisher() {
    let (hub, now) = (Hub::default(), Instant::now());
    let name = StreamName::parse(&format!("{CHECK_PREFIX}whip-1")).expect("a good name");
    let track = glassline_media::Track::audio(glassline_media::Codec::Opus, 2);
    let stream = hub.admit(name.clone()).expect("room");
    let publisher = stream.publish(vec![track], now).expect("free");
    drop(stream);
    assert!(hub.sweep(now).is_empty(), "it is published");
    drop(publisher);
    assert_eq!(hub.sweep(now), [name]);
}

#[test]
fn streams_that_nobody_publishes_or_holds_are_forgotten_unless_they_were_to_stay() {
    let hub = Hub::default();
    let start = Instant::now();
    let after = |seconds| start + Duration::from_secs(seconds);
    let name = |text: &str| StreamName::parse(text).expect("a good name");
    let track = || {
        vec![glassline_media::Track::audio(
            glassline_media::Codec::Opus,
            2,
        )]
    };
    drop(hub.create(name("camera")).expect("room"));
    drop(hub.reserve(name("studio")).expect("room"));
    drop(hub.admit(name("camera")).expect("there"));
    let publish = |text: &str| {
        let stream = hub.admit(name(text)).expect("room");
        stream.publish(track(), start).expect("free")
    };
    let (left, watched, live) = (publish("left"), publish("watched"), publish("live"));
    let viewer = hub.stream("watched").expect("live");
    drop((left, watched));
    assert!(hub.sweep(after(0)).is_empty(), "60 s from now");
    assert!(hub.sweep(after(59)).is_empty());
    assert_eq!(hub.sweep(after(60)), [name("left")]);
    drop(viewer);
    drop(publish("left"));
    assert!(hub.sweep(after(100)).is_empty());
    // Back in time, and gone again.
    drop(publish("left"));
    let again = publish("left");
    assert_eq!(hub.sweep(after(160)), [name("watched")]);
    drop(again);
    assert!(hub.sweep(after(170)).is_empty());
    assert!(hub.sweep(after(229)).is_empty());
    assert_eq!(hub.sweep(after(230)), [name("left")]);
    drop(live);
    drop(hub.create(name("live")).expect("there"));
    hub.sweep(after(300));
    assert!(
        hub.sweep(after(400)).is_empty(),
        "the configuration names it now"
    );
    let names = hub.streams().into_iter().map(|it| it.name().to_string());
    assert_eq!(names.collect::<Vec<_>>(), ["camera", "live", "studio"]);
}

#[test]
fn a_stream_that_passes_goes_as_soon_as_nobody_publishes_or_holds_it() {
    let hub = Hub::default();
    let now = Instant::now();
    let name = StreamName::parse("voice").expect("a good name");
    let stream = hub.admit(name.clone()).expect("room");
    stream.set_lifetime(StreamLifetime::Transient);
    let tracks = vec![glassline_media::Track::audio(
        glassline_media::Codec::Opus,
        1,
    )];
    let publisher = stream.publish(tracks, now).expect("free");
    drop(stream);
    assert!(hub.sweep(now).is_empty(), "it is published");
    let viewer = hub.stream("voice");
    drop(publisher);
    assert!(hub.sweep(now).is_empty(), "it is held");
    drop(viewer);
    assert_eq!(hub.sweep(now), [name]);
}

#[test]
fn an_unlisted_stream_is_listed_where_its_name_is_free() {
    let hub = Hub::new(Limits {
        streams: 1,
        ..Limits::default()
    });
    let unlisted = |text: &str| hub.unlisted(StreamName::parse(text).expect("good"));
    let (film, other, full) = (unlisted("film"), unlisted("film"), unlisted("more"));
    assert!(hub.stream("film").is_none());
    hub.list(&film).expect("the name is free");
    hub.list(&film).expect("it has it");
    let taken = hub.list(&other);
    assert!(matches!(taken, Err(CreateError::Taken { .. })));
    assert!(matches!(
        hub.list(&full),
        Err(CreateError::TooMany { limit: 1 })
    ));
    assert!(Arc::ptr_eq(&hub.stream("film").expect("listed"), &film));
}

#[test]
fn whoever_finds_a_stream_that_comes_on_demand_finds_its_prospect() {
    let hub = Hub::default();
    let names: Vec<String> = (0..500).map(|number| format!("cam{number}")).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for name in &names {
                let name = StreamName::parse(name).expect("good");
                hub.admit_on_demand(name).expect("room");
            }
        });
        for name in &names {
            let found = loop {
                match hub.stream(name) {
                    Some(stream) => break stream,
                    None => std::thread::yield_now(),
                }
            };
            assert_eq!(found.prospect(), Prospect::OnDemand, "{name}");
        }
    });
    // One that was there before stays as it was.
    let own = hub.create(StreamName::parse("own").expect("good"));
    let own = own.expect("room");
    let again = hub
        .admit_on_demand(own.name().clone())
        .expect("it is there");
    assert!(Arc::ptr_eq(&own, &again) && own.is_configured());
    assert_eq!(own.prospect(), Prospect::None);
}
