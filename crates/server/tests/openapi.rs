//! The description of the API and what the server really serves are the same.

use std::collections::BTreeSet;

use serde_json::Value;

use super::running::Running;

const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

fn document(running: &Running) -> Value {
    let answer = running.admin("/openapi.json");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    answer.json()
}

/// Returns each path of the document with its methods in capitals.
fn operations(document: &Value) -> Vec<(String, BTreeSet<String>)> {
    let paths = document["paths"].as_object().expect("paths");
    let methods = |it: &Value| {
        let methods = it.as_object().expect("methods").keys();
        methods.map(|it| it.to_ascii_uppercase()).collect()
    };
    paths
        .iter()
        .map(|(path, it)| (path.clone(), methods(it)))
        .collect()
}

/// Returns all references within `value`.
fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                match value.as_str().filter(|_| name == "$ref") {
                    Some(reference) => drop(found.insert(reference.to_owned())),
                    None => references(value, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|it| references(it, found)),
        _ => {}
    }
}

#[test]
fn each_operation_of_the_document_is_served_and_no_other_method_of_its_path() {
    let running = Running::start(1);
    for (path, described) in operations(&document(&running)) {
        let named = path.replace("{name}", "absent");
        for method in METHODS {
            let answer = running.admin_request(method, &named, &[("Content-Length", "0")]);
            let is_described = described.contains(method);
            assert_eq!(
                answer.status == 405,
                !is_described,
                "{method} {path}: {}",
                answer.body
            );
            if is_described {
                let is_unrouted = answer.body.contains("nothing answers");
                assert!(!is_unrouted, "{method} {path} is not served");
                continue;
            }
            let allowed = answer.header("allow").expect("the methods that there are");
            let allowed = allowed.split(',').filter(|it| *it != "HEAD");
            let allowed: BTreeSet<_> = allowed.map(str::to_owned).collect();
            assert_eq!(
                allowed, described,
                "{path} serves what the document does not have"
            );
        }
    }
}

/// Routes are registered with their description, so that none is without one. This finds those that
/// people are told of elsewhere.
#[test]
fn each_route_of_the_reference_page_is_in_the_document_and_the_other_way_round() {
    let running = Running::start(1);
    let page = include_str!("../../../docs/reference/http-api.md");
    let mut told = BTreeSet::new();
    for line in page.lines().filter(|line| line.starts_with("| `")) {
        let cell = line.split('|').nth(1).expect("a cell");
        let Some(request) = cell
            .trim()
            .strip_prefix('`')
            .and_then(|it| it.split('`').next())
        else {
            continue;
        };
        if let Some((methods, path)) = request.rsplit_once(' ') {
            let path = path.split('?').next().unwrap_or(path);
            for method in methods.split(", ") {
                told.insert((method.to_owned(), path.to_owned()));
            }
        }
    }
    let mut described = BTreeSet::new();
    for (path, methods) in operations(&document(&running)) {
        described.extend(methods.into_iter().map(|method| (method, path.clone())));
    }
    let untold: Vec<_> = described.difference(&told).collect();
    assert!(
        untold.is_empty(),
        "docs/reference/http-api.md lacks {untold:?}"
    );
    let is_of_operators = |path: &str| {
        path.starts_with("/api/")
            || ["/metrics", "/healthz", "/readyz", "/openapi.json", "/api"].contains(&path)
    };
    let missing = told.difference(&described);
    let missing: Vec<_> = missing.filter(|(_, path)| is_of_operators(path)).collect();
    assert!(missing.is_empty(), "the document lacks {missing:?}");
}

#[test]
fn the_document_is_complete_in_itself() {
    let running = Running::start(1);
    let document = document(&running);
    assert_eq!(document["openapi"], "3.1.0");
    let schemas = document["components"]["schemas"]
        .as_object()
        .expect("schemas");
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    assert!(found.len() > 20, "{found:?}");
    for reference in found {
        let name = reference
            .strip_prefix("#/components/schemas/")
            .expect("a schema");
        assert!(schemas.contains_key(name), "{reference} leads nowhere");
    }
    for name in schemas.keys() {
        // Types of one name get numbers, which change when another type is added.
        assert!(
            !name.ends_with(char::is_numeric),
            "two schemas are called {name}"
        );
    }
    let mut ids = BTreeSet::new();
    for operation in document["paths"].as_object().expect("paths").values() {
        for (method, operation) in operation.as_object().expect("methods") {
            let id = operation["operationId"].as_str().expect("an id");
            assert!(ids.insert(id.to_owned()), "{id} twice");
            assert!(operation["summary"].is_string(), "{method} {id}");
            let refusal = &operation["responses"]["default"]["content"];
            assert!(refusal["application/problem+json"].is_object(), "{id}");
        }
    }
}

#[test]
fn lists_come_in_pages_and_filtered() {
    let running = Running::start(1);
    for name in ["a1", "a2", "b1"] {
        let name = glassline_hub::StreamName::parse(name).expect("a name");
        running.hub().create(name).expect("room");
    }
    let names = |query: &str| {
        let answer = running.admin(&format!("/api/v1/streams{query}")).json();
        let streams = answer["streams"].as_array().expect("a list").clone();
        let names = streams
            .iter()
            .map(|it| it["name"].as_str().expect("a name"));
        let total = answer["total"].as_u64().expect("a number");
        (
            names.map(str::to_owned).collect::<Vec<_>>().join(" "),
            total,
        )
    };
    assert_eq!(names(""), ("a1 a2 b1".to_owned(), 3));
    assert_eq!(names("?limit=2"), ("a1 a2".to_owned(), 3));
    assert_eq!(names("?limit=2&page=2"), ("b1".to_owned(), 3));
    assert_eq!(names("?name=a*&limit=1&page=2"), ("a2".to_owned(), 2));
    assert_eq!(names("?status=live"), (String::new(), 0));
    for refused in [
        "limit=0",
        "limit=1001",
        "page=0",
        "page=-1",
        "status=gone",
        "name=",
    ] {
        let answer = running.admin(&format!("/api/v1/streams?{refused}"));
        assert_eq!(answer.status, 400, "{refused}: {}", answer.body);
    }
    let lists = [
        "files",
        "failures",
        "webrtc/viewers",
        "rtsp/clients",
        "quic/sessions",
    ];
    for list in lists {
        let answer = running.admin(&format!("/api/v1/{list}?limit=7")).json();
        assert_eq!(answer["limit"], 7, "{list}");
        assert_eq!(answer["total"], 0, "{list}");
    }
}

#[test]
fn the_page_of_the_api_brings_all_it_needs_and_no_page_frames_it() {
    let running = Running::start(1);
    let page = running.admin("/api");
    assert_eq!(page.status, 200);
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(policy.contains("default-src 'self'"), "{policy}");
    assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
    for file in ["api.css", "api_page.js", "dom.js", "base.css", "theme.js"] {
        assert_eq!(running.admin(&format!("/-/{file}")).status, 200, "{file}");
    }
    assert_eq!(
        running.get("/openapi.json").status,
        404,
        "for operators only"
    );
}
