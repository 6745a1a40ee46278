//! Cameras whose media goes on whatever they answer to keep-alives.

use super::*;

const METHODS: [Method; 3] = [Method::GetParameter, Method::Options, Method::SetParameter];

impl ScriptedServer {
    /// Opens a connection that plays, of a server that lists these methods.
    fn play_with(url: &str, public: &str) -> Self {
        let mut server = Self::play(url);
        let listed = format!("RTSP/1.0 200 OK\r\nPublic: {public}\r\n\r\n");
        let Ok(Parsed::Message(Message::Response(listed), _)) =
            parse(listed.as_bytes(), &Limits::default())
        else {
            panic!("{listed}");
        };
        server.client.core.keep_alives.learn(&listed);
        server
    }

    /// Answers each keep-alive of the next minutes with `answer`, which gets the request. Returns
    /// their methods.
    fn minutes(&mut self, answer: impl Fn(&Request) -> Option<String>) -> Vec<Method> {
        let mut methods = Vec::new();
        for _ in 0..30 {
            self.wait();
            while let Some(request) = self.try_request() {
                if let Some(text) = answer(&request) {
                    self.feed(text.as_bytes());
                }
                methods.push(request.method);
            }
            self.feed(&[b'$', 0, 0, 1, 7]);
            assert!(!self.client.is_closed(), "{:?}", self.events.last());
        }
        methods
    }
}

fn answered(request: &Request, head: &str) -> String {
    let cseq = request.headers.cseq().expect("a number");
    format!("RTSP/1.0 {head}\r\nCSeq: {cseq}\r\n\r\n")
}

/// Cameras that refuse keep-alives are in themactep/thingino-firmware#490 and scottlamb/retina#133.
#[test]
fn a_keep_alive_refused_with_any_status_ends_nothing() {
    for status in [
        301, 400, 401, 403, 404, 405, 451, 454, 455, 500, 501, 503, 551, 999,
    ] {
        let mut server = ScriptedServer::play_with(URL, "GET_PARAMETER, SET_PARAMETER");
        let methods = server.minutes(|request| Some(answered(request, &format!("{status} No"))));
        assert_eq!(methods[..3], METHODS, "each is tried at once");
        let refused = server.client.refused_keep_alive().expect("refused");
        let text = format!(
            "answered the keep-alive {} with {status} No",
            refused.method
        );
        assert_eq!(refused.to_string(), text);
    }
}

/// A camera that never answers GET_PARAMETER is in ZLMediaKit#642.
#[test]
fn a_keep_alive_without_answer_ends_nothing() {
    let mut server = ScriptedServer::play(URL);
    let methods = server.minutes(|_| None);
    assert_eq!(
        methods[..4],
        [
            Method::GetParameter,
            Method::Options,
            Method::GetParameter,
            Method::Options
        ]
    );
    let refused = server.client.refused_keep_alive().expect("not answered");
    let text = format!("did not answer the keep-alive {}", refused.method);
    assert_eq!(refused.to_string(), text);
}

#[test]
fn a_keep_alive_with_a_wrong_number_is_answered() {
    let mut server = ScriptedServer::play(URL);
    let methods = server.minutes(|request| {
        let cseq = request.headers.cseq().expect("a number") - 1;
        Some(format!("RTSP/1.0 200 OK\r\nCSeq: {cseq}\r\n\r\n"))
    });
    assert!(methods.iter().all(|method| *method == Method::GetParameter));
    assert_eq!(server.client.refused_keep_alive(), None);
}

#[test]
fn the_method_that_a_server_grants_is_kept() {
    let mut server = ScriptedServer::play(URL);
    let methods = server.minutes(|request| match request.method {
        Method::Options => Some(answered(request, "200 OK")),
        _ => Some(answered(request, "501 Not Implemented")),
    });
    assert_eq!(methods[0], Method::GetParameter);
    assert!(methods[1..].iter().all(|method| *method == Method::Options));
    assert_eq!(server.client.refused_keep_alive(), None);
}

#[test]
fn keep_alives_come_in_time_and_no_faster() {
    for head in [Some("454 Session Not Found"), None] {
        let mut server = ScriptedServer::play(URL);
        let begin = server.now;
        let methods = server.minutes(|request| Some(answered(request, head?)));
        let seconds = (server.now - begin).as_secs_f64();
        // The session lives 30 s; answers may take 10 s.
        let interval = seconds / methods.len() as f64;
        assert!((6.0..=12.0).contains(&interval), "{head:?}: {interval} s");
    }
}

/// The answer to an earlier keep-alive is not taken for that of the present request.
#[test]
fn a_late_answer_is_nobodys() {
    let mut server = ScriptedServer::play(URL);
    server.wait();
    let first = server.request();
    server.wait();
    let second = server.request();
    assert_eq!(second.method, Method::Options);
    server.feed(answered(&first, "454 Session Not Found").as_bytes());
    assert_eq!(
        server
            .client
            .refused_keep_alive()
            .expect("the first")
            .method,
        Method::GetParameter
    );
    server.client.leave(server.now);
    server.feed(answered(&second, "200 OK").as_bytes());
    assert!(!server.client.is_closed(), "that was no answer to TEARDOWN");
    let teardown = server.request();
    server.answer(&teardown, "200 OK", "");
    assert_eq!(server.closed(), &Closed::Left);
}
