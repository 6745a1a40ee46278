//! A server that may open few descriptors, and clients that want more.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::thread;
use std::time::Duration;

use libtest_mimic::Failed;

use crate::http;
use crate::peers::Test;
use crate::process::{PATIENCE, eventually};
use crate::server::Server;

pub(crate) const TESTS: &[Test] = &[
    Test::of(&half_open_requests_leave_descriptors_to_others),
    Test::of(&half_open_rtsp_connections_make_room),
    Test::of(&an_empty_table_of_descriptors_is_survived),
];

/// Descriptors of the server, fewer than the half-open requests.
const DESCRIPTORS: usize = 320;

fn half_open_requests_leave_descriptors_to_others() -> Result<(), Failed> {
    let mut server = Server::limited(DESCRIPTORS, &["demo=demo"])?;
    let warned = server.printed();
    for part in [
        "http.connections is 4096",
        "rtsp.clients is 10000",
        "LimitNOFILE=",
    ] {
        if !warned.contains(part) {
            return Err(format!("no warning of {part}:\n{warned}").into());
        }
    }
    let mut half_open = Vec::new();
    for _ in 0..DESCRIPTORS + 100 {
        let mut stream = connect(&server.url(""))?;
        // The server may have closed it for a newer one.
        let _ = stream.write_all(b"GET /x HTTP/1.1\r\nHost: a\r\nX-");
        half_open.push(stream);
    }
    is_answered(&server)?;
    eventually(PATIENCE, || {
        half_open.retain_mut(is_open);
        match half_open.len() {
            0 => Ok(()),
            open => Err(format!("{open} half-open requests are still open")),
        }
    })?;
    is_answered(&server)?;
    let status = server.stop(PATIENCE)?;
    if !status.success() {
        return Err(format!("{status}").into());
    }
    Ok(())
}

/// Descriptors for connections, besides those that a server has open.
const ROOM: usize = 40;

/// Connections over RTSP that send nothing fill the table of descriptors. They make room for clients
/// that ask, and those that play are left alone.
fn half_open_rtsp_connections_make_room() -> Result<(), Failed> {
    let server = Server::serve(&["demo=demo"])?;
    let mut player = hold_rtsp(&server)?.ok_or("RTSP refuses")?;
    let descriptors = highest_descriptor(server.id())? + ROOM;
    limit(&server, descriptors)?;
    let idle: Result<Vec<_>, _> = (0..descriptors + 100)
        .map(|_| connect(&server.rtsp_url("")))
        .collect();
    let idle = idle?;
    // A thread without idle connections refuses, and asks the others to make room.
    eventually(PATIENCE, || match ask_rtsp(&server)? {
        Some(_) => Ok(()),
        None => Err("RTSP refuses".to_owned()),
    })?;
    options(&mut player).map_err(|error| format!("the player was closed: {error}"))?;
    // HTTP needs a descriptor, too.
    limit(&server, 1024)?;
    let made = "glassline_rtsp_clients_closed_total{reason=\"no_session\"";
    eventually(PATIENCE, || match server.metric(made)? {
        count if count < 1.0 => Err("no idle connection made room".to_owned()),
        _ => Ok(()),
    })?;
    drop(idle);
    Ok(())
}

/// Sets the limit of a server's descriptors.
fn limit(server: &Server, descriptors: usize) -> Result<(), String> {
    let id = server.id().to_string();
    let limit = format!("--nofile={descriptors}:");
    let status = Command::new("prlimit")
        .args(["--pid", &id, &limit])
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        other => Err(format!("cannot run prlimit: {other:?}")),
    }
}

/// Lets the table of descriptors fill up while the server runs, as if something else had used up
/// what was planned for connections.
fn an_empty_table_of_descriptors_is_survived() -> Result<(), Failed> {
    let server = Server::serve(&["demo=demo"])?;
    // A descriptor gets the lowest free number, which must be below the limit.
    let highest = highest_descriptor(server.id())?;
    limit(&server, highest + 1)?;
    let mut held = Vec::new();
    // Connections that play do not make room for others.
    while let Some(stream) = hold_rtsp(&server)? {
        held.push(stream);
        if held.len() > highest {
            return Err(format!("{} connections, none refused", held.len()).into());
        }
    }
    for _ in 0..20 {
        let mut stream = connect(&server.url(""))?;
        match stream.read(&mut [0; 1]) {
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            // A thread of RTSP gave up its spare descriptor at this moment, and HTTP accepted the
            // connection with the descriptor. The next shortage closes it.
            Ok(0) => {}
            other => return Err(format!("HTTP does not refuse: {other:?}").into()),
        }
    }
    // A loop that logs each failure would show now.
    thread::sleep(Duration::from_secs(2));
    let printed = server.printed();
    let is_of_outage = |line: &&str| line.contains("cannot accept connections");
    let lines = printed.lines().filter(is_of_outage).count();
    // One of HTTP, and one of each thread of RTSP.
    let threads = thread::available_parallelism().map_or(1, usize::from);
    if !(2..=1 + threads).contains(&lines) {
        return Err(format!("{lines} lines of the log:\n{printed}").into());
    }
    for stream in &mut held {
        options(stream).map_err(|error| format!("an open connection is not served: {error}"))?;
    }
    limit(&server, 1024)?;
    eventually(PATIENCE, || is_answered(&server))?;
    eventually(PATIENCE, || {
        let printed = server.printed();
        match printed.contains("connections are accepted again") {
            true => Ok(()),
            false => Err(printed),
        }
    })?;
    Ok(())
}

