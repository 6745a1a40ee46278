//! Names and passwords over HTTP, as a browser and a player are asked for them.

use glassline_access::auth::{Account, Name, Pattern};
use glassline_hub::StreamName;

use crate::peer::SDP;
use crate::running::Running;
use crate::source::{Film, Source};

/// `ann:pw` and `ann:no`, as RFC 7617 §2 writes them.
const ANN: (&str, &str) = ("Authorization", "Basic YW5uOnB3");
const NOT_ANN: (&str, &str) = ("Authorization", "Basic YW5uOm5v");

/// Starts a server on which `ann` may read streams with the prefix `cam`.
fn guarded() -> Running {
    Running::with(1, |config| {
        config.auth.users = vec![Account {
            read: vec![Pattern::parse("cam*").expect("a pattern")],
            ..Account::new(Name::parse("ann").expect("a name"), "pw", &[5; 16])
        }];
    })
}

#[test]
fn a_page_asks_for_the_password_and_then_shows_what_the_user_may_see() {
    let running = guarded();
    let _source = Source::start(&running.stream(), Film::default());
    let hall = StreamName::parse("hall").expect("a good name");
    running.hub().create(hall).expect("room");
    let get = |path: &str, header| running.request("GET", path, &[header], "");
    for path in [
        "/",
        "/cam",
        "/api/v1/streams",
        "/api/v1/streams/cam",
        "/-/no/such",
    ] {
        let asked = running.get(path);
        let challenge = asked.header("www-authenticate").unwrap_or_default();
        assert!(challenge.starts_with("Basic realm="), "{path}: {challenge}");
        asked.problem(401);
        get(path, NOT_ANN).problem(401);
    }
    assert_eq!(
        running.get("/-/base.css").status,
        200,
        "nothing secret in it"
    );
    assert_eq!(get("/cam", ANN).status, 200);
    get("/hall", ANN).problem(403);
    get("/api/v1/streams/hall", ANN).problem(403);
    get("/api/v1/streams/h%61ll", ANN).problem(403);
    get("/-/no/such", ANN).problem(404);
    let listed = get("/api/v1/streams", ANN).json();
    let names = listed["streams"].as_array().expect("a list");
    assert_eq!(names.len(), 1, "{listed}");
    assert_eq!(names[0]["name"], "cam");
}

#[test]
fn an_offer_needs_the_right_to_read_its_stream() {
    let running = guarded();
    let _source = Source::start(&running.stream(), Film::default());
    let post = |path: &str, headers: &[(&str, &str)]| {
        running.request("POST", path, &[&[SDP], headers].concat(), "v=0\r\n")
    };
    post("/cam/whep", &[]).problem(401);
    post("/cam/whep", &[NOT_ANN]).problem(401);
    post("/hall/whep", &[ANN]).problem(403);
    // The request passes the check of rights and is refused for its content.
    post("/cam/whep", &[ANN]).problem(400);
    post("/doSignaling?stream=hall", &[ANN]).problem(403);
    let preflight = running.request("OPTIONS", "/cam/whep", &[], "");
    assert_eq!(preflight.status, 204);
}
