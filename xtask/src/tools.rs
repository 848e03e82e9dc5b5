//! What the gate needs on the machine, and how it comes there.
//!
//! 1. What is there is used as it is, from `PATH` or from `target/tools`.
//! 2. Cargo tools that lack are built into `target/tools`: nothing outside the target folder changes.
//! 3. Debian packages that lack are installed on Debian as root or through sudo, and named. On any other system the
//!    gate says what to install and ends with exit code 3.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use crate::failure::Failure;
use crate::shell;
use crate::workspace::Workspace;

/// A program of the system, and the Debian package it comes in.
struct Program {
    name: &'static str,
    /// A command that ends well at once where the program is.
    probe: &'static [&'static str],
    debian: &'static str,
    needed_for: &'static str,
}

/// No C compiler here, though SQLite is built from source: without one this very program would not have been linked.
const PROGRAMS: &[Program] = &[
    Program {
        name: "git",
        probe: &["git", "--version"],
        debian: "git",
        needed_for: "listing the project's files",
    },
    Program {
        name: "postgres",
        // Debian keeps the programs of a server out of `PATH`.
        probe: &["sh", "-c", "ls /usr/lib/postgresql/*/bin/initdb || command -v initdb"],
        debian: "postgresql",
        needed_for: "the tests of the PostgreSQL store, which start servers of their own",
    },
    Program {
        name: "pgbouncer",
        probe: &["pgbouncer", "--version"],
        debian: "pgbouncer",
        needed_for: "the tests of the PostgreSQL store behind a pooler",
    },
    Program {
        name: "python3",
        probe: &["python3", "--version"],
        debian: "python3",
        needed_for: "grading the classroom's servers",
    },
];

impl Program {
    fn is_there(&self) -> bool {
        self.probe.split_first().is_some_and(|(program, arguments)| shell::answers(program, arguments))
    }
}

/// A part of the Rust toolchain that minimal installations leave out.
const COMPONENTS: &[(&str, &str)] = &[("rustfmt", "fmt"), ("clippy", "clippy")];

/// A tool that is built from the crate registry. The version is held, so that a new release cannot fail an old commit.
struct CargoTool {
    name: &'static str,
    version: &'static str,
    /// Left out: features that only update the tool itself or read certificates for a network the gate does not use.
    features: &'static [&'static str],
}

const CARGO_DENY: CargoTool =
    CargoTool { name: "cargo-deny", version: "0.20.2", features: &["--no-default-features"] };

const CARGO_NEXTEST: CargoTool = CargoTool {
    name: "cargo-nextest",
    version: "0.9.143",
    features: &["--no-default-features", "--features", "default-no-update"],
};

/// Sees to it that everything the gate runs is there.
pub(crate) fn provide(workspace: &Workspace) -> Result<(), Failure> {
    provide_programs()?;
    provide_components(workspace)?;
    deny(workspace)?;
    nextest(workspace)?;
    Ok(())
}

/// `cargo deny`, built first if it lacks.
pub(crate) fn deny(workspace: &Workspace) -> Result<Command, Failure> {
    cargo_tool(workspace, &CARGO_DENY)
}

/// `cargo nextest`, built first if it lacks.
pub(crate) fn nextest(workspace: &Workspace) -> Result<Command, Failure> {
    cargo_tool(workspace, &CARGO_NEXTEST)
}

fn provide_programs() -> Result<(), Failure> {
    let lacking: Vec<&Program> = PROGRAMS.iter().filter(|program| !program.is_there()).collect();
    if lacking.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = lacking.iter().map(|program| program.debian).collect();
    for program in &lacking {
        println!("lacking: {} ({})", program.name, program.needed_for);
    }
    let (Some(mut update), Some(mut install)) = (apt_get(), apt_get()) else {
        return Err(Failure::lacking(format!(
            "install {} (on Debian: apt-get install {}), then call again",
            lacking.iter().map(|program| program.name).collect::<Vec<_>>().join(", "),
            packages.join(" ")
        )));
    };
    println!("installing the Debian packages {}", packages.join(" "));
    // A container's image comes without package lists; an old list is no reason to stop before the installation has failed.
    shell::run(update.arg("update")).ok();
    install.args(["install", "--yes", "--no-install-recommends"]).args(packages);
    shell::run(install.env("DEBIAN_FRONTEND", "noninteractive"))
        .map_err(|failure| Failure::lacking(failure.to_string()))
}

