//! Where things are: the root, the target folder, the packages, the project's own text.

use std::collections::HashMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::failure::Failure;
use crate::shell;

/// The workspace this chore works on: the one `cargo xtask` was called in.
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    /// Cargo's target folder, wherever `CARGO_TARGET_DIR` put it.
    pub(crate) target: PathBuf,
}

impl Workspace {
    pub(crate) fn locate() -> Result<Self, Failure> {
        // Cargo sets the variable when it runs us. The path known at build time is wrong in a second clone that
        // shares a target folder, so it is only the fallback for a binary started by hand.
        let own = env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
        let root = own.parent().ok_or_else(|| Failure::lacking("xtask has no parent folder"))?.to_path_buf();
        let metadata: Metadata = metadata_of(&root, &["--no-deps"])?;
        Ok(Self { root, target: metadata.target_directory })
    }

    /// Cargo, in the root, as if called from a shell there.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = cargo_in(&self.root);
        command.args(arguments);
        command
    }

    /// The whole resolved graph with every feature on.
    pub(crate) fn metadata(&self) -> Result<Metadata, Failure> {
        metadata_of(&self.root, &["--all-features"])
    }

    /// What the user sees or edits: every file that is, or would be, committed, with its text. Binary files are left out.
    pub(crate) fn texts(&self) -> Result<Vec<Text>, Failure> {
        let mut git = Command::new("git");
        git.args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"]).current_dir(&self.root);
        let listed = shell::capture(&mut git)?;
        let mut texts = Vec::new();
        for name in listed.split('\0').filter(|name| !name.is_empty()) {
            // A file that is deleted but not yet committed as such is still listed.
            let Ok(bytes) = std::fs::read(self.root.join(name)) else { continue };
            if let Ok(body) = String::from_utf8(bytes) {
                texts.push(Text { name: name.to_owned(), body });
            }
        }
        Ok(texts)
    }

    pub(crate) fn read(&self, name: &str) -> Result<String, Failure> {
        let path = self.root.join(name);
        std::fs::read_to_string(&path).map_err(|error| Failure::file("read", &path, &error))
    }
}

/// One file of the project, by its path from the root.
pub(crate) struct Text {
    pub(crate) name: String,
    pub(crate) body: String,
}

impl Text {
    pub(crate) fn has_extension(&self, extension: &str) -> bool {
        Path::new(&self.name).extension().is_some_and(|found| found == extension)
    }
}

/// What we read of `cargo metadata`.
#[derive(Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    pub(crate) workspace_members: Vec<String>,
    pub(crate) resolve: Option<Resolve>,
    pub(crate) target_directory: PathBuf,
}

impl Metadata {
    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| self.workspace_members.contains(&package.id))
    }

    pub(crate) fn names_by_id(&self) -> HashMap<&str, &str> {
        self.packages.iter().map(|package| (package.id.as_str(), package.name.as_str())).collect()
    }
}

#[derive(Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) manifest_path: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
}

/// An edge as the manifest declares it, optional ones included.
#[derive(Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// None, `dev` or `build`.
    pub(crate) kind: Option<String>,
}

impl Dependency {
    pub(crate) fn is_dev(&self) -> bool {
        self.kind.as_deref() == Some("dev")
    }
}

#[derive(Deserialize)]
pub(crate) struct Resolve {
    pub(crate) nodes: Vec<Node>,
}

/// A package in the resolved graph, and what it uses.
#[derive(Deserialize)]
pub(crate) struct Node {
    pub(crate) id: String,
    pub(crate) deps: Vec<Edge>,
}

#[derive(Deserialize)]
pub(crate) struct Edge {
    pub(crate) pkg: String,
    pub(crate) dep_kinds: Vec<EdgeKind>,
}

#[derive(Deserialize)]
pub(crate) struct EdgeKind {
    pub(crate) kind: Option<String>,
}

/// Build scripts that watch variables such as `CARGO_PKG_NAME` (ring's does) would be rebuilt whenever a chore
/// follows a plain `cargo build`: cargo sets them for us, so they are taken out again.
fn cargo_in(root: &Path) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        let set_by_cargo_run = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"];
        if set_by_cargo_run.iter().any(|prefix| text.starts_with(prefix)) || text == "CARGO_PRIMARY_PACKAGE" {
            command.env_remove(&name);
        }
    }
    command
}

fn metadata_of(root: &Path, arguments: &[&str]) -> Result<Metadata, Failure> {
    let mut command = cargo_in(root);
    command.args(["metadata", "--format-version", "1", "--locked"]).args(arguments);
    let json = shell::capture(&mut command)?;
    serde_json::from_str(&json)
        .map_err(|error| Failure::check(format!("cargo metadata is not as expected: {error}")))
}
