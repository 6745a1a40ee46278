//! As much HTTP as a test's server needs.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;

/// One request as the server saw it.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) line: String,
    pub(crate) headers: Vec<String>,
    pub(crate) body: String,
}

impl Seen {
    pub(crate) fn has(&self, header: &str) -> bool {
        self.headers
            .iter()
            .any(|seen| seen.eq_ignore_ascii_case(header))
    }
}

pub(crate) fn read_request(stream: &TcpStream) -> Seen {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a request");
        let line = line.trim_end().to_owned();
        if line.is_empty() {
            break;
        }
        lines.push(line);
    }
    let length = lines
        .iter()
        .find_map(|line| {
            let line = line.to_ascii_lowercase();
            line.strip_prefix("content-length: ")?.parse().ok()
        })
        .unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("the body");
    Seen {
        line: lines.remove(0),
        headers: lines,
        body: String::from_utf8(body).expect("text"),
    }
}

pub(crate) fn response(status: &str, headers: &[&str], body: &str) -> String {
    let mut text = format!("HTTP/1.1 {status}\r\nConnection: close\r\n");
    for header in headers {
        text += &format!("{header}\r\n");
    }
    text + &format!("Content-Length: {}\r\n\r\n{body}", body.len())
}
