//! The path of a live upload: a MoQ publisher, the hub, a browser.

use std::path::Path;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use glassline_congestion::Algorithm;
use glassline_demux as demux;
use glassline_media::MediaTime;
use glassline_quic::moq::{Address, Frame, Options, Role, TrackConfig, connect};
use glassline_quic::{ClientEndpoint, CongestionControl, Trust};
use libtest_mimic::Failed;
use tokio::sync::oneshot;

use crate::browser::{PATIENCE, decoded, ensure};
use crate::peers::{Peer, Test};
use crate::server::Server;
use crate::webdriver::Browser;

pub(crate) const TESTS: &[Test] =
    &[Test::of(&what_is_published_over_quic_plays_in_a_browser).needs(&[Peer::Chromium])];

fn what_is_published_over_quic_plays_in_a_browser() -> Result<(), Failed> {
    let server = Server::serve(&[])?;
    let publisher = Publisher::start(&server.moq_url("upload")?)?;
    let browser = Browser::start()?;
    browser.open(&server.url("/upload"))?;
    browser.wait_until(PATIENCE, "return glassline.state === 'live'")?;
    let at_live = decoded(&browser)?;
    browser.run("document.getElementById('sound').click()")?;
    browser.wait_until(PATIENCE, "return glassline.reports >= 6")?;
    let page = browser.run("return glassline")?;
    ensure(
        page["width"] == 1280 && page["height"] == 720,
        "size",
        &page,
    )?;
    ensure(
        decoded(&browser)? > at_live + 60,
        "it keeps decoding",
        &page,
    )?;
    ensure(page["audioEnergy"].as_f64() > Some(0.0), "audio", &page)?;
    publisher.stop()
}

/// Publishes the built-in clip over QUIC in real time, until it is stopped.
pub(crate) struct Publisher {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<Result<(), String>>,
}

impl Publisher {
    pub(crate) fn start(url: &str) -> Result<Self, String> {
        let address = Address::parse(url).map_err(|error| error.to_string())?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(|error| error.to_string())?;
            runtime.block_on(publish(&address, stopped))
        });
        Ok(Self { stop, thread })
    }

    pub(crate) fn stop(self) -> Result<(), Failed> {
        // If the thread has ended already, its result says why.
        let _ = self.stop.send(());
        let ended = self.thread.join().map_err(|_| "the publisher panicked")?;
        Ok(ended?)
    }
}

async fn publish(address: &Address, mut stopped: oneshot::Receiver<()>) -> Result<(), String> {
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
    let files = ["demo.h264", "demo.ogg"].map(|name| assets.join(name));
    let mut source = demux::open(&files, &demux::Options::default()).map_err(|e| e.to_string())?;
    let endpoint = ClientEndpoint::new().map_err(|error| error.to_string())?;
    let options = Options {
        congestion: CongestionControl::new(Algorithm::Copa),
        trust: Trust::System,
        role: Role::Publisher,
    };
    let session = connect(&endpoint, address, options)
        .await
        .map_err(|e| e.to_string())?;
    let track_configs = source
        .tracks()
        .iter()
        .cloned()
        .map(TrackConfig::new)
        .collect();
    let mut broadcast = session
        .publish(address.name(), track_configs)
        .map_err(|e| e.to_string())?;
    broadcast.set_clock(MediaTime::ZERO, SystemTime::now());
    let start = Instant::now();
    while let Some(frame) = source.next_frame().map_err(|error| error.to_string())? {
        let due = start + frame.decode_time.saturating_since(MediaTime::ZERO);
        tokio::select! {
            () = tokio::time::sleep_until(due.into()) => {}
            ended = session.ended() => return Err(ended.to_string()),
            _ = &mut stopped => break,
        }
        let sent = Frame {
            time: frame.time,
            keyframe: frame.keyframe,
            data: frame.data,
        };
        broadcast
            .write(frame.track, &sent)
            .map_err(|error| error.to_string())?;
    }
    broadcast.finish();
    tokio::time::timeout(Duration::from_secs(2), session.close())
        .await
        .map_err(|error| error.to_string())
}
