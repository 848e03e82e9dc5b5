//! `cargo xtask deps`: who may use whom.
//!
//! The layers hold only if the compiler's graph says so; a picture in a document does not stop an import.
//! 1. Between our own packages only the edges of [`LAYERS`] exist, optional ones included. What tests alone use is
//!    judged by the same table, but reported apart.
//! 2. Database drivers are used directly only by the packages of [`DRIVERS`].
//! 3. Nothing in [`WALLS`] is reachable from the package it stands before, however far away.
//! 4. Every package takes the workspace's lints, and those forbid `unsafe`.

use std::collections::{HashMap, HashSet};

use crate::failure::Failure;
use crate::workspace::{Metadata, Package, Workspace};

/// Check that packages use only what their layer may
#[derive(clap::Args)]
pub(crate) struct Args {}

/// What a package of ours may use of ours. A package without a line here is refused: it needs a decision first.
const LAYERS: &[(&str, &[&str])] = &[
    ("unavez-core", &[]),
    ("unavez-store", &["unavez-core", "test-postgres"]),
    ("unavez-client", &["unavez-core"]),
    ("unavez-tower", &["unavez-core", "unavez-store", "test-postgres"]),
    ("unavez-payments", &["unavez-core", "unavez-store", "unavez-tower"]),
    ("unavez-lab", &["unavez-core", "unavez-store", "unavez-client", "unavez-tower", "unavez-payments"]),
    (
        "unavez",
        &["unavez-core", "unavez-store", "unavez-client", "unavez-tower", "unavez-payments", "unavez-lab"],
    ),
    // Chores and rivals share no code with what they judge.
    ("xtask", &["test-postgres"]),
    ("test-postgres", &[]),
    ("contestant-bare-axum", &[]),
    ("contestant-middleware", &["unavez-tower", "contestant-bare-axum"]),
    ("contestant-postgres-store", &["unavez-core", "unavez-store"]),
    // Examples show what one dependency is enough for.
    ("example-acquirer-minimal", &["unavez-core", "unavez-payments"]),
    ("example-axum-hello", &["unavez-tower"]),
    ("example-client-only", &["unavez-client"]),
    ("example-postgres-tx", &["unavez-tower", "test-postgres"]),
    ("example-sqlite-tx", &["unavez-tower"]),
];

/// A driver, and who may speak to a database directly.
const DRIVERS: &[(&str, &[&str])] = &[
    (
        "rusqlite",
        &[
            "unavez-store",
            // `Once::commit(tx, …)` takes the caller's transaction.
            "unavez-tower",
            "unavez-payments",
            // The lesson server keeps its ledger in a file of its own.
            "unavez-lab",
            "example-sqlite-tx",
        ],
    ),
    ("tokio-postgres", &["unavez-store", "unavez-tower", "example-postgres-tx"]),
];

/// What must not be reachable from a package: core and store serve programs that have no HTTP at all.
const WALLS: &[(&str, &[&str])] = &[
    ("unavez-core", &["hyper", "axum", "http", "tower", "tokio", "rusqlite"]),
    ("unavez-store", &["hyper", "axum", "http", "tower"]),
];

pub(crate) fn run(workspace: &Workspace, _: &Args) -> Result<(), Failure> {
    let metadata = workspace.metadata()?;
    let mut violations = violations(&metadata);
    for package in metadata.members() {
        let manifest = std::fs::read_to_string(&package.manifest_path)
            .map_err(|error| Failure::file("read", &package.manifest_path, &error))?;
        violations.extend(lints_violation(&package.name, &manifest));
    }
    violations.extend(forbids_unsafe_violation(&workspace.read("Cargo.toml")?));
    if violations.is_empty() {
        println!("{} packages use only what their layer may", metadata.members().count());
        return Ok(());
    }
    Err(Failure::check(format!(
        "{} of the layers' rules broken (xtask/src/deps.rs):\n  {}",
        violations.len(),
        violations.join("\n  ")
    )))
}

/// Rules 1 to 3, over the graph alone.
fn violations(metadata: &Metadata) -> Vec<String> {
    let ours: HashSet<&str> = metadata.members().map(|package| package.name.as_str()).collect();
    let mut found = Vec::new();
    for package in metadata.members() {
        found.extend(layer_violations(package, &ours));
        found.extend(driver_violations(package));
    }
    found.extend(wall_violations(metadata));
    found
}

