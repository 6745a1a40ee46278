//! What the program is made of: a bill of materials (CycloneDX 1.6), and the texts of the licences.
//!
//! Both are of the packages that are linked into the program on this platform. Build scripts, macros
//! and what only tests need are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Release, at, read};
use crate::architecture::Architecture;
use crate::process;

/// Beginnings of the names of files with the text of a licence.
const LICENCE_FILES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"];

/// Packages by their ids, with the ids of those that each depends on.
type Linked<'a> = BTreeMap<&'a str, (&'a Value, Vec<&'a str>)>;

/// Writes both files to the scratch folder, and the bill to the folder of the packages, too; returns
/// the bill's path there.
pub(super) fn write(release: &Release) -> Result<PathBuf, String> {
    let metadata = metadata(release.program.architecture)?;
    let linked = linked(&metadata)?;
    let sums = checksums(&read(&process::root().join("Cargo.lock"))?);
    let bill = bill(release, &linked, &sums);
    let bill = serde_json::to_string_pretty(&bill).map_err(|error| error.to_string())?;
    super::write(&release.scratch.join("glassline.cdx.json"), &bill)?;
    let texts = release.scratch.join("third-party-licences.txt");
    super::write(&texts, licences(&linked)?)?;
    let path = release.folder.join(format!("{}.cdx.json", release.bill));
    super::write(&path, &bill)?;
    Ok(path)
}

/// Cargo's metadata with all dependencies, as they are on the platform.
fn metadata(architecture: Architecture) -> Result<Value, String> {
    let mut command = process::cargo(&["metadata", "--format-version", "1"]);
    command.args(["--filter-platform", architecture.target()]);
    let printed = process::output_of(&mut command);
    let printed = printed.ok_or_else(|| format!("{} failed", process::line(&command)))?;
    serde_json::from_str(&printed).map_err(|error| error.to_string())
}

/// The packages that are linked into the program, itself included.
fn linked(metadata: &Value) -> Result<Linked<'_>, String> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let packages: BTreeMap<&str, &Value> = packages
        .filter_map(|package| Some((package["id"].as_str()?, package)))
        .collect();
    let nodes = metadata["resolve"]["nodes"]
        .as_array()
        .into_iter()
        .flatten();
    let nodes: BTreeMap<&str, &Value> = nodes
        .filter_map(|node| Some((node["id"].as_str()?, node)))
        .collect();
    let root = packages
        .iter()
        .find(|(_, package)| package["name"] == "glassline");
    let (root, _) = root.ok_or("cargo knows no package `glassline`")?;
    let mut linked = Linked::new();
    let mut waiting = vec![*root];
    while let Some(id) = waiting.pop() {
        let (Some(package), Some(node)) = (packages.get(id), nodes.get(id)) else {
            return Err(format!("cargo does not say what {id} is"));
        };
        if linked.contains_key(id) {
            continue;
        }
        let below: Vec<&str> = dependencies(node)
            .filter(|id| packages.get(id).is_some_and(|it| !is_macro(it)))
            .collect();
        waiting.extend(&below);
        linked.insert(id, (package, below));
    }
    Ok(linked)
}

/// Ids of the packages that `node` links, without those of its build script and its tests.
fn dependencies(node: &Value) -> impl Iterator<Item = &str> {
    let all = node["deps"].as_array().into_iter().flatten();
    let normal = all.filter(|dependency| {
        let mut kinds = dependency["dep_kinds"].as_array().into_iter().flatten();
        kinds.any(|kind| kind["kind"].is_null())
    });
    normal.filter_map(|dependency| dependency["pkg"].as_str())
}

/// Whether `package` runs in the compiler only.
fn is_macro(package: &Value) -> bool {
    let mut targets = package["targets"].as_array().into_iter().flatten();
    targets.any(|target| target["kind"][0] == "proc-macro")
}

/// SHA-256 of the packages of a lock file, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let sections = lock.split("[[package]]");
    sections
        .filter_map(|section| {
            let value = |key: &str| {
                let mut lines = section.lines();
                let found = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
                found.map(|it| it.trim_end_matches('"').to_owned())
            };
            Some(((value("name")?, value("version")?), value("checksum")?))
        })
        .collect()
}

