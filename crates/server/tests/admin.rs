//! Who may use the admin port, with which role, and what of it is noted.

use glassline_access::auth::{Account, Name};
use glassline_config::{Config, NamedToken, Role, Secret};
use serde_json::{Value, json};

use crate::running::{Response, Running};

const VIEWER: &str = "viewer-0123456789";
const OPERATOR: &str = "operator-0123456789";
const ADMIN: &str = "admin-0123456789";
const PASSWORD: &str = "correct horse";

fn configure(config: &mut Config) {
    let token = |name: &str, token: &str, role| NamedToken {
        name: Name::parse(name).expect("a name"),
        token: Secret::new(token).expect("a token"),
        role,
    };
    config.auth.tokens = vec![
        token("prometheus", VIEWER, Role::Viewer),
        token("shift", OPERATOR, Role::Operator),
        token("deploy", ADMIN, Role::Admin),
    ];
    let named = |name: &str, role| Account {
        role,
        ..Account::new(Name::parse(name).expect("a name"), PASSWORD, &[7; 16])
    };
    config.auth.users = vec![named("ann", Some(Role::Operator)), named("bob", None)];
}

fn guarded() -> Running {
    Running::with(1, configure)
}

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

fn ask(running: &Running, token: &str, method: &str, path: &str) -> u16 {
    let authorization = bearer(token);
    let headers = [
        ("Authorization", authorization.as_str()),
        ("Content-Length", "0"),
    ];
    running.admin_request(method, path, &headers).status
}

fn sign_in(running: &Running, shown: &Value) -> Response {
    let json = [("Content-Type", "application/json")];
    running.admin_send("POST", "/api/v1/session", &json, &shown.to_string())
}

/// Returns name and value of the cookie that an answer sets.
fn cookie(answer: &Response) -> String {
    let set = answer.header("set-cookie").expect("a cookie");
    set.split(';').next().expect("a pair").to_owned()
}

#[test]
fn each_role_does_what_it_is_for_and_nothing_above() {
    let running = guarded();
    running.stream();
    let keyframe = "/api/v1/streams/cam/keyframe";
    let delete = "/api/v1/sources/none";
    for (token, read, operate, administer, audit) in [
        (VIEWER, 200, 403, 403, 403),
        (OPERATOR, 200, 204, 403, 403),
        (ADMIN, 200, 204, 404, 200),
        ("wrong-0123456789", 401, 401, 401, 401),
    ] {
        let did = |method, path| ask(&running, token, method, path);
        assert_eq!(did("GET", "/api/v1/overview"), read, "{token}");
        assert_eq!(did("GET", "/metrics"), read, "{token}");
        assert_eq!(did("POST", keyframe), operate, "{token}");
        assert_eq!(did("DELETE", delete), administer, "{token}");
        assert_eq!(did("GET", "/api/v1/audit"), audit, "{token}");
    }
}

#[test]
fn a_stranger_learns_the_health_and_nothing_else() {
    let running = guarded();
    for path in ["/healthz", "/readyz", "/sign-in", "/-/sign_in.js"] {
        assert_eq!(running.admin(path).status, 200, "{path}");
    }
    let plain = running.admin_json("/healthz").body;
    assert_eq!(plain, "ok\n", "the names of threads are for operators");
    for path in [
        "/metrics",
        "/api/v1/streams",
        "/openapi.json",
        "/nowhere",
        "/",
    ] {
        let refused = running.admin(path);
        refused.problem(401);
        let challenge = refused.header("www-authenticate").expect("a challenge");
        assert!(
            !challenge.contains("Basic"),
            "browsers would keep it: {challenge}"
        );
    }
    let page = running.admin_with("/api", &[("Accept", "text/html,*/*")]);
    assert_eq!(page.status, 303);
    assert_eq!(page.header("location"), Some("/sign-in?to=%2Fapi"));
    assert_eq!(
        running.admin_post("/api/v1/streams/cam/keyframe").status,
        401
    );
    let token = format!("/api/v1/streams?token={ADMIN}");
    assert_eq!(
        running.admin(&token).status,
        401,
        "tokens in URLs end up in logs"
    );
}

