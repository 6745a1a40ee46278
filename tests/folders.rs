//! Names with folders over every protocol, on one server and between two.

use libtest_mimic::Failed;

use crate::cluster::{Watching, publish, wait_for_engine, wait_for_owner};
use crate::nats::Nats;
use crate::peers::{Peer, Test};
use crate::process::Running;
use crate::rtsp_publishers::{encoder, plays};
use crate::server::{Server, glassline, run_to_end};
use crate::whip::seen;

pub(crate) const TESTS: &[Test] = &[
    Test::of(&a_name_with_folders_is_published_and_played_by_rtsp_whip_and_whep)
        .needs(&[Peer::Ffmpeg]),
    Test::of(&a_name_with_folders_crosses_a_cluster_and_that_of_a_source_is_taken)
        .needs(&[Peer::Nats]),
];

fn a_name_with_folders_is_published_and_played_by_rtsp_whip_and_whep() -> Result<(), Failed> {
    let server = Server::serve(&["site/clip=demo"])?;
    let _by_rtsp = encoder(
        &server.rtsp_url("site/cam1"),
        "-c:v libx264 -bf 0 -c:a libopus",
    )?;
    let whip = server.url("/site/hall/cam2/whip");
    let by_whip = glassline(&["publish", "demo", &whip, "--log", "warn"]);
    let _by_whip = Running::start("publish", by_whip)?;
    for name in ["site/cam1", "site/hall/cam2", "site/clip"] {
        server.wait_for_state(name, "live")?;
        seen(&server, name, true)?;
        plays(&server.rtsp_url(name))?;
    }
    Ok(())
}

fn a_name_with_folders_crosses_a_cluster_and_that_of_a_source_is_taken() -> Result<(), Failed> {
    let nats = Nats::start()?;
    let yaml = |name: &str, more: &str| {
        let url = nats.url();
        format!("cluster: {{name: {name}, secret: shared-by-all, nats: '{url}'}}\n{more}")
    };
    let a = Server::configured(&yaml("a", "sources: {site/door: demo}\n"), &[])?;
    let b = Server::configured(&yaml("b", ""), &[])?;
    for server in [&a, &b] {
        wait_for_engine(server, "connected")?;
    }
    let _publisher = publish(&a, "/site/cam1/whip")?;
    wait_for_owner(&b, "site/cam1", "a")?;
    let watching = Watching::join(&b, "site/cam1")?;
    watching.sees(30)?;

    wait_for_owner(&b, "site/door", "a")?;
    let taken = b.url("/site/door/whip?override");
    let (status, printed) = run_to_end(&["publish", "demo", &taken])?;
    match !status.success() && printed.contains("has in its configuration") {
        true => Ok(()),
        false => Err(format!("{status}: {printed}").into()),
    }
}
