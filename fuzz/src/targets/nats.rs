//! What NATS servers and operators say to the engine of a cluster: places of delivered messages,
//! headers of stored ones, a server's monitoring, and addresses. Whatever is accepted keeps to its
//! form, and an address is its own spelling.

use glassline_cluster_nats::{Delivery, ServerUrl, parse_message_headers, parse_sync_always};

pub(crate) fn run(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else {
        return;
    };
    let text = String::from_utf8_lossy(rest);
    match kind % 4 {
        0 => {
            if let Ok(delivery) = Delivery::parse(&text) {
                let number = delivery.stream_sequence.to_string();
                assert!(text.contains(&number) && text.starts_with("$JS.ACK."));
            }
        }
        1 => {
            for (name, value) in parse_message_headers(rest) {
                assert!(!name.contains(':'), "{name:?}");
                assert!(!name.contains("\r\n") && !value.contains("\r\n"));
            }
        }
        2 => {
            if parse_sync_always(rest).is_ok() {
                assert!(text.contains("server_id"));
            }
        }
        _ => {
            if let Ok(url) = text.parse::<ServerUrl>() {
                let again: ServerUrl = url.as_str().parse().expect("its own spelling");
                assert_eq!(again, url);
                assert!(!url.as_str().contains('@'), "a user in a log");
            }
        }
    }
}
