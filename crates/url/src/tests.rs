use proptest::prelude::*;

use super::*;

fn login(text: &str) -> (String, Login) {
    let mut url = parse(text).expect(text);
    let login = Login::take_from(&mut url).expect("a login");
    (url.to_string(), login)
}

fn wrong(text: &str) -> WrittenWrong {
    parse(text).expect_err(text).wrong
}

#[test]
fn a_password_with_one_reading_is_taken_as_it_is() {
    for (written, password) in [
        ("p@ss", "p@ss"),
        ("p%zz", "p%zz"),
        ("100%", "100%"),
        ("se:cret", "se:cret"),
        ("se^cret", "se^cret"),
        ("se cret", "se cret"),
        ("s[ecret", "s[ecret"),
        ("s\\ecret", "s\\ecret"),
        ("a\tb", "a\tb"),
        ("пароль", "пароль"),
        ("a%2Fb%23c%3Fd%40e%25f", "a/b#c?d@e%f"),
        ("a&b=c+d", "a&b=c+d"),
    ] {
        let (url, login) = login(&format!("rtsp://admin:{written}@192.0.2.1:554/x?y=1"));
        assert_eq!(url, "rtsp://192.0.2.1:554/x?y=1");
        assert_eq!(
            (&*login.user, login.password.as_deref()),
            ("admin", Some(password))
        );
    }
}

/// mediamtx#2973, mediamtx#2069, opencv-python#848: the password is no port, no path, no fragment.
#[test]
fn a_password_that_ends_the_host_is_refused_and_told_how_to_be_written() {
    for (password, sign, written) in [
        ("12#4", '#', "write '#' as %23"),
        ("12/34", '/', "write '/' as %2F"),
        ("pa#ss", '#', "write '#' as %23"),
        ("p@ss#1", '#', "write '#' as %23"),
        ("p@ss/1", '/', "write '/' as %2F"),
        ("p@ss?1", '?', "write '?' as %3F"),
        ("a?b", '?', "write '?' as %3F"),
        ("12345/secret9", '/', "write '/' as %2F"),
        ("554#secret9", '#', "write '#' as %23"),
        ("s/ecret9@x", '/', "write '/' as %2F"),
        ("/", '/', "write '/' as %2F"),
        ("1/@2", '/', "write '/' as %2F"),
    ] {
        let text = format!("rtsp://admin:{password}@cam.example:24601/x");
        let error = parse(&text).expect_err(&text);
        assert_eq!(error.wrong, WrittenWrong::Ambiguous { sign }, "{text}");
        assert_eq!(error.shown, "rtsp://admin:…@cam.example:24601/x");
        assert!(error.to_string().contains(written), "{error}");
    }
    let web = parse("https://ann:s\\cret@hooks.example/x").expect_err("two readings");
    assert!(web.to_string().contains("write '\\' as %5C"), "{web}");
}

#[test]
fn an_at_sign_in_a_path_is_no_mystery_behind_an_address() {
    for text in [
        "rtsp://192.0.2.1:554/live@main",
        "rtsp://admin:pw@[2001:db8::1]:554/live@main",
        "rtsp://cam.example/live@main",
        "https://hooks.example/x?mail=ann@site.example",
    ] {
        assert!(parse(text).is_ok(), "{text}");
    }
    assert_eq!(
        wrong("rtsp://cam.example:554/live@main"),
        WrittenWrong::Ambiguous { sign: '/' }
    );
}

#[test]
fn what_is_missing_is_named() {
    assert_eq!(wrong("cam.example"), WrittenWrong::Scheme);
    assert_eq!(wrong("1://cam.example"), WrittenWrong::Scheme);
    assert_eq!(wrong("rtsp:///x"), WrittenWrong::Host);
    assert_eq!(wrong("rtsp://u:p@/x"), WrittenWrong::Host);
    assert_eq!(wrong("rtsp://u:p@:554/x"), WrittenWrong::Host);
    assert_eq!(wrong("rtsp://h:99999/x"), WrittenWrong::Port);
    assert_eq!(wrong("rtsp://h:+5/x"), WrittenWrong::Port);
    assert_eq!(wrong("rtsp://fe80::1/x"), WrittenWrong::Port);
    assert!(matches!(wrong("rtsp://a b/x"), WrittenWrong::Standard(_)));
}

