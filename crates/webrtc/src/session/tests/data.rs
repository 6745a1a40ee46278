//! Data channels over a session: with media, without, and where one end has none.

use super::*;
use crate::dtls::{Cipher, CipherChoice};

fn both(cipher: CipherChoice) -> Setup {
    let data = DataConfig {
        cipher,
        ..DataConfig::default()
    };
    Setup {
        server_data: Some(data.clone()),
        client_data: Some(data),
        ..Setup::default()
    }
}

fn data_alone() -> Setup {
    Setup {
        tracks: Vec::new(),
        receive: Kinds::NONE,
        ..both(CipherChoice::default())
    }
}

fn connected_with(events: &[(Duration, Event)]) -> Option<Option<srtp::Profile>> {
    events.iter().find_map(|(_, event)| match event {
        Event::Connected { profile } => Some(*profile),
        _ => None,
    })
}

#[test]
fn every_cipher_can_be_forced_by_either_end() {
    for cipher in Cipher::ALL {
        for forced in [End::A, End::B] {
            let mut setup = both(CipherChoice::default());
            let data = match forced {
                End::A => &mut setup.server_data,
                End::B => &mut setup.client_data,
            };
            data.as_mut().expect("data").cipher = CipherChoice::Only(cipher);
            let mut pair = Pair::connected(setup);
            assert_eq!(pair.server.cipher(), Some(cipher));
            assert_eq!(pair.client.cipher(), Some(cipher));
        }
    }
}

#[test]
fn data_alone_connects_without_srtp() {
    let pair = Pair::connected(data_alone());
    assert_eq!(connected_with(&pair.server_events), Some(None));
    assert_eq!(connected_with(&pair.client_events), Some(None));
    assert!(pair.server.senders().is_empty() && pair.client.receivers().is_empty());
}

#[test]
fn an_end_that_wants_no_data_gets_media_alone() {
    for (server, client) in [(true, false), (false, true)] {
        let mut setup = both(CipherChoice::default());
        setup.server_data = setup.server_data.filter(|_| server);
        setup.client_data = setup.client_data.filter(|_| client);
        let mut pair = Pair::connected(setup);
        assert!(pair.server.channels().is_none() && pair.client.channels().is_none());
        assert_eq!(pair.server.cipher(), None);
        pair.send(0, 1, true, b"picture");
        pair.run_for(ms(100));
        assert_eq!(pair.heard.len(), 1);
    }
}
