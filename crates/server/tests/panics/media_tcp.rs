//! Panics of the port that takes media over TCP.

use super::{await_that, fail, fail_at};
use crate::ice_tcp::TcpViewer;
use crate::running::Running;
use crate::source::{Film, Source};

#[test]
fn the_port_that_panics_accepts_again_and_its_connections_go_on() {
    let running = Running::start(1);
    let _source = Source::start(&running.stream(), Film::default());
    let mut viewer = TcpViewer::joined(&running);
    fail(&running, "media-tcp", "panic");
    await_that(&running, "the port accepts again", |running| {
        running.of_part("part_restarts_total", "background") == 1
    });
    viewer.goes_on();
    TcpViewer::joined(&running).goes_on();
}

#[test]
fn a_connection_whose_check_panics_goes_alone() {
    let running = Running::start(1);
    let _source = Source::start(&running.stream(), Film::default());
    let mut viewer = TcpViewer::joined(&running);
    fail_at(&running, "media-connection");
    let unlucky = std::net::TcpStream::connect(running.listener("media")).expect("accepted");
    await_that(&running, "the panic is counted", |running| {
        running.of_part("panics_total", "background") == 1
    });
    drop(unlucky);
    viewer.goes_on();
    TcpViewer::joined(&running).goes_on();
}
