//! Configuration files: any text is refused with a place and a reason, or gives a configuration that
//! is written and read again as the same, secrets apart.

use glassline_config::Config;

pub(crate) fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let config = match Config::from_yaml(&text, "glassline.yml") {
        Ok(config) => config,
        Err(error) => {
            assert!(!error.reason.is_empty());
            assert!(error.to_string().starts_with("glassline.yml"), "{error}");
            return;
        }
    };
    assert!(
        config
            .shards
            .is_none_or(|shards| (1..=256).contains(&shards))
    );
    // Secrets are written as a mask, which a file may not have.
    let mut open = config;
    open.auth = Default::default();
    let written = open.to_yaml();
    let again = Config::from_yaml(&written, "written.yml");
    let again = again.unwrap_or_else(|error| panic!("{error} in\n{written}"));
    assert_eq!(again.to_yaml(), written);
    assert!(serde_json_is_object(&open.to_json()));
}

fn serde_json_is_object(text: &str) -> bool {
    text.starts_with('{') && text.ends_with('}')
}
