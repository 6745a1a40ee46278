//! An RTSP server's answer to OPTIONS.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Sends `OPTIONS *` to `address`, and returns the status line.
///
/// # Errors
/// There is no connection or no answer within `patience`, or the answer is not RTSP's.
pub fn options(address: SocketAddr, patience: Duration) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.write_all(b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n")?;
    let mut line = String::new();
    io::Read::take(BufReader::new(stream), 200).read_line(&mut line)?;
    match line.starts_with("RTSP/") {
        true => Ok(line.trim_end().to_owned()),
        false => Err(io::Error::other(format!("no RTSP answer: {line:?}"))),
    }
}
