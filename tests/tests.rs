//! The product with real peers, from the outside: the built binary, over sockets.
//!
//! `cargo test --test tests` runs all tests, `cargo test --test tests browser` a part. Four
//! tests run at a time, or one of a module `alone`, which observes real time; deadlines are long, since
//! timings are measured by benchmarks. `cargo xtask soak` runs the long forms, in modules `soak`.

#![expect(
    clippy::disallowed_methods,
    reason = "these tests run against real peers in real time"
)]

mod aac_encoder;
mod absent;
mod acme;
mod aiortc;
mod api;
mod balancer;
mod bench;
mod browser;
mod call;
mod camera_layers;
mod cameras;
mod channel_host;
mod channels;
mod churn;
mod cluster;
mod cluster_clip;
mod cluster_figures;
mod cluster_fleet;
mod cluster_members;
mod cluster_messages;
mod cluster_moq;
mod cluster_recordings;
mod cluster_redirect;
mod commands;
mod coturn;
mod dashboard;
mod data;
mod descriptors;
mod doctor;
mod far_viewers;
#[path = "../benches/figure.rs"]
mod figure;
mod files;
mod firefox;
mod firewalls;
mod folders;
mod forged_packets;
mod guest;
mod hls;
mod hls_cache;
mod hls_changes;
mod hls_page;
mod hls_player;
mod http;
mod https;
mod ladder;
mod logging;
mod lost_servers;
mod marionette;
mod mediamtx;
mod messages;
mod moq;
mod namespace;
mod nats;
mod odd_files;
mod packages;
mod pages;
mod past;
mod paused_layers;
mod peers;
mod pion;
mod ports;
mod process;
mod publish;
mod publish_layers;
mod publish_page;
mod recorded_files;
mod recording_copies;
mod recordings;
mod restarts;
mod rooms;
mod rtsp;
mod rtsp_players;
mod rtsp_publishers;
mod rtsp_viewers;
mod server;
mod service;
mod sharing;
mod signalling;
mod snapshots;
mod sound_cards;
mod talk;
mod temporal_layers;
mod through_balancer;
mod timeline;
mod traces;
mod transcoding;
mod transcoding_always;
mod viewers;
mod webdriver;
mod whip;
mod whip_servers;

use std::process::ExitCode;

use libtest_mimic::Arguments;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Most of them wait for a browser or for a player, so that two cores hold five.
    arguments.test_threads.get_or_insert(5);
    let tests = [
        commands::TESTS,
        dashboard::TESTS,
        descriptors::TESTS,
        doctor::TESTS,
        logging::TESTS,
        service::TESTS,
        packages::TESTS,
        signalling::TESTS,
        viewers::TESTS,
        hls::TESTS,
        hls_cache::TESTS,
        churn::TESTS,
        cluster::TESTS,
        cluster_clip::TESTS,
        cluster_members::TESTS,
        cluster_messages::TESTS,
        cluster_moq::TESTS,
        cluster_recordings::TESTS,
        cluster_redirect::TESTS,
        lost_servers::TESTS,
        through_balancer::TESTS,
        aiortc::TESTS,
        api::TESTS,
        pion::TESTS,
        channels::TESTS,
        messages::TESTS,
        rtsp::TESTS,
        rtsp_viewers::TESTS,
        rtsp_players::TESTS,
        rtsp_publishers::TESTS,
        folders::TESTS,
        browser::TESTS,
        hls_changes::TESTS,
        hls_page::TESTS,
        hls_player::TESTS,
        camera_layers::TESTS,
        far_viewers::TESTS,
        pages::TESTS,
        https::TESTS,
        acme::TESTS,
        moq::TESTS,
        publish::TESTS,
        publish_layers::TESTS,
        publish_page::TESTS,
        paused_layers::TESTS,
        whip::TESTS,
        whip_servers::TESTS,
        firefox::TESTS,
        files::TESTS,
        odd_files::TESTS,
        recorded_files::TESTS,
        firewalls::TESTS,
        ladder::TESTS,
        forged_packets::TESTS,
        recording_copies::TESTS,
        recordings::TESTS,
        past::TESTS,
        temporal_layers::TESTS,
        timeline::TESTS,
        snapshots::TESTS,
        talk::TESTS,
        bench::TESTS,
        data::TESTS,
        traces::TESTS,
        transcoding::TESTS,
        transcoding_always::TESTS,
        call::TESTS,
        cameras::browser::TESTS,
        rooms::TESTS,
        restarts::TESTS,
        aac_encoder::TESTS,
        absent::TESTS,
        sound_cards::TESTS,
    ];
    let mut trials = peers::trials(&tests.concat(), !arguments.list);
    trials.extend(cluster_figures::trials());
    trials.extend(cameras::trials(&arguments));
    let conclusion = libtest_mimic::run(&arguments, trials);
    sharing::print_longest();
    conclusion.exit_code()
}
