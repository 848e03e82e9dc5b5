//! The API key file, and finding a key in it.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use unavez_core::identity::Tenant;
use uuid::Uuid;

use super::{Caller, Roles};

/// The key file, parsed. Empty lines and lines that begin with `#` are skipped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyFile {
    /// In the order of the file.
    pub lines: Vec<KeyLine>,
}

/// One line: `tenant role[,role] sha256-hex [name]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyLine {
    /// Whose key it is.
    pub tenant: Tenant,
    /// What it allows.
    pub roles: Roles,
    /// SHA-256 of the key.
    pub sha256: [u8; 32],
    /// For people: one word that says where the key is used.
    pub name: Option<Box<str>>,
}

/// A line that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineError {
    /// Counted from 1.
    pub line: usize,
    /// Why; never the line itself.
    pub why: String,
}

/// A key file that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFileError {
    /// Which file.
    pub path: PathBuf,
    /// Where in it; `None`: it could not be opened at all.
    pub line: Option<usize>,
    /// Why.
    pub why: String,
}

impl KeyFile {
    /// Reads the text of a key file.
    ///
    /// # Errors
    /// The first line at fault.
    pub fn parse(text: &str) -> Result<Self, LineError> {
        let mut file = Self::default();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let parsed = KeyLine::parse(line).and_then(|parsed| file.refuse_twin(&parsed).map(|()| parsed));
            file.lines.push(parsed.map_err(|why| LineError { line: at + 1, why })?);
        }
        Ok(file)
    }

    /// Reads a key file.
    ///
    /// # Errors
    /// The file cannot be opened, or a line is at fault.
    pub fn read(path: &Path) -> Result<Self, KeyFileError> {
        let refuse = |line, why| KeyFileError { path: path.to_owned(), line, why };
        let text = std::fs::read_to_string(path).map_err(|error| refuse(None, error.to_string()))?;
        Self::parse(&text).map_err(|error| refuse(Some(error.line), error.why))
    }

    /// One key with two tenants would make the file's order decide who is who.
    fn refuse_twin(&self, line: &KeyLine) -> Result<(), String> {
        match self.lines.iter().any(|other| other.sha256 == line.sha256) {
            true => Err("the same key stands in an earlier line".to_owned()),
            false => Ok(()),
        }
    }
}

impl KeyLine {
    /// Reads one line.
    fn parse(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let (tenant, roles, hex, name) = match words[..] {
            [tenant, roles, hex] => (tenant, roles, hex, None),
            [tenant, roles, hex, name] => (tenant, roles, hex, Some(name.into())),
            _ => {
                let plural = if words.len() == 1 { "" } else { "s" };
                return Err(format!(
                    "expected `tenant role[,role] sha256-hex [name]`, found {} word{plural}",
                    words.len()
                ));
            }
        };
        Ok(Self {
            tenant: Tenant::parse(tenant).map_err(|error| error.to_string())?,
            roles: Roles::parse(roles).map_err(|error| error.to_string())?,
            sha256: parse_sha256(hex)?,
            name,
        })
    }
}

fn parse_sha256(hex: &str) -> Result<[u8; 32], String> {
    let mut bytes = [0; 32];
    if hex.len() != 64 {
        return Err(format!("sha256 has {} characters, expected 64 hex digits", hex.len()));
    }
    for (byte, pair) in bytes.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
        let digit = |it: u8| char::from(it).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let (Some(high), Some(low)) = (digit(pair[0]), digit(pair[1])) else {
            return Err("sha256 has something else than hex digits".to_owned());
        };
        *byte = high << 4 | low;
    }
    Ok(bytes)
}

/// Makes a new key: 244 random bits. Returns its text, to be shown once, and its line.
#[must_use]
pub fn generate(tenant: Tenant, roles: Roles, name: Option<Box<str>>) -> (String, KeyLine) {
    let key = format!("uv_{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
    let sha256 = Sha256::digest(key.as_bytes()).into();
    (key, KeyLine { tenant, roles, sha256, name })
}

impl fmt::Display for KeyLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ", self.tenant.as_str(), self.roles)?;
        self.sha256.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        match &self.name {
            Some(name) => write!(f, " {name}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

impl std::error::Error for LineError {}

impl fmt::Display for KeyFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path.display(), self.why),
            None => write!(f, "{}: {}", self.path.display(), self.why),
        }
    }
}

