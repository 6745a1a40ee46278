//! Which keys of two configurations differ.

use serde_json::Value;

use super::Config;

impl Config {
    /// Returns the keys whose values differ from those of `other`, as `limits.viewers`, in the order
    /// of the alphabet. Sources, users and the file of users are left out: they change while the
    /// server runs. A secret, whose value is shown nowhere, is called `a secret`.
    pub fn keys_that_differ(&self, other: &Self) -> Vec<String> {
        let (one, other) = (self.without_changeable(), other.without_changeable());
        let mut keys = Vec::new();
        let value =
            |config: &Self| serde_json::to_value(config).expect("a configuration is plain data");
        collect(&value(&one), &value(&other), "", &mut keys);
        if keys.is_empty() && one != other {
            keys.push("a secret".to_owned());
        }
        keys.sort();
        keys
    }

    fn without_changeable(&self) -> Self {
        let mut config = self.clone();
        config.sources.clear();
        config.auth.users.clear();
        config.auth.users_file = None;
        config.file = None;
        config
    }
}

/// Adds the paths below `path` at which the values differ. Lists are compared as a whole.
fn collect(one: &Value, other: &Value, path: &str, keys: &mut Vec<String>) {
    let (Value::Object(ones), Value::Object(others)) = (one, other) else {
        if one != other {
            keys.push(path.to_owned());
        }
        return;
    };
    let mut names: Vec<&String> = ones.keys().chain(others.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let path = match path {
            "" => name.clone(),
            _ => format!("{path}.{name}"),
        };
        let absent = &Value::Null;
        let (one, other) = (ones.get(name), others.get(name));
        collect(one.unwrap_or(absent), other.unwrap_or(absent), &path, keys);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(yaml: &str) -> Config {
        Config::from_yaml(yaml, "test.yml").expect("a configuration")
    }

    #[test]
    fn keys_are_named_with_their_sections_and_secrets_are_not() {
        let one = config("limits: {viewers: 10}\nauth: {read_token: first-token-of-it}\n");
        assert!(one.keys_that_differ(&one).is_empty());
        let sources = config(
            "limits: {viewers: 10}\nauth: {read_token: first-token-of-it}\nsources: {gate: demo}\n",
        );
        assert!(
            one.keys_that_differ(&sources).is_empty(),
            "sources change at once"
        );
        let other = config(
            "limits: {viewers: 11}\nauth: {read_token: first-token-of-it}\nhttp: {address: \"127.0.0.1:80\"}\n",
        );
        assert_eq!(
            one.keys_that_differ(&other),
            ["http.address", "limits.viewers"]
        );
        let secret = config("limits: {viewers: 10}\nauth: {read_token: other-token-of-it}\n");
        assert_eq!(one.keys_that_differ(&secret), ["a secret"]);
    }
}