fn layer_violations(package: &Package, ours: &HashSet<&str>) -> Vec<String> {
    let Some(allowed) = rule(LAYERS, &package.name) else {
        return vec![format!("{} has no line in LAYERS: say what it may use", package.name)];
    };
    let forbidden = package
        .dependencies
        .iter()
        // A package may name itself for its tests, to switch on a feature of its own.
        .filter(|used| ours.contains(used.name.as_str()) && !(used.is_dev() && used.name == package.name))
        .filter(|used| !allowed.contains(&used.name.as_str()));
    forbidden
        .map(|used| {
            let purpose = if used.is_dev() { "in its tests" } else { "in what it ships" };
            format!("{} must not use {} ({purpose})", package.name, used.name)
        })
        .collect()
}

fn driver_violations(package: &Package) -> Vec<String> {
    let direct = package.dependencies.iter().filter(|used| !used.is_dev());
    direct
        .filter(|used| rule(DRIVERS, &used.name).is_some_and(|users| !users.contains(&package.name.as_str())))
        .map(|used| format!("{} must not speak to a database itself ({})", package.name, used.name))
        .collect()
}

fn wall_violations(metadata: &Metadata) -> Vec<String> {
    let names = metadata.names_by_id();
    let graph = shipped_graph(metadata);
    let mut found = Vec::new();
    for package in metadata.members() {
        let Some(walled) = rule(WALLS, &package.name) else { continue };
        for path in paths_from(&package.id, &graph) {
            let names: Vec<&str> = path.iter().filter_map(|id| names.get(id).copied()).collect();
            if names.last().is_some_and(|reached| walled.contains(reached)) {
                found.push(format!(
                    "{} must not be reachable: {}",
                    names[names.len() - 1],
                    names.join(" -> ")
                ));
            }
        }
    }
    found
}

/// Who uses whom in what is shipped: normal and build edges, not those of tests.
fn shipped_graph(metadata: &Metadata) -> HashMap<&str, Vec<&str>> {
    let nodes = metadata.resolve.iter().flat_map(|resolve| &resolve.nodes);
    nodes
        .map(|node| {
            let shipped = node
                .deps
                .iter()
                .filter(|edge| edge.dep_kinds.iter().any(|kind| kind.kind.as_deref() != Some("dev")));
            (node.id.as_str(), shipped.map(|edge| edge.pkg.as_str()).collect())
        })
        .collect()
}

/// A shortest path to everything reachable, the start left out.
fn paths_from<'a>(start: &'a str, graph: &HashMap<&'a str, Vec<&'a str>>) -> Vec<Vec<&'a str>> {
    let mut seen = HashSet::from([start]);
    let mut paths = vec![vec![start]];
    let mut next = 0;
    while let Some(path) = paths.get(next).cloned() {
        next += 1;
        let uses = path.last().and_then(|end| graph.get(end));
        for id in uses.into_iter().flatten().copied() {
            if seen.insert(id) {
                paths.push(path.iter().copied().chain([id]).collect());
            }
        }
    }
    paths.split_off(1)
}

fn lints_violation(package: &str, manifest: &str) -> Option<String> {
    let inherits = section(manifest, "[lints]").any(|line| line.replace(' ', "") == "workspace=true");
    (!inherits)
        .then(|| format!("{package} does not take the workspace's lints: add `[lints] workspace = true`"))
}

fn forbids_unsafe_violation(root_manifest: &str) -> Option<String> {
    let forbids = section(root_manifest, "[workspace.lints.rust]")
        .any(|line| line.replace(' ', "") == r#"unsafe_code="forbid""#);
    (!forbids).then(|| "the workspace's lints do not say `unsafe_code = \"forbid\"`".to_owned())
}

/// The lines of one section of a manifest, which is all of TOML these rules need.
fn section<'a>(manifest: &'a str, header: &str) -> impl Iterator<Item = &'a str> {
    let mut lines = manifest.lines().map(str::trim);
    lines.by_ref().find(|line| *line == header);
    lines.take_while(|line| !line.starts_with('['))
}