#[test]
fn users_need_a_role_and_the_right_password() {
    use base64::Engine as _;
    let running = guarded();
    let basic = |user: &str, password: &str| {
        let pair = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
        let authorization = format!("Basic {pair}");
        let headers = [("Authorization", authorization.as_str())];
        running.admin_with("/api/v1/session", &headers)
    };
    let ann = basic("ann", PASSWORD);
    assert_eq!(ann.status, 200, "{}", ann.body);
    assert_eq!(ann.json()["role"], "operator");
    assert_eq!(basic("bob", PASSWORD).status, 401, "no role");
    assert_eq!(basic("ann", "wrong").status, 401);
    assert_eq!(
        sign_in(&running, &json!({"user": "bob", "password": PASSWORD})).status,
        403
    );
}

#[test]
fn a_browser_signs_in_changes_something_and_signs_out() {
    let running = guarded();
    running.stream();
    let signed = sign_in(&running, &json!({"user": "ann", "password": PASSWORD}));
    assert_eq!(signed.status, 200, "{}", signed.body);
    let attributes = signed.header("set-cookie").expect("a cookie");
    for wanted in ["HttpOnly", "SameSite=Strict", "Max-Age=43200", "Path=/"] {
        assert!(attributes.contains(wanted), "{attributes}");
    }
    assert!(!attributes.contains("Secure"), "plain HTTP would lose it");
    let cookie = cookie(&signed);
    let with = |method: &str, path: &str, more: &[(&str, &str)]| {
        let own = [("Cookie", cookie.as_str()), ("Content-Length", "0")];
        running.admin_request(method, path, &[&own, more].concat())
    };
    assert_eq!(with("GET", "/api/v1/streams", &[]).status, 200);
    let keyframe = "/api/v1/streams/cam/keyframe";
    let (origin, header) = (("Origin", "http://localhost"), ("X-Glassline-Request", "1"));
    assert_eq!(
        with("POST", keyframe, &[]).status,
        403,
        "another page's form"
    );
    assert_eq!(with("POST", keyframe, &[origin]).status, 403);
    assert_eq!(with("POST", keyframe, &[header]).status, 403);
    let other_port = ("Origin", "http://localhost:81");
    assert_eq!(with("POST", keyframe, &[other_port, header]).status, 403);
    assert_eq!(with("POST", keyframe, &[origin, header]).status, 204);
    let out = with("DELETE", "/api/v1/session", &[origin, header]);
    assert_eq!(out.status, 204);
    let forgotten = out.header("set-cookie").expect("a cookie");
    assert!(forgotten.contains("Max-Age=0"), "{forgotten}");
    assert_eq!(with("GET", "/api/v1/streams", &[]).status, 401);
}

#[test]
fn a_browser_that_reached_a_proxy_by_https_gets_a_secure_cookie() {
    let running = guarded();
    let headers = [
        ("Content-Type", "application/json"),
        ("Origin", "https://localhost"),
    ];
    let shown = json!({"token": ADMIN}).to_string();
    let signed = running.admin_send("POST", "/api/v1/session", &headers, &shown);
    let attributes = signed.header("set-cookie").expect("a cookie");
    assert!(attributes.ends_with("; Secure"), "{attributes}");
}

#[test]
fn guesses_cost_their_address_and_are_counted() {
    let running = guarded();
    let mut statuses = (0..30).map(|number| {
        let shown = json!({"user": "ann", "password": format!("guess {number}")});
        sign_in(&running, &shown).status
    });
    let first = statuses.next().expect("an answer");
    assert_eq!(first, 401);
    let limited = statuses.filter(|status| *status == 429).count();
    assert!(limited >= 5, "{limited}");
    assert_eq!(ask(&running, ADMIN, "GET", "/metrics"), 429, "unseen");
}

