//! Readers over QUIC that fall behind, and the WHIP publisher of what they read.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use glassline_quic::moq::Role;

use crate::quic::{self, soon};
use crate::running::Running;
use crate::whip::{Publisher, go_live, until};

/// A reader of the video of a stream over QUIC, which stops to read for a while.
struct MoqReader {
    /// Returns how much later the second keyframe is than the first.
    thread: std::thread::JoinHandle<Duration>,
}

impl MoqReader {
    /// Deadline of the reader's groups.
    const DEADLINE: Duration = Duration::from_millis(300);

    /// Starts a reader of `stream` that reads its keyframe and the frame behind it, tells `began`,
    /// does not read for much longer than its deadline, and then reads on to the next keyframe.
    fn start(running: &Running, stream: &'static str, began: mpsc::Sender<()>) -> Self {
        let runtime = quic::runtime();
        let session = runtime.block_on(quic::open(running, stream, Role::Subscriber));
        let session = session.expect("reading is open");
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                let mut subscription = soon(session.subscribe(stream)).await.expect("live");
                let catalog = soon(subscription.catalog()).await.expect("good");
                let chosen = catalog.expect("one").choose().expect("video");
                let frames = subscription.read(&chosen[0], Self::DEADLINE);
                let mut frames = soon(frames).await.expect("there");
                let mut next = async || soon(frames.next()).await.expect("good").expect("more");
                let first = next().await;
                assert!(first.keyframe, "a reader begins at a keyframe");
                next().await;
                began.send(()).expect("the test goes on");
                tokio::time::sleep(5 * Self::DEADLINE).await;
                loop {
                    let frame = next().await;
                    if frame.keyframe {
                        return frame.time.saturating_since(first.time);
                    }
                }
            })
        });
        Self { thread }
    }
}

#[test]
fn readers_over_quic_that_fall_behind_get_a_keyframe_of_the_publisher() {
    let running = Running::start(1);
    let mut publisher = Publisher::post(&running, "/studio/whip", &[]).expect("answered");
    go_live(&mut publisher, "studio");
    // The first reader may have fallen behind before the last one began.
    let (before, since) = (
        running.total("whip_keyframe_requests_total"),
        Instant::now(),
    );
    let (began, begun) = mpsc::channel();
    let readers: Vec<_> = (0..3)
        .map(|_| MoqReader::start(&running, "studio", began.clone()))
        .collect();
    let mut count = 0;
    let all_began = until(&mut [&mut publisher], &mut [], |_, _| {
        count += begun.try_iter().count();
        count == readers.len()
    });
    assert!(all_began, "no reader got frames");
    let all_got = until(&mut [&mut publisher], &mut [], |_, _| {
        readers.iter().all(|reader| reader.thread.is_finished())
    });
    assert!(all_got, "no keyframe came to a reader that fell behind");
    for reader in readers {
        let behind = reader.thread.join().expect("no panic");
        assert!(behind > Duration::ZERO, "the second keyframe is later");
    }
    // Three readers wait for one keyframe.
    let requests = running.total("whip_keyframe_requests_total") - before;
    let seconds = since.elapsed().as_secs();
    assert!(
        (1..=seconds + 2).contains(&requests),
        "{requests} in {seconds} s"
    );
}
