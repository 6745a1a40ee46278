//! Certificates as the configuration names them, checked before the server starts.

use std::path::Path;

use glassline_config::Config;
use glassline_server::check_certificates;

#[test]
fn a_certificate_is_looked_for_beside_the_file_and_its_faults_are_named() {
    let folder = std::env::temp_dir().join(format!("glassline-tls-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("glassline.yml");
    let fault = |keys: &str| {
        let yaml = format!("rtsp: {{tls: {{address: '127.0.0.1:0'{keys}}}}}\n");
        std::fs::write(&file, yaml).expect("a file");
        let config = Config::load(&file).expect("the keys are right");
        let fault = check_certificates(&config).expect_err("nothing to show");
        fault.to_string()
    };
    let shown = fault("");
    assert!(shown.contains("rtsp.tls.address is 127.0.0.1:0"), "{shown}");
    let shown = fault(", certificate: chain.pem");
    assert!(shown.contains("rtsp.tls.key is missing"), "{shown}");
    let both = ", certificate: chain.pem, key: key.pem";
    let shown = fault(both);
    let path = folder.join("chain.pem").display().to_string();
    assert!(
        shown.contains(&path) && shown.contains("may read"),
        "{shown}"
    );
    std::fs::write(folder.join("chain.pem"), "no PEM").expect("a file");
    let shown = fault(both);
    assert!(
        shown.contains(&path) && shown.contains("`CERTIFICATE`"),
        "{shown}"
    );
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    for name in ["chain.pem", "key.pem"] {
        std::fs::copy(data.join("localhost.pem"), folder.join(name)).expect("copied");
    }
    let shown = fault(both);
    assert!(
        shown.contains("key.pem") && shown.contains("`PRIVATE KEY`"),
        "{shown}"
    );
    std::fs::copy(data.join("other.key.pem"), folder.join("key.pem")).expect("copied");
    let shown = fault(both);
    assert!(shown.contains("cannot be used together"), "{shown}");
    std::fs::copy(data.join("localhost.key.pem"), folder.join("key.pem")).expect("copied");
    let config = Config::load(&file).expect("a good file");
    check_certificates(&config).expect("they fit");
    std::fs::remove_dir_all(&folder).expect("removed");
}

#[test]
fn an_authority_needs_a_listener_for_its_challenge_and_readable_roots() {
    let faults = [
        (
            "challenge: tls-alpn-01",
            "https: {address: off}\n",
            "https.address is off",
        ),
        ("roots: no-such.pem", "", "no-such.pem"),
    ];
    for (keys, more, part) in faults {
        let yaml = format!("{more}tls:\n  acme: {{names: [media.example], {keys}}}\n");
        let config = Config::from_yaml(&yaml, "test.yml").expect("each key is good");
        let error = check_certificates(&config).expect_err(keys);
        assert!(error.to_string().contains(part), "{keys}: {error}");
    }
}
