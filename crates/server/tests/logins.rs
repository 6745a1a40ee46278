//! Users and tokens that operators make, change and delete over the API, and that survive a restart.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::running::{Response, Running};

/// A server that keeps what is made over its API in a folder of its own.
struct Kept(PathBuf);

impl Kept {
    fn new(name: &str) -> Self {
        let name = format!("glassline-logins-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&folder);
        Self(folder)
    }

    fn start(&self) -> Running {
        Running::with(1, |config| {
            config.admin.state_file = Some(self.0.join("api.json"));
        })
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn send(
    running: &Running,
    token: Option<&str>,
    method: &str,
    path: &str,
    body: &Value,
) -> Response {
    let authorization = format!("Bearer {}", token.unwrap_or_default());
    let mut headers = vec![("Content-Type", "application/json")];
    if token.is_some() {
        headers.push(("Authorization", &authorization));
    }
    running.admin_send(
        method,
        &format!("/api/v1/{path}"),
        &headers,
        &body.to_string(),
    )
}

/// Makes a token, and returns its text.
fn make_token(running: &Running, by: Option<&str>, name: &str, rights: &Value) -> String {
    let made = send(running, by, "PUT", &format!("tokens/{name}"), rights);
    assert_eq!(made.status, 201, "{}", made.body);
    let text = made.json()["token"]
        .as_str()
        .expect("shown once")
        .to_owned();
    assert!(text.starts_with("glt_") && text.len() == 52, "{text}");
    text
}

#[test]
fn the_first_admin_closes_the_port_and_survives_a_restart() {
    let kept = Kept::new("restart");
    let running = kept.start();
    let refused = send(
        &running,
        None,
        "PUT",
        "tokens/look",
        &json!({"role": "viewer"}),
    );
    assert_eq!(refused.problem(409)["title"], "No admin");
    let admin = make_token(&running, None, "root", &json!({"role": "admin"}));
    assert_eq!(
        running.admin("/api/v1/streams").status,
        401,
        "closed at once"
    );
    let by = Some(admin.as_str());
    let viewer = make_token(&running, by, "prometheus", &json!({"role": "viewer"}));
    let user = json!({"password": "correct horse", "role": "operator"});
    assert_eq!(send(&running, by, "PUT", "users/ann", &user).status, 201);
    let gone = send(&running, by, "DELETE", "tokens/root", &Value::Null);
    assert_eq!(
        gone.problem(409)["title"],
        "No admin",
        "nobody could undo it"
    );
    drop(running);
    let text = fs::read_to_string(kept.0.join("api.json")).expect("it is kept");
    assert!(
        !text.contains("glt_") && !text.contains("correct horse"),
        "{text}"
    );
    let again = kept.start();
    let list = send(&again, by, "GET", "tokens", &Value::Null).json();
    assert_eq!(list["total"], 2);
    assert_eq!(list["tokens"][0]["name"], "prometheus");
    assert_eq!(list["tokens"][0]["origin"], "api");
    assert!(!list.to_string().contains("glt_"), "{list}");
    let viewer = Some(viewer.as_str());
    assert_eq!(
        send(&again, viewer, "GET", "streams", &Value::Null).status,
        200
    );
    assert_eq!(
        send(&again, viewer, "GET", "users", &Value::Null).status,
        403
    );
    let shown = json!({"user": "ann", "password": "correct horse"});
    let signed = send(&again, None, "POST", "session", &shown);
    assert_eq!(signed.json()["role"], "operator", "{}", signed.body);
}

#[test]
fn a_changed_password_or_right_holds_at_once_and_the_old_one_no_more() {
    let kept = Kept::new("change");
    let running = kept.start();
    let admin = make_token(&running, None, "root", &json!({"role": "admin"}));
    let by = Some(admin.as_str());
    let put = |body: &Value| send(&running, by, "PUT", "users/ann", body).status;
    let sign_in = |password: &str| {
        let shown = json!({"user": "ann", "password": password});
        send(&running, None, "POST", "session", &shown)
    };
    assert_eq!(
        put(&json!({"role": "viewer"})),
        422,
        "a new user needs a password"
    );
    assert_eq!(
        put(&json!({"password": "correct horse"})),
        422,
        "and a right"
    );
    assert_eq!(put(&json!({"password": "short", "role": "viewer"})), 400);
    assert_eq!(
        put(&json!({"password": "correct horse", "role": "viewer"})),
        201
    );
    let signed = sign_in("correct horse");
    let set = signed.header("set-cookie").expect("a cookie").to_owned();
    let cookie = set.split(';').next().expect("a pair");
    let session = || running.admin_with("/api/v1/session", &[("Cookie", cookie)]);
    assert_eq!(session().json()["role"], "viewer");
    assert_eq!(put(&json!({"role": "operator"})), 200, "the password stays");
    assert_eq!(session().json()["role"], "operator");
    assert_eq!(
        put(&json!({"password": "battery staple", "role": "operator"})),
        200
    );
    assert_eq!(session().status, 401, "the browser is out");
    assert_eq!(sign_in("correct horse").status, 401);
    assert_eq!(sign_in("battery staple").status, 200);
    let deleted = send(&running, by, "DELETE", "users/ann", &Value::Null);
    assert_eq!(deleted.status, 204);
    assert_eq!(sign_in("battery staple").status, 401);
    assert_eq!(
        send(&running, by, "DELETE", "users/ann", &Value::Null).status,
        404
    );
}

#[test]
fn a_token_opens_streams_by_pattern_until_it_is_deleted() {
    let kept = Kept::new("streams");
    let running = kept.start();
    running.stream();
    let admin = make_token(&running, None, "root", &json!({"role": "admin"}));
    assert_eq!(
        running.get("/api/v1/streams").status,
        200,
        "roles leave streams open"
    );
    let by = Some(admin.as_str());
    let token = make_token(&running, by, "door", &json!({"read": ["cam*"]}));
    assert_eq!(
        running.get("/api/v1/streams").status,
        401,
        "rights close them"
    );
    let get = |path: &str, token: &str| {
        let authorization = format!("Bearer {token}");
        let headers = [("Authorization", authorization.as_str())];
        running.request("GET", path, &headers, "").status
    };
    assert_eq!(get("/api/v1/streams/cam", &token), 200);
    assert_eq!(get("/api/v1/streams/hall", &token), 403);
    assert_eq!(get("/api/v1/streams/cam", "glt_wrong"), 401);
    assert_eq!(
        send(&running, Some(&token), "GET", "streams", &Value::Null).status,
        401
    );
    let changed = send(
        &running,
        by,
        "PUT",
        "tokens/door",
        &json!({"read": ["hall"]}),
    );
    assert_eq!(changed.status, 200);
    assert!(changed.json().get("token").is_none(), "shown once only");
    assert_eq!(get("/api/v1/streams/cam", &token), 403);
    let deleted = send(&running, by, "DELETE", "tokens/door", &Value::Null);
    assert_eq!(deleted.status, 204);
    assert_eq!(
        get("/api/v1/streams/cam", &token),
        200,
        "nothing is guarded any more"
    );
}

#[test]
fn the_configuration_wins_and_is_never_changed() {
    use glassline_access::auth::{Account, Name};
    use glassline_config::Role;
    let kept = Kept::new("names");
    let running = Running::with(1, |config| {
        config.admin.state_file = Some(kept.0.join("api.json"));
        let name = Name::parse("ann").expect("a name");
        config.auth.users = vec![Account {
            role: Some(Role::Admin),
            ..Account::new(name, "correct horse", &[7; 16])
        }];
    });
    let basic = [
        ("Authorization", "Basic YW5uOmNvcnJlY3QgaG9yc2U="),
        ("Content-Type", "application/json"),
    ];
    let body = json!({"password": "battery staple", "role": "admin"}).to_string();
    let send = |method: &str, path: &str| running.admin_send(method, path, &basic, &body);
    assert_eq!(send("PUT", "/api/v1/users/ann").status, 409);
    assert_eq!(send("DELETE", "/api/v1/users/ann").status, 409);
    assert_eq!(send("PUT", "/api/v1/users/bob").status, 201);
    let list = running.admin_with("/api/v1/users?limit=1", &basic).json();
    assert_eq!(
        (&list["total"], &list["users"][0]["origin"]),
        (&json!(2), &json!("configuration"))
    );
    let noted = running
        .admin_with("/api/v1/audit?action=putUser", &basic)
        .json();
    assert_eq!(noted["total"], 2, "{noted}");
    assert!(!noted.to_string().contains("staple"), "{noted}");
}