/// Returns the highest number of an open descriptor of a process.
fn highest_descriptor(process: u32) -> Result<usize, String> {
    let folder = format!("/proc/{process}/fd");
    let open = fs::read_dir(&folder).map_err(|error| format!("{folder}: {error}"))?;
    let numbers = open.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.max().ok_or_else(|| format!("{folder} is empty"))
}

/// Connects by RTSP; returns `None` if the server refuses the connection.
fn ask_rtsp(server: &Server) -> Result<Option<TcpStream>, String> {
    asked(server, options)
}

/// Connects by RTSP and plays a track; returns `None` if the server refuses the connection.
fn hold_rtsp(server: &Server) -> Result<Option<TcpStream>, String> {
    let url = format!("{}/trackID=0", server.rtsp_url("demo"));
    let transport = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n";
    let set_up = format!("SETUP {url} RTSP/1.0\r\nCSeq: 1\r\n{transport}\r\n");
    asked(server, |stream| {
        let answer = ask(stream, &set_up)?;
        let session = answer.lines().find(|line| line.starts_with("Session: "));
        let session = session.and_then(|line| line.split(';').next());
        let session = session.ok_or_else(|| io::Error::other(answer.clone()))?;
        ask(
            stream,
            &format!("PLAY {url} RTSP/1.0\r\nCSeq: 2\r\n{session}\r\n\r\n"),
        )?;
        Ok(())
    })
}

fn asked(
    server: &Server,
    request: impl Fn(&mut TcpStream) -> io::Result<()>,
) -> Result<Option<TcpStream>, String> {
    let mut stream = connect(&server.rtsp_url(""))?;
    match request(&mut stream) {
        Ok(()) => Ok(Some(stream)),
        // A connection without a request that was accepted with a spare descriptor is closed by the
        // next shortage, without a reset.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(format!("RTSP is not answered: {error}")),
    }
}

/// Sends OPTIONS by RTSP and reads the whole answer.
fn options(stream: &mut TcpStream) -> io::Result<()> {
    ask(stream, "OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n").map(drop)
}

/// Sends a request by RTSP and reads the whole answer, which has no body. Media before it is dropped.
fn ask(stream: &mut TcpStream, request: &str) -> io::Result<String> {
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        if answer.is_empty() && byte == *b"$" {
            let mut head = [0; 3];
            stream.read_exact(&mut head)?;
            let length = u16::from_be_bytes([head[1], head[2]]);
            stream.read_exact(&mut vec![0; usize::from(length)])?;
            continue;
        }
        answer.extend(byte);
    }
    let answer = String::from_utf8_lossy(&answer).into_owned();
    match answer.starts_with("RTSP/1.0 200 ") {
        true => Ok(answer),
        false => Err(io::Error::other(answer)),
    }
}

/// Connects to the address of a URL.
fn connect(url: &str) -> Result<TcpStream, String> {
    let (_, rest) = url.split_once("://").ok_or("no URL")?;
    let address = rest.split('/').next().unwrap_or(rest);
    let stream = TcpStream::connect(address).map_err(|error| format!("{address}: {error}"))?;
    let timed = stream.set_read_timeout(Some(PATIENCE));
    timed.map_err(|error| format!("{address}: {error}"))?;
    Ok(stream)
}

/// Checks that viewers, operators and RTSP clients are answered.
fn is_answered(server: &Server) -> Result<(), String> {
    for url in [server.url("/demo"), server.admin_url("/healthz")] {
        let answer = http::get(&url)?;
        if answer.status != 200 {
            return Err(format!("{url}: {} {}", answer.status, answer.body));
        }
    }
    match ask_rtsp(server)? {
        Some(_) => Ok(()),
        None => Err("RTSP refuses".to_owned()),
    }
}

/// Returns whether the server has not closed a connection.
fn is_open(stream: &mut TcpStream) -> bool {
    let mut buffer = [0; 1024];
    if stream.set_nonblocking(true).is_err() {
        return false;
    }
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
    }
}
