use std::time::Duration;

use glassline_config::Config;
use glassline_ingest::SourceSpec;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Server;

const PATIENCE: Duration = Duration::from_secs(20);

/// Sends a request to the listener called `listener`, and returns the connection.
async fn ask(server: &Server, listener: &str, path: &str) -> TcpStream {
    let listeners = server.listeners().iter();
    let found = listeners.clone().find(|(name, _)| *name == listener);
    let address = found.expect("a listener").1;
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    stream
}

/// Returns what arrives until `wanted` is among it.
async fn read_until(stream: &mut TcpStream, wanted: &[u8]) -> Vec<u8> {
    let mut read = Vec::new();
    let reading = async {
        while !read.windows(wanted.len()).any(|it| it == wanted) {
            let mut part = [0; 4096];
            let count = stream.read(&mut part).await.expect("a connection");
            assert_ne!(count, 0, "{:?}", String::from_utf8_lossy(&read));
            read.extend_from_slice(&part[..count]);
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.expect("soon");
    read
}

async fn text(server: &Server, path: &str) -> String {
    let mut text = String::new();
    let mut stream = ask(server, "admin", path).await;
    stream.read_to_string(&mut text).await.expect("text");
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_gets_a_keyframe_is_counted_and_ends_with_the_server() {
    let free = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    let mut config = Config {
        shards: Some(1),
        ..Config::default()
    };
    config.http.address = free;
    config.media.address = free;
    config.admin.address = free;
    config.rtsp.address = None;
    config.quic.address = None;
    let server = Server::start(config, vec![SourceSpec::demo()]).await;
    let server = server.expect("free ports");
    let mut reader = ask(&server, "http", "/demo/raw.h264").await;
    // A start code and the header of a sequence parameter set (ITU-T H.264 Annex B, 7.3.1).
    let read = read_until(&mut reader, &[0, 0, 0, 1, 0x67]).await;
    assert!(String::from_utf8_lossy(&read).contains("video/h264"));
    let metrics = text(&server, "/metrics").await;
    let row = "glassline_viewers{stream=\"demo\",protocol=\"raw\"} 1";
    assert!(metrics.contains(row), "{metrics}");
    assert!(metrics.contains("glassline_raw_bytes_total "), "{metrics}");
    let overview = text(&server, "/api/v1/overview").await;
    assert!(overview.contains("\"raw\":1"), "{overview}");
    let rest = tokio::spawn(async move {
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).await
    });
    server.shutdown(PATIENCE).await;
    let ended = tokio::time::timeout(PATIENCE, rest).await;
    ended
        .expect("the body ends")
        .expect("no panic")
        .expect("an end");
}

#[test]
fn the_guide_shows_the_code_as_it_is() {
    let guide = include_str!("../../../../docs/guides/add-an-egress.md");
    let code = concat!(
        include_str!("mod.rs"),
        include_str!("../server/services.rs"),
        include_str!("../http/rights_table.rs"),
    );
    let blocks = guide.split("```rust\n").skip(1);
    let lines = blocks.flat_map(|block| block.split("```").next().unwrap_or_default().lines());
    for line in lines.map(str::trim) {
        assert!(
            code.contains(line),
            "the guide has a line of its own: {line}"
        );
    }
}
