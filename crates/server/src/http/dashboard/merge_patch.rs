//! Differences between two JSON objects as a merge patch (RFC 7396).

use serde_json::{Map, Value};

/// Returns the merge patch that turns `before` into `after`; `None` if nothing changed.
///
/// A member that is null in `after` is the same as an absent one, since a patch cannot say null
/// (RFC 7396 §1). Arrays are replaced as a whole.
pub(super) fn between(before: &Map<String, Value>, after: &Map<String, Value>) -> Option<Value> {
    let mut patch = Map::new();
    for (name, value) in after {
        let change = match (before.get(name), value) {
            (Some(Value::Object(old)), Value::Object(new)) => between(old, new),
            (old, new) if old.unwrap_or(&Value::Null) == new => None,
            (_, new) => Some(new.clone()),
        };
        if let Some(change) = change {
            patch.insert(name.clone(), change);
        }
    }
    let gone = before.iter().filter(|(_, old)| !old.is_null());
    let gone = gone.filter(|(name, _)| !after.contains_key(*name));
    patch.extend(gone.map(|(name, _)| (name.clone(), Value::Null)));
    (!patch.is_empty()).then_some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Applies a merge patch as RFC 7396 §2 has it.
    fn apply(target: &mut Value, patch: &Value) {
        let Value::Object(members) = patch else {
            *target = patch.clone();
            return;
        };
        if !target.is_object() {
            *target = json!({});
        }
        let target = target.as_object_mut().expect("just made one");
        for (name, value) in members {
            if value.is_null() {
                target.remove(name);
            } else {
                apply(target.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
    }

    fn patch(before: &Value, after: &Value) -> Option<Value> {
        let object = |value: &Value| value.as_object().expect("an object").clone();
        between(&object(before), &object(after))
    }

    #[test]
    fn only_what_changed_is_said() {
        let before = json!({"a": {"x": 1, "y": 2}, "gone": {"z": 1}, "list": [1], "same": "it"});
        let after = json!({"a": {"x": 1, "y": 3}, "list": [1, 2], "same": "it", "new": {"n": 0}});
        let expected = json!({"a": {"y": 3}, "gone": null, "list": [1, 2], "new": {"n": 0}});
        assert_eq!(patch(&before, &after), Some(expected));
        assert_eq!(patch(&after, &after), None);
        assert_eq!(
            patch(&json!({}), &json!({"a": null})),
            None,
            "null is absent"
        );
        assert_eq!(patch(&json!({"a": null}), &json!({})), None);
    }

    /// Draws trees as the overview has them: without nulls, which a patch cannot carry.
    fn trees() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            (0..9u8).prop_map(Value::from),
            "[a-c]{0,2}".prop_map(Value::from),
            prop::collection::vec(0..3u8, 0..3).prop_map(Value::from),
        ];
        let tree = leaf.prop_recursive(3, 24, 4, |inner| {
            prop::collection::btree_map("[a-d]", inner, 0..4).prop_map(|it| json!(it))
        });
        prop::collection::btree_map("[a-d]", tree, 0..5).prop_map(|it| json!(it))
    }

    proptest! {
        #[test]
        fn a_patch_leads_from_one_tree_to_the_other(before in trees(), after in trees()) {
            let mut reached = before.clone();
            if let Some(patch) = patch(&before, &after) {
                apply(&mut reached, &patch);
            }
            prop_assert_eq!(reached, after);
        }
    }
}