fn bill(
    release: &Release,
    linked: &Linked<'_>,
    sums: &BTreeMap<(String, String), String>,
) -> Value {
    let component = |package: &Value| {
        let (name, version) = (text(package, "name"), text(package, "version"));
        let mut component = json!({
            "type": "library",
            "bom-ref": reference(package),
            "name": name,
            "version": version,
            "purl": reference(package),
        });
        if let Some(licence) = package["license"].as_str() {
            // Old manifests write a slash for "or".
            let licence = licence.replace('/', " OR ");
            component["licenses"] = json!([{"expression": licence}]);
        }
        if let Some(sum) = sums.get(&(name, version)) {
            component["hashes"] = json!([{"alg": "SHA-256", "content": sum}]);
        }
        component
    };
    let own = linked.values().find(|(it, _)| it["name"] == "glassline");
    let mut own = own
        .map(|(package, _)| component(package))
        .unwrap_or_default();
    own["type"] = json!("application");
    own["properties"] = json!([{"name": "commit", "value": release.commit}]);
    let others = linked.values().filter(|(it, _)| it["name"] != "glassline");
    let components: Vec<Value> = others.map(|(package, _)| component(package)).collect();
    let arrows: Vec<Value> = linked
        .values()
        .map(|(package, below)| {
            let below: BTreeSet<String> = below.iter().map(|id| reference(linked[id].0)).collect();
            json!({"ref": reference(package), "dependsOn": below})
        })
        .collect();
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": own},
        "components": components,
        "dependencies": arrows,
    })
}

/// The package's URL (purl), by which tools look up advisories.
fn reference(package: &Value) -> String {
    format!(
        "pkg:cargo/{}@{}",
        text(package, "name"),
        text(package, "version")
    )
}

fn text(package: &Value, key: &str) -> String {
    package[key].as_str().unwrap_or_default().to_owned()
}

/// The texts of the licences of all packages but our own; each text is there once, below the names
/// of its packages.
fn licences(linked: &Linked<'_>) -> Result<String, String> {
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (package, _) in linked.values() {
        // The workspace's own packages have no source but this checkout.
        if package["source"].is_null() {
            continue;
        }
        let manifest = PathBuf::from(text(package, "manifest_path"));
        let name = format!("{} {}", text(package, "name"), text(package, "version"));
        let mut found = licence_files(manifest.parent().unwrap_or(&manifest))?;
        if found.is_empty() {
            found.push(format!("Licence: {}", text(package, "license")));
        }
        for text in found {
            texts.entry(text).or_default().insert(name.clone());
        }
    }
    let texts = texts.into_iter().map(|(text, names)| {
        let names: Vec<String> = names.into_iter().collect();
        format!("{}\n\n{}\n", names.join(", "), text.trim_end())
    });
    let line = format!("\n{}\n", "=".repeat(80));
    Ok(texts.collect::<Vec<_>>().join(&line))
}

fn licence_files(folder: &Path) -> Result<Vec<String>, String> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .map_err(|error| at(folder, &error))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let name = name.to_ascii_uppercase();
            path.is_file() && LICENCE_FILES.iter().any(|it| name.starts_with(it))
        })
        .collect();
    paths.sort_unstable();
    let read = |path: &PathBuf| {
        let bytes = std::fs::read(path).map_err(|error| at(path, &error))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    paths.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_lock_file() {
        let lock = "version = 4\n\n[[package]]\nname = \"own\"\nversion = \"0.1.0\"\n\n\
                    [[package]]\nname = \"a\"\nversion = \"1.2.3\"\n\
                    source = \"registry\"\nchecksum = \"ab12\"\n";
        let sums = checksums(lock);
        let key = ("a".to_owned(), "1.2.3".to_owned());
        assert_eq!(sums, BTreeMap::from([(key, "ab12".to_owned())]));
    }

    #[test]
    fn what_only_builds_or_tests_need_is_not_linked() {
        let package = |name: &str, kind: &str| json!({"id": name, "name": name, "version": "1", "targets": [{"kind": [kind]}]});
        let dependency =
            |name: &str, kind: Value| json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        let metadata = json!({
            "packages": [
                package("glassline", "bin"), package("a", "lib"), package("b", "lib"),
                package("m", "proc-macro"), package("t", "lib"), package("c", "lib"),
            ],
            "resolve": {"nodes": [
                {"id": "glassline", "deps": [
                    dependency("a", Value::Null), dependency("b", json!("build")),
                    dependency("m", Value::Null), dependency("t", json!("dev")),
                ]},
                {"id": "a", "deps": [dependency("c", Value::Null)]},
                {"id": "b", "deps": []}, {"id": "m", "deps": []}, {"id": "t", "deps": []},
                {"id": "c", "deps": [dependency("a", json!("dev"))]},
            ]},
        });
        let linked = linked(&metadata).expect("a graph");
        let ids: Vec<&str> = linked.keys().copied().collect();
        assert_eq!(ids, ["a", "c", "glassline"]);
    }
}