fn rule<'a>(table: &[(&str, &'a [&'a str])], name: &str) -> Option<&'a [&'a str]> {
    table.iter().find(|(subject, _)| *subject == name).map(|(_, rule)| *rule)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// What a package uses, as (name, kind).
    type Uses<'a> = &'a [(&'a str, Option<&'a str>)];

    fn workspace(packages: &[(&str, Uses<'_>)]) -> Metadata {
        let outside = ["rusqlite", "axum", "hyper", "http-body"].map(|name| (name, &[] as &[_]));
        let all: Vec<_> = packages.iter().copied().chain(outside).collect();
        let package = |(name, uses): &(&str, Uses<'_>)| {
            let dependencies: Vec<Value> =
                uses.iter().map(|(name, kind)| json!({ "name": name, "kind": kind })).collect();
            json!({ "id": name, "name": name, "manifest_path": "Cargo.toml", "dependencies": dependencies })
        };
        let node = |(name, uses): &(&str, Uses<'_>)| {
            let edges: Vec<Value> = uses
                .iter()
                .map(|(name, kind)| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] }))
                .collect();
            json!({ "id": name, "deps": edges })
        };
        let sample = json!({
            "packages": all.iter().map(package).collect::<Vec<_>>(),
            "workspace_members": packages.iter().map(|(name, _)| name).collect::<Vec<_>>(),
            "resolve": { "nodes": all.iter().map(node).collect::<Vec<_>>() },
            "target_directory": "target",
        });
        serde_json::from_value(sample).unwrap()
    }

    #[test]
    fn the_layers_as_they_should_be_pass() {
        let sound = workspace(&[
            ("unavez-core", &[]),
            ("unavez-store", &[("unavez-core", None), ("rusqlite", None), ("axum", Some("dev"))]),
            ("unavez-tower", &[("unavez-store", None), ("axum", None), ("unavez-tower", Some("dev"))]),
        ]);
        assert_eq!(violations(&sound), Vec::<String>::new());
    }

    #[test]
    fn an_edge_upwards_is_named_with_its_purpose() {
        let broken = workspace(&[
            ("unavez-core", &[("unavez-store", Some("dev"))]),
            ("unavez-store", &[("unavez-core", None), ("unavez-payments", None)]),
            ("unavez-payments", &[]),
        ]);
        assert_eq!(
            violations(&broken),
            [
                "unavez-core must not use unavez-store (in its tests)",
                "unavez-store must not use unavez-payments (in what it ships)",
            ]
        );
    }

    #[test]
    fn a_driver_outside_its_place_is_refused() {
        let broken = workspace(&[("unavez", &[("rusqlite", None)])]);
        assert_eq!(violations(&broken), ["unavez must not speak to a database itself (rusqlite)"]);
    }

    #[test]
    fn a_wall_holds_against_a_detour_and_the_detour_is_shown() {
        let mut broken = workspace(&[("unavez-store", &[("http-body", None)])]);
        let resolve = broken.resolve.as_mut().unwrap();
        let detour = resolve.nodes.iter_mut().find(|node| node.id == "http-body").unwrap();
        detour.deps =
            serde_json::from_value(json!([{ "pkg": "hyper", "dep_kinds": [{ "kind": null }] }])).unwrap();
        assert_eq!(violations(&broken), ["hyper must not be reachable: unavez-store -> http-body -> hyper"]);
    }

    #[test]
    fn a_package_nobody_decided_about_is_refused() {
        let broken = workspace(&[("unavez-utils", &[])]);
        assert_eq!(violations(&broken), ["unavez-utils has no line in LAYERS: say what it may use"]);
    }

    #[test]
    fn a_manifest_without_the_workspaces_lints_is_refused() {
        assert_eq!(lints_violation("a", "[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n"), None);
        assert!(lints_violation("a", "[package]\nworkspace = true\n[lints]\n[features]\n").is_some());
        assert!(lints_violation("a", "[lints.rust]\nunsafe_code = \"allow\"\n").is_some());
    }

    #[test]
    fn the_root_must_forbid_unsafe() {
        assert_eq!(forbids_unsafe_violation("[workspace.lints.rust]\nunsafe_code = \"forbid\"\n"), None);
        assert!(forbids_unsafe_violation("[workspace.lints.rust]\nunsafe_code = \"warn\"\n").is_some());
        assert!(forbids_unsafe_violation("").is_some());
    }
}
