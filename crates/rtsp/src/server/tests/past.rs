//! Sessions that play what was recorded: their right, and what they are answered.

use super::*;

impl ScriptedClient {
    /// Returns the rights that were asked for since the last call.
    fn asked_rights(&mut self) -> Vec<Access> {
        let events = std::mem::take(&mut self.events);
        let rights = events.iter().filter_map(|event| match event {
            Event::Authorize { access, .. } => Some(*access),
            _ => None,
        });
        rights.collect()
    }
}

#[test]
fn a_range_of_calendar_time_needs_the_right_to_the_past() {
    let mut client = ScriptedClient::playing();
    assert_eq!(client.asked_rights(), [Access::Read]);
    let clock = "Range: clock=20261130T101500.25Z-20261130T111500Z\r\nScale: 4";
    let response = client.ask_session(&format!("PLAY {CAM}"), clock);
    assert_eq!(response.status, Status::OK);
    assert_eq!(
        response.headers.get("Range"),
        Some("clock=20261130T101500.25Z-20261130T111500Z")
    );
    assert_eq!(response.headers.get("Scale"), Some("4.000"));
    assert_eq!(client.asked_rights(), [Access::Past]);

    client.ask_session(&format!("PAUSE {CAM}"), "");
    assert_eq!(client.asked_rights(), [], "it is granted already");
    client.connection.withdraw_grant();
    client.ask_session(&format!("PLAY {CAM}"), "");
    assert_eq!(client.asked_rights(), [Access::Past], "it goes on there");
    client.ask_session(&format!("PLAY {CAM}"), "Range: npt=now-");
    assert_eq!(client.asked_rights(), [Access::Read], "back to live");
}

#[test]
fn a_url_that_names_an_instant_needs_the_right_to_the_past() {
    let mut client = ScriptedClient::open();
    let response = client.ask(&format!("DESCRIBE {CAM}?at=2026-11-30T10:15:00Z"), "");
    assert_eq!(response.status, Status::OK);
    let track = format!("{CAM}?at=2026-11-30T10:15:00Z/trackID=0");
    let response = client.set_up(&track, "RTP/AVP/TCP;unicast;interleaved=0-1");
    assert_eq!(response.status, Status::OK);
    assert_eq!(client.asked_rights(), [Access::Past]);
    client.status(&format!("DESCRIBE {CAM}?format=at=1"), "");
    assert_eq!(client.asked_rights(), [Access::Read], "no instant");
}

#[test]
fn where_nothing_is_recorded_the_status_line_says_so() {
    let mut client = ScriptedClient::playing();
    client.owner.next = Some(Answer::Explained {
        refusal: Refusal::InvalidRange,
        why: "nothing of 'cam' is recorded from then on".to_owned(),
    });
    let response = client.ask_session(&format!("PLAY {CAM}"), "Range: clock=20261130T101500Z-");
    assert_eq!(response.status, Status::INVALID_RANGE);
    assert_eq!(response.reason, "nothing of 'cam' is recorded from then on");
    assert_eq!(
        client.connection.state(),
        State::Playing,
        "the session stays"
    );
}

#[test]
fn a_client_of_onvif_recordings_says_which_frames_it_wants_and_how_fast() {
    use crate::replay::{Frames, Replay};
    let mut client = ScriptedClient::open();
    let response = client.ask(&format!("DESCRIBE {CAM}"), "Require: onvif-replay");
    assert_eq!(response.status, Status::OK);
    assert_eq!(client.asked_rights(), [Access::Past]);
    let unknown = client.ask(&format!("DESCRIBE {CAM}"), "Require: onvif-replay, x");
    assert_eq!(unknown.status, Status::OPTION_NOT_SUPPORTED);
    assert_eq!(unknown.headers.get("Unsupported"), Some("x"));

    let mut client = ScriptedClient::playing();
    let mut wishes = |headers: &str| {
        let play = format!("PLAY {CAM}");
        let headers = format!("Range: clock=20261130T101500Z-\r\n{headers}");
        let response = client.ask_session(&play, &headers);
        match client.events.pop() {
            Some(Event::Play { replay, .. }) => Ok((response.headers.cseq(), replay)),
            _ => Err(response.status),
        }
    };
    let (_, none) = wishes("Rate-Control: no").expect("PLAY");
    assert_eq!(none, None, "without the tag");
    let all = "Require: onvif-replay\r\nRate-Control: no\r\nImmediate: yes\r\nFrames: intra/4000";
    let (sequence, replay) = wishes(all).expect("PLAY");
    let expected = Replay {
        sequence: sequence.expect("a number") as u8,
        is_paced: false,
        frames: Frames::Intra(Duration::from_secs(4)),
    };
    assert_eq!(replay, Some(expected));
    let (_, replay) = wishes("Require: onvif-replay").expect("PLAY");
    let replay = replay.expect("wishes");
    assert!(replay.is_paced && replay.frames == Frames::All);
    let refused = wishes("Require: onvif-replay\r\nFrames: red");
    assert_eq!(refused, Err(Status::BAD_REQUEST));
}
