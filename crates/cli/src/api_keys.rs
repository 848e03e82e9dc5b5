//! `unavez api-keys`: who may call the service.
//!
//! The file holds hashes only: a key is shown once, when it is made, and cannot be read back. Editing keeps every other
//! line, comments included, and replaces the file in one step, so that a service reading it never sees half of it.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde::Serialize;
use unavez_core::identity::Tenant;
use unavez_payments::auth::{self, KeyFile, KeyLine, Role, Roles};

use crate::exit::{Exit, Failure};
use crate::output::{Output, columns, print_json, print_line};

/// How many hex digits of a hash tell keys apart in a list.
const SHOWN_DIGITS: usize = 12;

/// The least that `revoke` takes for a hash rather than a name.
const PREFIX_DIGITS_MIN: usize = 8;

/// `unavez api-keys …`.
#[derive(Debug, Subcommand)]
pub(crate) enum ApiKeysCommand {
    /// Make a key, print it once, and add its line to the file
    Add(AddArgs),
    /// Show the keys of a file
    List(ListArgs),
    /// Take a key out of a file
    Revoke(RevokeArgs),
}

/// Flags of `unavez api-keys add`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  unavez api-keys add shop --role charge,read --name checkout --file keys
  unavez api-keys add ops --role operator
      prints key and line only; add the line to the file yourself

The key goes into the header `Authorization: Bearer KEY`. A running `unavez serve` reads its file
anew on SIGHUP.")]
pub(crate) struct AddArgs {
    /// Whose key it is
    #[arg(value_name = "TENANT")]
    tenant: String,

    /// What it may do: charge, refund, read, operator; several separated by commas
    #[arg(long, value_name = "ROLES", default_value = "charge,read")]
    role: String,

    /// A word to find it by, such as the program that uses it
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// The key file of `unavez serve --api-keys-file`; made if it is not there
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    #[command(flatten)]
    output: Output,
}

/// Flags of `unavez api-keys list`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  unavez api-keys list --file keys
  unavez api-keys list --file keys --format json")]
pub(crate) struct ListArgs {
    /// The key file of `unavez serve --api-keys-file`
    #[arg(long, value_name = "FILE", required = true)]
    file: PathBuf,

    #[command(flatten)]
    output: Output,
}

/// Flags of `unavez api-keys revoke`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  unavez api-keys revoke checkout --file keys
  unavez api-keys revoke 3f1c9a02 --file keys

A running `unavez serve` keeps accepting the key until it gets SIGHUP.")]
pub(crate) struct RevokeArgs {
    /// The key's name, or at least 8 digits of its hash as `unavez api-keys list` shows them
    #[arg(value_name = "NAME|HASH")]
    which: String,

    /// The key file of `unavez serve --api-keys-file`
    #[arg(long, value_name = "FILE", required = true)]
    file: PathBuf,

    #[command(flatten)]
    output: Output,
}

/// Runs `unavez api-keys …`.
pub(crate) fn run(command: &ApiKeysCommand) -> Result<Exit, Failure> {
    match command {
        ApiKeysCommand::Add(args) => add(args),
        ApiKeysCommand::List(args) => list(args),
        ApiKeysCommand::Revoke(args) => revoke(args),
    }?;
    Ok(Exit::Done)
}

#[derive(Serialize)]
struct Added {
    key: String,
    line: String,
    file: Option<String>,
}

fn add(args: &AddArgs) -> Result<(), Failure> {
    let tenant = Tenant::parse(&args.tenant).map_err(|error| Failure::usage(format!("tenant: {error}")))?;
    if tenant.as_str().starts_with('#') {
        return Err(Failure::usage(format!(
            "tenant {}: begins with `#`, and a line that begins so is a comment of the key file",
            tenant.as_str()
        )));
    }
    let roles = Roles::parse(&args.role).map_err(|error| Failure::usage(format!("--role: {error}")))?;
    let (key, line) = auth::generate(tenant, roles, args.name.as_deref().map(Into::into));
    let line = line.to_string();
    // What is written must be what the service reads.
    KeyFile::parse(&line).map_err(|error| Failure::usage(format!("--name: {}", error.why)))?;
    if let Some(file) = &args.file {
        append(file, &line)?;
    }
    if args.output.is_json() {
        let file = args.file.as_ref().map(|file| file.display().to_string());
        return print_json(&Added { key, line, file });
    }
    let bold = anstyle::Style::new().bold();
    print_line(&format!(
        "key (shown only now)\n  {bold}{key}{bold:#}\n{}\n  {line}",
        match &args.file {
            Some(file) => format!("added to {}", file.display()),
            None => "line for the key file".to_owned(),
        }
    ))
}

/// Adds a line to a key file that reads well, or makes one that only its owner can read.
fn append(path: &Path, line: &str) -> Result<(), Failure> {
    let before = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(file_failure(path, &error)),
    };
    parse(path, &before)?;
    let newline = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
        .map_err(|error| file_failure(path, &error))?;
    file.write_all(format!("{newline}{line}\n").as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(|error| file_failure(path, &error))
}

#[derive(Serialize)]
struct Listed {
    keys: Vec<ListedKey>,
}

#[derive(Serialize)]
struct ListedKey {
    tenant: String,
    roles: Vec<&'static str>,
    name: Option<String>,
    sha256: String,
}