/// `apt-get`, if this is Debian and we may install; None elsewhere.
fn apt_get() -> Option<Command> {
    let release = std::fs::read_to_string("/etc/os-release").ok()?;
    if !is_debian(&release) {
        return None;
    }
    let root = shell::capture(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    if root {
        return Some(Command::new("apt-get"));
    }
    // `-n`: a gate that waits for a password in a pipeline waits for ever.
    if !shell::answers("sudo", &["-n", "true"]) {
        return None;
    }
    let mut sudo = Command::new("sudo");
    sudo.args(["-n", "apt-get"]);
    Some(sudo)
}

fn is_debian(os_release: &str) -> bool {
    os_release.lines().any(|line| {
        let line = line.replace('"', "");
        line == "ID=debian"
            || line.strip_prefix("ID_LIKE=").is_some_and(|like| like.split(' ').any(|id| id == "debian"))
    })
}

fn provide_components(workspace: &Workspace) -> Result<(), Failure> {
    for (component, subcommand) in COMPONENTS {
        let mut probe = workspace.cargo(&[subcommand, "--version"]);
        if shell::capture(&mut probe).is_ok() {
            continue;
        }
        println!("installing the toolchain's component {component}");
        shell::run(Command::new("rustup").args(["component", "add", component])).map_err(|_| {
            Failure::lacking(format!(
                "`cargo {subcommand}` is not there: install the component {component} of Rust"
            ))
        })?;
    }
    Ok(())
}

fn cargo_tool(workspace: &Workspace, tool: &CargoTool) -> Result<Command, Failure> {
    if shell::capture(subcommand(workspace, tool).arg("--version")).is_err() {
        build(workspace, tool)?;
    }
    Ok(subcommand(workspace, tool))
}

/// The tool as a subcommand of cargo, which looks for it in `PATH`.
fn subcommand(workspace: &Workspace, tool: &CargoTool) -> Command {
    let mut command = workspace.cargo(&[tool.name.trim_start_matches("cargo-")]);
    command.env("PATH", search_path(workspace));
    command
}

fn build(workspace: &Workspace, tool: &CargoTool) -> Result<(), Failure> {
    let root = tools_folder(workspace);
    println!("building {} {} into {} (a minute or two, once)", tool.name, tool.version, root.display());
    let mut install =
        workspace.cargo(&["install", "--quiet", "--locked", "--debug", "--version", tool.version]);
    install
        .args(tool.features)
        .arg("--root")
        .arg(&root)
        .arg("--target-dir")
        .arg(root.join("build"))
        .arg(tool.name);
    // The quickest build: a tool that runs for a second need be neither fast nor debuggable.
    install.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_INCREMENTAL", "0");
    shell::run(&mut install).map_err(|failure| Failure::lacking(failure.to_string()))?;
    // What was compiled on the way is twenty times the tool; it is not needed again.
    std::fs::remove_dir_all(root.join("build")).ok();
    Ok(())
}

fn tools_folder(workspace: &Workspace) -> PathBuf {
    workspace.target.join("tools")
}

/// The machine's own tools first: what a person installed is what they expect to run.
fn search_path(workspace: &Workspace) -> OsString {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    if !path.is_empty() {
        path.push(":");
    }
    path.push(tools_folder(workspace).join("bin"));
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debian_and_what_descends_from_it_are_known() {
        assert!(is_debian("PRETTY_NAME=\"Debian GNU/Linux 12\"\nID=debian\n"));
        assert!(is_debian("ID=ubuntu\nID_LIKE=debian\n"));
        assert!(is_debian("ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n"));
        assert!(!is_debian("ID=fedora\nHOME_URL=https://debian.example\n"));
        assert!(!is_debian("ID=nondebian\nID_LIKE=\"nodebian\"\n"));
    }

    #[test]
    fn the_tools_folder_is_searched_last() {
        let workspace = Workspace { root: "/r".into(), target: "/r/target".into() };
        let path = search_path(&workspace).into_string().unwrap();
        assert!(path.ends_with("/r/target/tools/bin"), "{path}");
    }
}