#[test]
fn changes_are_noted_with_who_made_them_and_strangers_note_nothing() {
    let running = guarded();
    running.stream();
    let list = |query: &str| {
        let authorization = bearer(ADMIN);
        let path = format!("/api/v1/audit{query}");
        running
            .admin_with(&path, &[("Authorization", &authorization)])
            .json()
    };
    assert_eq!(list("")["total"], 0);
    ask(
        &running,
        "wrong-0123456789",
        "DELETE",
        "/api/v1/sources/cam",
    );
    ask(&running, OPERATOR, "GET", "/api/v1/streams");
    assert_eq!(list("")["total"], 0);
    ask(&running, OPERATOR, "POST", "/api/v1/streams/cam/keyframe");
    ask(&running, VIEWER, "POST", "/api/v1/streams/cam/keyframe");
    sign_in(&running, &json!({"user": "ann", "password": PASSWORD}));
    let noted = list("");
    assert_eq!(noted["total"], 3, "{noted}");
    let [signed, refused, done] = [0, 1, 2].map(|at| noted["changes"][at].clone());
    assert_eq!(
        (&signed["who"], &signed["action"]),
        (&json!("ann"), &json!("signIn"))
    );
    assert_eq!(refused["status"], 403);
    assert!(
        refused["reason"]
            .as_str()
            .expect("why")
            .contains("operator"),
        "{refused}"
    );
    assert_eq!(done["who"], "shift");
    assert_eq!(done["role"], "operator");
    assert_eq!(done["action"], "requestKeyframe");
    assert_eq!(done["target"], "POST /api/v1/streams/cam/keyframe");
    assert_eq!(done["from"], "127.0.0.1");
    assert_eq!(done["status"], 204);
    assert_eq!(list("?who=shift")["total"], 1);
    assert_eq!(list("?action=signIn&limit=1")["changes"][0]["number"], 3);
}

#[test]
fn without_a_role_this_machine_alone_does_everything_and_no_page_drives_it() {
    let running = Running::start(1);
    running.stream();
    let keyframe = "/api/v1/streams/cam/keyframe";
    assert_eq!(running.admin_post(keyframe).status, 204);
    let post = |headers: &[(&str, &str)]| {
        let own = [("Content-Length", "0")];
        running
            .admin_request("POST", keyframe, &[&own, headers].concat())
            .status
    };
    assert_eq!(post(&[("Origin", "http://evil.example")]), 403);
    assert_eq!(post(&[("Origin", "null")]), 403);
    assert_eq!(post(&[("Host", "evil.example")]), 421);
    assert_eq!(post(&[("Sec-Fetch-Site", "cross-site")]), 403);
    let proxied = [("X-Forwarded-For", "192.0.2.1")];
    assert_eq!(post(&proxied), 403, "a proxy serves other machines");
    let refused = running.admin_with("/metrics", &proxied).problem(403);
    let detail = refused["detail"].as_str().expect("a sentence");
    assert!(detail.contains("auth.tokens"), "{detail}");
    assert_eq!(running.admin_with("/healthz", &proxied).status, 200);
    assert_eq!(
        running.admin("/api/v1/audit").json()["changes"][0]["who"],
        "this machine"
    );
}

#[test]
fn metrics_can_be_opened_for_a_network_of_their_own() {
    let running = Running::with(1, |config| {
        configure(config);
        config.admin.open_metrics = true;
    });
    assert_eq!(running.admin("/metrics").status, 200);
    assert_eq!(running.admin("/api/v1/streams").status, 401);
}

#[test]
fn users_with_a_role_alone_leave_streams_open() {
    let running = Running::with(1, |config| {
        configure(config);
        config.auth.users.retain(|it| it.role.is_some());
    });
    assert_eq!(running.get("/api/v1/streams").status, 200);
    assert_eq!(running.admin("/api/v1/streams").status, 401);
}