impl ListedKey {
    fn of(line: &KeyLine) -> Self {
        Self {
            tenant: line.tenant.as_str().to_owned(),
            roles: role_names(line.roles),
            name: line.name.as_deref().map(str::to_owned),
            sha256: hex(&line.sha256),
        }
    }
}

fn list(args: &ListArgs) -> Result<(), Failure> {
    let keys = KeyFile::read(&args.file).map_err(|error| Failure::usage(error.to_string()))?;
    let keys: Vec<ListedKey> = keys.lines.iter().map(ListedKey::of).collect();
    if args.output.is_json() {
        return print_json(&Listed { keys });
    }
    if keys.is_empty() {
        return print_line("no keys");
    }
    let head = ["TENANT", "ROLES", "NAME", "SHA-256"].map(str::to_owned);
    let rows = keys.into_iter().map(|key| {
        [
            key.tenant,
            key.roles.join(","),
            key.name.unwrap_or_else(|| "-".to_owned()),
            key.sha256[..SHOWN_DIGITS].to_owned(),
        ]
    });
    print_line(columns(&[head].into_iter().chain(rows).collect::<Vec<_>>()).trim_end())
}

fn revoke(args: &RevokeArgs) -> Result<(), Failure> {
    let path = &args.file;
    let text = fs::read_to_string(path).map_err(|error| file_failure(path, &error))?;
    parse(path, &text)?;
    let (kept, revoked) = without(&text, &args.which)?;
    replace(path, &kept).map_err(|error| file_failure(path, &error))?;
    let revoked = ListedKey::of(&revoked);
    if args.output.is_json() {
        return print_json(&revoked);
    }
    print_line(&format!(
        "revoked {} of tenant {} ({})\na running service accepts it until it gets SIGHUP",
        revoked.name.as_deref().unwrap_or("a key without name"),
        revoked.tenant,
        &revoked.sha256[..SHOWN_DIGITS],
    ))
}

/// The text without the one line that `which` names, and that line.
fn without(text: &str, which: &str) -> Result<(String, KeyLine), Failure> {
    let lines = || text.split_inclusive('\n');
    let key_of = |line: &str| KeyFile::parse(line).ok().and_then(|file| file.lines.into_iter().next());
    let mut found = lines()
        .enumerate()
        .filter_map(|(at, line)| Some((at, key_of(line)?)))
        .filter(|(_, key)| names(key, which));
    let Some((at, revoked)) = found.next() else {
        return Err(Failure::usage(format!("no key is called `{which}`, and no hash begins so")));
    };
    if found.next().is_some() {
        return Err(Failure::usage(format!("several keys are called `{which}`; name one by its hash")));
    }
    let kept = lines().enumerate().filter(|(index, _)| *index != at).map(|(_, line)| line).collect();
    Ok((kept, revoked))
}

fn names(key: &KeyLine, which: &str) -> bool {
    let is_prefix =
        which.len() >= PREFIX_DIGITS_MIN && hex(&key.sha256).starts_with(&which.to_ascii_lowercase());
    key.name.as_deref() == Some(which) || is_prefix
}

/// Writes beside the file and renames, so that a reader sees the old text or the new one.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let permissions = fs::metadata(path)?.permissions();
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    file.set_permissions(permissions)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)
}

fn parse(path: &Path, text: &str) -> Result<KeyFile, Failure> {
    KeyFile::parse(text).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}

fn file_failure(path: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!("{}: {error}", path.display()))
}

fn role_names(roles: Roles) -> Vec<&'static str> {
    [Role::Charge, Role::Refund, Role::Read, Role::Operator]
        .into_iter()
        .filter(|role| roles.has(*role))
        .map(Role::as_str)
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(tenant: &str, name: Option<&str>) -> (String, KeyLine) {
        let tenant = Tenant::parse(tenant).expect("a tenant");
        let (_, line) = auth::generate(tenant, Roles::ALL, name.map(Into::into));
        (line.to_string(), line)
    }

    #[test]
    fn revoking_takes_one_line_and_leaves_every_other_byte() {
        let ((a, _), (b, _)) = (line("shop", Some("checkout")), line("ops", None));
        let text = format!("# keys of the shop\n{a}\n\n{b}");
        let (kept, revoked) = without(&text, "checkout").expect("it is there");
        assert_eq!(kept, format!("# keys of the shop\n\n{b}"));
        assert_eq!(revoked.name.as_deref(), Some("checkout"));
    }

    #[test]
    fn a_key_without_name_is_revoked_by_its_hash() {
        let (text, key) = line("shop", None);
        let digits = hex(&key.sha256);
        assert!(without(&text, &digits[..PREFIX_DIGITS_MIN - 1]).is_err(), "too short to mean one key");
        let (kept, _) = without(&text, &digits[..PREFIX_DIGITS_MIN].to_uppercase()).expect("it is there");
        assert_eq!(kept, "");
    }

    #[test]
    fn an_ambiguous_or_unknown_name_changes_nothing() {
        let text = format!("{}\n{}\n", line("a", Some("x")).0, line("b", Some("x")).0);
        assert!(without(&text, "x").expect_err("two").to_string().contains("several"));
        assert!(without(&text, "y").expect_err("none").to_string().contains("no key"));
    }
}
