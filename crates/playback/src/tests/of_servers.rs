//! Recordings of two servers of a cluster.

use futures_util::TryFutureExt as _;

use super::*;

impl Recorded {
    /// Returns the stream of this server and of another one, which has `other` or does not answer.
    fn beside(&self, other: Option<&Self>) -> Subject {
        let mood = if other.is_some() {
            Mood::Answers
        } else {
            Mood::Refuses
        };
        self.with(&SecondServer::new(other, mood))
    }

    /// Returns the stream of this server and of `other`.
    pub(crate) fn with(&self, other: &Arc<SecondServer>) -> Subject {
        let other: Arc<dyn OtherServers> = Arc::clone(other) as _;
        Subject {
            others: Some(Arc::new(Others::new(other))),
            ..self.subject()
        }
    }
}

/// How a server of a test takes questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    Answers,
    /// The server refuses each question at once.
    Refuses,
    /// Leaves every question without an answer.
    Hangs,
}

/// A second server of a cluster, with what it has.
#[derive(Debug)]
pub(crate) struct SecondServer {
    catalogue: Option<Catalogue>,
    playback: Playback,
    pub(crate) mood: Mutex<Mood>,
    /// Number of questions that the server was asked so far.
    pub(crate) asked: AtomicUsize,
}

impl SecondServer {
    pub(crate) fn new(of: Option<&Recorded>, mood: Mood) -> Arc<Self> {
        Arc::new(Self {
            catalogue: of.map(|it| it.catalogue.clone()),
            playback: playback(),
            mood: Mutex::new(mood),
            asked: AtomicUsize::new(0),
        })
    }
}

impl OtherServers for SecondServer {
    fn names(&self) -> Vec<String> {
        vec!["second".to_owned()]
    }

    fn ask<'a>(
        &'a self,
        _: &'a str,
        stream: &'a StreamName,
        question: &'a Question,
    ) -> BoxFuture<'a, Result<bytes::Bytes, String>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        match (*self.mood.lock().expect("no panic"), &self.catalogue) {
            (Mood::Answers, Some(catalogue)) => {
                let (catalogue, stream) = (catalogue.clone(), stream.clone());
                let answering = self.playback.answer(catalogue, stream, question.clone());
                answering.map_err(|error| error.to_string()).boxed()
            }
            (Mood::Hangs, _) => std::future::pending().boxed(),
            _ => std::future::ready(Err("no answer".to_owned())).boxed(),
        }
    }
}

/// Returns the milliseconds from the first frame of video in a clip to its last one, and the longest step between
/// two. Asserts that no track goes back in time.
async fn length_and_step(recorded: &Recorded, clip: Clip) -> (i64, i64) {
    let whole = whole_of(recorded, clip).await;
    let frames = frames_of(whole.clone());
    for kind in [Kind::Video, Kind::Audio] {
        let mut of_kind = frames.iter().filter(|(it, _)| *it == kind);
        let first = of_kind.next().expect("both tracks").1.decode_time;
        of_kind.fold(first, |before, (_, frame)| {
            let step_ns = frame.decode_time.nanos() - before.nanos();
            // Frames of audio last 21 or 23 ms, those of video 33 or 40 ms.
            assert!(step_ns > 15_000_000, "{kind}: {step_ns} ns at {before:?}");
            frame.decode_time
        });
    }
    let times = video_times(whole);
    let steps = times.windows(2).map(|it| it[1] - it[0]);
    (times[times.len() - 1] - times[0], steps.max().unwrap_or(0))
}

