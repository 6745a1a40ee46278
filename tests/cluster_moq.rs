//! Readers over QUIC of a cluster: real processes, one `nats-server`.

use std::time::Duration;

use glassline_congestion::Algorithm;
use glassline_quic::moq::{Address, Announcement, Options, Role, Session, connect};
use glassline_quic::{ClientEndpoint, CongestionControl, Trust};
use libtest_mimic::Failed;

use crate::cluster::{publish, wait_for_each_other, wait_for_owner};
use crate::nats::Nats;
use crate::peers::{Peer, Test};
use crate::process::{PATIENCE, eventually};
use crate::server::{Server, run_to_end};

pub(crate) const TESTS: &[Test] =
    &[
        Test::of(&a_reader_gets_streams_of_other_servers_and_is_sent_away_by_a_drain)
            .needs(&[Peer::Nats]),
    ];

/// Age at which a group is given up.
const DEADLINE: Duration = Duration::from_secs(2);

/// A server of the cluster that pulls a stream for a short time after its last viewer.
fn node(name: &str, nats: &Nats) -> Result<Server, String> {
    let url = nats.url();
    let cluster = format!("{{name: {name}, secret: shared-by-all, nats: '{url}', linger_s: 2}}");
    Server::configured(&format!("cluster: {cluster}\n"), &[])
}

fn a_reader_gets_streams_of_other_servers_and_is_sent_away_by_a_drain() -> Result<(), Failed> {
    let nats = Nats::start()?;
    let [a, b] = [node("a", &nats)?, node("b", &nats)?];
    wait_for_each_other(&[&a, &b])?;
    let _cam = publish(&a, "/cam/whip")?;
    let _door = publish(&a, "/door/whip")?;
    for stream in ["cam", "door"] {
        a.wait_for_state(stream, "live")?;
        wait_for_owner(&b, stream, "a")?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let read = runtime.block_on(async {
        let reader = dial(&b, "door").await?;
        announces(&reader.session, &["cam", "door"]).await?;
        pulls(&b, 0.0)?;
        // Only what is read is pulled, and once for both readers.
        let other = dial(&b, "cam").await?;
        tokio::try_join!(reads(&reader, "cam"), reads(&other, "cam"))?;
        pulls(&b, 1.0)?;
        reads(&reader, "door").await?;
        Ok::<_, String>(reader)
    });
    let reader = read?;
    // Some time after the last reader the stream is pulled no longer, and may be read again.
    eventually(PATIENCE, || no_pull(&b))?;
    runtime.block_on(reads(&reader, "cam"))?;
    let admin = b.admin_url("");
    run_to_end(&["cluster", "drain", "--within", "20", "--admin", &admin])?;
    let ended =
        runtime.block_on(async { tokio::time::timeout(PATIENCE, reader.session.ended()).await });
    if ended.is_err() {
        return Err("the reader stays at a server that drains".into());
    }
    Ok(())
}

/// A session, and the socket that it needs.
struct Reader {
    session: Session,
    _endpoint: ClientEndpoint,
}

async fn dial(server: &Server, path: &str) -> Result<Reader, String> {
    let address = Address::parse(&server.moq_url(path)?).map_err(|error| error.to_string())?;
    let endpoint = ClientEndpoint::new().map_err(|error| error.to_string())?;
    let options = Options {
        congestion: CongestionControl::new(Algorithm::Cubic),
        trust: Trust::System,
        role: Role::Subscriber,
    };
    let session = connect(&endpoint, &address, options).await;
    Ok(Reader {
        session: session.map_err(|error| error.to_string())?,
        _endpoint: endpoint,
    })
}

/// Waits until the server has announced all `names`.
async fn announces(session: &Session, names: &[&str]) -> Result<(), String> {
    let mut announced = session.announced();
    let mut missing = names.to_vec();
    let hearing = async {
        while !missing.is_empty() {
            match announced.next().await {
                Some(Announcement::Began(path)) => missing.retain(|name| *name != path),
                Some(_) => {}
                None => return,
            }
        }
    };
    let _ = tokio::time::timeout(PATIENCE, hearing).await;
    match missing.is_empty() {
        true => Ok(()),
        false => Err(format!("not announced: {missing:?}")),
    }
}

/// Reads some frames of each track of a stream.
async fn reads(reader: &Reader, stream: &str) -> Result<(), String> {
    let reading = async {
        let broadcast = reader.session.subscribe(stream).await;
        let mut broadcast = broadcast.map_err(|error| error.to_string())?;
        let catalog = broadcast
            .catalog()
            .await
            .map_err(|error| error.to_string())?;
        let renditions = catalog.ok_or("the broadcast has ended")?.renditions;
        if renditions.len() != 2 {
            return Err(format!("{} renditions", renditions.len()));
        }
        for rendition in &renditions {
            let track = broadcast.read(rendition, DEADLINE).await;
            let mut track = track.map_err(|error| error.to_string())?;
            for _ in 0..30 {
                let frame = track.next().await.map_err(|error| error.to_string())?;
                frame.ok_or_else(|| format!("{} has ended", rendition.name))?;
            }
        }
        Ok(())
    };
    let read = tokio::time::timeout(PATIENCE, reading).await;
    read.unwrap_or_else(|_| Err("no frames in time".to_owned()))
        .map_err(|error| format!("{stream}: {error}"))
}

/// Checks how many pulls `server` has begun.
fn pulls(server: &Server, expected: f64) -> Result<(), String> {
    let found = server.metric("glassline_cluster_pulls_total")?;
    match (found - expected).abs() < f64::EPSILON {
        true => Ok(()),
        false => Err(format!("{found} pulls, not {expected}")),
    }
}

/// Checks that `server` pulls nothing.
fn no_pull(server: &Server) -> Result<(), String> {
    let told = crate::cluster::cluster(server)?;
    match told["pulls"].as_array().is_some_and(Vec::is_empty) {
        true => Ok(()),
        false => Err(told["pulls"].to_string()),
    }
}