#[test]
fn credentials_are_hidden_wherever_they_stand() {
    for (text, expected) in [
        ("rtsp://admin:secret9", "rtsp://admin:…"),
        ("rtsp://admin:secret9/x", "rtsp://admin:…"),
        (
            "rtsp://h/user=a&password=secret9&channel=1",
            "rtsp://h/user=a&password=…&channel=1",
        ),
        (
            "rtsp://h/user=a_password=secret9_channel=1.sdp",
            "rtsp://h/user=a_password=…",
        ),
        (
            "http://h/x?a=b&access_token=secret9",
            "http://h/x?a=b&access_token=…",
        ),
        (
            "srt://h:9?streamid=u&passphrase=secret9",
            "srt://h:9?streamid=u&passphrase=…",
        ),
        ("admin:secret9@h/x", "admin:…@h/x"),
        ("a:secret9@h/rtsp://x", "a:…://x"),
        ("rtsp://h:554/x?y=1", "rtsp://h:554/x?y=1"),
        ("clip.mp4?fps=25", "clip.mp4?fps=25"),
    ] {
        assert_eq!(hidden(text), expected);
    }
    let url = parse("rtsp://a%3Ab:secret9@h/x?pwd=secret9&z=1").expect("a URL");
    assert_eq!(shown(&url), "rtsp://a%3Ab:…@h/x?pwd=…&z=1");
    assert_eq!(
        shown(&parse("rtsp://ann@h/x").expect("a URL")),
        "rtsp://ann@h/x"
    );
}

/// Text of reserved, forbidden and rare characters.
fn nasty() -> impl Strategy<Value = String> {
    let signs: Vec<char> = "@#/?%:^ [\\]&=+;,\"'<>{}|`~!$()*\té日🔑.-_019aZ"
        .chars()
        .collect();
    proptest::collection::vec(proptest::sample::select(signs), 0..12)
        .prop_map(|signs| signs.into_iter().collect())
}

proptest! {
    /// The word in the middle of the password stands for all of it: it is in no constant text.
    #[test]
    fn no_output_has_any_of_the_password(
        user in nasty(),
        (before, after) in (nasty(), nasty()),
        scheme in proptest::sample::select(vec!["rtsp", "rtsps", "http", "https", "srt", "moq"]),
        is_encoded in any::<bool>(),
    ) {
        let password = format!("{before}hunter2{after}");
        let written = match is_encoded {
            true => (encoded(user.as_bytes()), encoded(password.as_bytes())),
            false => (user.clone(), password.clone()),
        };
        let text = format!("{scheme}://{}:{}@cam.example:8554/live?x=1", written.0, written.1);
        let mut outputs = vec![hidden(&text)];
        match parse(&text) {
            Ok(mut url) => {
                outputs.push(shown(&url));
                let login = Login::take_from(&mut url).expect("a login");
                outputs.extend([format!("{login:?}"), url.to_string(), shown(&url)]);
                prop_assert_eq!(url.host_str(), Some("cam.example"));
                if is_encoded {
                    prop_assert_eq!(login, Login { user, password: Some(password) });
                }
            }
            Err(error) => {
                prop_assert!(!is_encoded, "{}", error);
                outputs.extend([error.to_string(), format!("{error:?}")]);
            }
        }
        for output in outputs {
            prop_assert!(!output.contains("hunter2"), "{}", output);
        }
    }

    #[test]
    fn any_text_is_read_without_a_panic(text in ".*") {
        let _ = (parse(&text), hidden(&text));
    }
}