#[tokio::test]
async fn what_two_servers_recorded_plays_as_one_and_nothing_of_it_twice() {
    // A gap of 13 s, and then three seconds that both servers have.
    for (second_start, expected) in [(20, 12_000), (4, 9_000)] {
        let first = Recorded::of(&[(0, 7)]);
        let second = Recorded::of(&[(second_start, 5)]);
        for form in [ClipForm::Fragments, ClipForm::Whole(SpanCut::Keyframe)] {
            let wanted = Wanted {
                from: at(0.0),
                to: at(60.0),
                stops_at_gap: false,
            };
            let of = first.beside(Some(&second));
            let clip = first.playback.clip(of, wanted, form).await;
            let clip = clip.expect("footage");
            assert_eq!(clip.missing, Missing::default());
            let (length, step) = length_and_step(&first, clip).await;
            let is_whole = (length - expected).abs() < 1_200 && step <= 2_100;
            assert!(
                is_whole,
                "{form:?} from {second_start}: {length} ms, {step} ms"
            );
        }
        let order = ThumbnailOrder {
            of: first.beside(Some(&second)),
            at: at(second_start as f64 + 4.0),
            limit: SizeLimit {
                width: Some(96),
                height: None,
            },
        };
        let thumbnail = first.playback.thumbnail(order).await.expect("a keyframe");
        assert!(thumbnail.starts_with(&[0xff, 0xd8]), "JPEG");
    }
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_named() {
    let recorded = Recorded::of(&[(0, 5)]);
    let alone = recorded.beside(None);
    let missing = Missing(vec![MissingPart {
        kind: PartKind::Server,
        name: "second".to_owned(),
        why: "no answer".to_owned(),
    }]);
    let listed = recorded.playback.stretches(&alone, always()).await;
    let listed = listed.expect("an index");
    assert_eq!((listed.items.len(), &listed.missing), (1, &missing));
    let wanted = |from| Wanted {
        from: at(from),
        to: at(from + 2.0),
        stops_at_gap: false,
    };
    let form = ClipForm::Fragments;
    let clip = recorded.playback.clip(alone.clone(), wanted(1.0), form);
    assert_eq!(clip.await.expect("footage").missing, missing);
    let none = recorded.playback.clip(alone, wanted(30.0), form).await;
    let none = none.expect_err("nothing is here").to_string();
    assert!(
        none.contains("the server 'second' did not answer: no answer"),
        "{none}"
    );
}

#[tokio::test]
async fn a_span_of_two_servers_is_marked_on_both_and_listed_once() {
    let (first, second) = (Recorded::of(&[(0, 5)]), Recorded::of(&[(5, 5)]));
    let of = first.beside(Some(&second));
    let mark = glassline_recording::NewMark {
        stream: of.stream.clone(),
        label: "door".to_owned(),
        from: at(3.0),
        to: at(8.0),
        is_for_ever: true,
    };
    first.playback.mark(&of, mark).await.expect("both answer");
    let marks = first.playback.marks(&of, always()).await.expect("an index");
    assert_eq!(marks.items.len(), 1, "{:?}", marks.items);
    let own = second.playback.marks(&second.subject(), always()).await;
    assert_eq!(own.expect("an index").items[0].label, "door");
}

#[tokio::test]
async fn a_file_without_an_index_is_read_on_from_where_it_was_read() {
    let recorded = Recorded::of(&[(0, 3)]);
    let files = recorded
        .catalogue
        .files(&recorded.subject().stream, always());
    let files = files.expect("an index");
    let bytes = std::fs::read(&files[0].path).expect("a file");
    let whole = glassline_cmaf::RecordedFile::open(&bytes[..]).expect("our own");
    let fragments = whole.fragments().to_vec();
    // As it is while it is written: the box before the media is one of no content.
    let mut growing = bytes[..fragments[1].end() as usize].to_vec();
    let media = growing
        .windows(4)
        .position(|it| it == b"mdat")
        .expect("finished");
    growing[media - 4..media + 12]
        .copy_from_slice(&[0, 0, 0, 16, b'f', b'r', b'e', b'e', 0, 0, 0, 0, 0, 0, 0, 0]);
    let path = files[0].path.with_extension("growing");
    std::fs::write(&path, &growing).expect("a folder");
    let kept = GrowingFiles::default();
    let open = || {
        kept.open(&path, || std::fs::File::open(&path))
            .expect("a file")
    };
    assert_eq!(open().fragments(), &fragments[..2]);
    // What was read is not read again: damage before does not show.
    growing[fragments[0].offset as usize..][..64].fill(0);
    growing.extend_from_slice(&bytes[fragments[2].offset as usize..fragments[2].end() as usize]);
    std::fs::write(&path, &growing).expect("a folder");
    assert_eq!(open().fragments(), &fragments[..3]);
}

#[tokio::test]
async fn delays_of_two_servers_are_one_history() {
    let (first, second) = (Recorded::of(&[(0, 2)]), Recorded::of(&[(0, 2)]));
    let minute = |at_s, stage: &str, ms| glassline_recording::StageMinute {
        at_s,
        p95_ms: [(stage.to_owned(), ms)].into(),
    };
    let add = |to: &Recorded, minute| {
        let stream = &to.subject().stream;
        let added = to
            .catalogue
            .add_stage_minute(to.folder.path(), stream, &minute);
        added.expect("a folder");
    };
    add(&first, minute(START_S, "hub", 1.0));
    add(&second, minute(START_S, "network", 400.0));
    add(&second, minute(START_S + 60, "network", 40.0));
    let range = TimeRange {
        from: at(0.0),
        to: at(3600.0),
    };
    let of = first.beside(Some(&second));
    let found = first
        .playback
        .stage_minutes(&of, range)
        .await
        .expect("files");
    let shown: Vec<_> = found
        .items
        .iter()
        .map(|it| (it.at_s, it.p95_ms.len()))
        .collect();
    assert_eq!(shown, [(START_S, 2), (START_S + 60, 1)]);
    let alone = first
        .playback
        .stage_minutes(&first.beside(None), range)
        .await;
    assert_eq!(alone.expect("files").missing.0.len(), 1);
}