impl std::error::Error for KeyFileError {}

/// Keys to search in.
///
/// Keys are grouped by the first bytes of their digest and compared in constant time within a group. How long a
/// search takes shows at most those bytes of a digest, which say nothing about a random key.
pub(super) struct Keyring {
    groups: HashMap<[u8; 8], Vec<Known>>,
}

struct Known {
    sha256: [u8; 32],
    caller: Arc<Caller>,
}

impl Keyring {
    /// `default_tenant` is the name under which the file knows the tenant `default`.
    pub(super) fn new(file: KeyFile, default_tenant: Option<&Tenant>) -> Self {
        let mut groups: HashMap<_, Vec<Known>> = HashMap::new();
        for line in file.lines {
            let tenant = if Some(&line.tenant) == default_tenant { Tenant::single() } else { line.tenant };
            let caller = Arc::new(Caller { tenant, roles: line.roles });
            groups.entry(group(&line.sha256)).or_default().push(Known { sha256: line.sha256, caller });
        }
        Self { groups }
    }

    pub(super) fn find(&self, key: &str) -> Option<Arc<Caller>> {
        let digest: [u8; 32] = Sha256::digest(key.as_bytes()).into();
        let group = self.groups.get(&group(&digest))?;
        // Every entry of the group is compared, found or not.
        group.iter().fold(None, |found, known| match bool::from(digest.ct_eq(&known.sha256)) {
            true => Some(Arc::clone(&known.caller)),
            false => found,
        })
    }
}

fn group(digest: &[u8; 32]) -> [u8; 8] {
    let (group, _) = digest.split_first_chunk().expect("32 bytes start with 8");
    *group
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHA: &str = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"; // of `foo`

    #[test]
    fn a_file_reads_back() {
        let text = format!(
            "# keys\n\nshop charge,read {SHA} web\n  b operator {}\n",
            SHA.to_uppercase().replace('2', "3")
        );
        let file = KeyFile::parse(&text).unwrap();
        assert_eq!(file.lines[0].to_string(), format!("shop charge,read {SHA} web"));
        assert_eq!(file.lines[1].tenant.as_str(), "b");
        assert_eq!(KeyFile::parse(&file.lines[1].to_string()).unwrap().lines[0], file.lines[1]);
    }

    #[test]
    fn faults_name_the_line_and_the_reason() {
        let check = |text: String, expected: &str| {
            assert_eq!(KeyFile::parse(&text).unwrap_err().to_string(), expected);
        };
        check(
            format!("#\nshop charge {SHA} a b"),
            "line 2: expected `tenant role[,role] sha256-hex [name]`, found 5 words",
        );
        check(
            format!("shop boss {SHA}"),
            "line 1: role is \"boss\", allowed: charge, refund, read, operator",
        );
        check("shop read 2c26".to_owned(), "line 1: sha256 has 4 characters, expected 64 hex digits");
        check(
            format!("shop read {}", SHA.replace('2', "x")),
            "line 1: sha256 has something else than hex digits",
        );
        check(format!("{} read {SHA}", "x".repeat(129)), "line 1: tenant has 129 characters, limit 128");
        check(format!("a read {SHA}\nb read {SHA}"), "line 2: the same key stands in an earlier line");
    }

    #[test]
    fn a_key_finds_its_tenant() {
        let file = KeyFile::parse(&format!("shop charge {SHA}")).unwrap();
        let ring = Keyring::new(file.clone(), None);
        assert_eq!(ring.find("foo").unwrap().tenant.as_str(), "shop");
        assert_eq!(ring.find("fop"), None);
        let mapped = Keyring::new(file, Some(&Tenant::parse("shop").unwrap()));
        assert_eq!(mapped.find("foo").unwrap().tenant, Tenant::single());
    }

    #[test]
    fn made_keys_differ_and_are_found() {
        let (one, line) = generate(Tenant::single(), Roles::ALL, Some("web".into()));
        let (other, _) = generate(Tenant::single(), Roles::ALL, None);
        assert_ne!(one, other);
        let ring = Keyring::new(KeyFile { lines: vec![line] }, None);
        assert!(ring.find(&one).is_some() && ring.find(&other).is_none());
    }
}
