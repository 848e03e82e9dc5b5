//! Who is calling, and what they may do.
//!
//! 1. A key is shown once, when it is made; what is kept is its SHA-256. Keys are random, so a plain hash is enough.
//! 2. The tenant follows from the key and from nothing else (P4).
//! 3. Without a key file every caller is the tenant `default` with every role; the command line then binds to
//!    loopback only.
//! 4. Keys are never logged, not even wrong ones.
//!
//! What breaks it in deployment: a key file that others may write. Whoever adds a line is let in.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue};
use unavez_core::identity::Tenant;
use unavez_core::problem::Code;
use unavez_tower::problem::Problem;

mod keyring;
mod roles;

pub use keyring::{KeyFile, KeyFileError, KeyLine, LineError, generate};
pub use roles::{Role, Roles, UnknownRole};

use keyring::Keyring;

/// Who is calling: an extension of every request inside the routers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Whose keys, charges and ledger it sees.
    pub tenant: Tenant,
    /// What it may do.
    pub roles: Roles,
}

impl Caller {
    /// Whoever calls a service without API keys.
    #[must_use]
    pub fn anyone() -> Self {
        Self { tenant: Tenant::single(), roles: Roles::ALL }
    }

    /// Lets the caller pass if it has one of these roles.
    pub(crate) fn require(&self, one_of: &[Role]) -> Result<(), Problem> {
        if one_of.iter().any(|role| self.roles.has(*role)) {
            return Ok(());
        }
        let wanted = one_of.iter().map(|role| role.as_str()).collect::<Vec<_>>().join(" or ");
        let detail = format!("the API key has the roles {}, needed is {wanted}", self.roles);
        Err(Problem::new(Code::Forbidden).with_detail(detail))
    }
}

/// Finds the caller of a request.
pub(crate) struct Gate {
    keys: Option<Keys>,
    anyone: Arc<Caller>,
}

struct Keys {
    path: PathBuf,
    default_tenant: Option<Tenant>,
    ring: RwLock<Arc<Keyring>>,
}

impl Gate {
    /// Everybody passes as [`Caller::anyone`].
    pub(crate) fn open() -> Self {
        Self { keys: None, anyone: Arc::new(Caller::anyone()) }
    }

    /// Whoever has a key of this file passes. The tenant called `default_tenant` there owns what is stored under
    /// `default`.
    pub(crate) fn with_keys(path: &Path, default_tenant: Option<Tenant>) -> Result<Self, KeyFileError> {
        let ring = Arc::new(Keyring::new(checked(path, default_tenant.as_ref())?, default_tenant.as_ref()));
        let keys = Keys { path: path.to_owned(), default_tenant, ring: RwLock::new(ring) };
        Ok(Self { keys: Some(keys), ..Self::open() })
    }

    /// Whoever calls where nobody has to say who it is.
    pub(crate) fn anyone(&self) -> Arc<Caller> {
        Arc::clone(&self.anyone)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.keys.is_none()
    }

    /// Reads the file anew and says how many keys it has. On an error the keys in force stay.
    pub(crate) fn reload(&self) -> Result<usize, KeyFileError> {
        let Some(keys) = &self.keys else { return Ok(0) };
        let file = checked(&keys.path, keys.default_tenant.as_ref())?;
        let count = file.lines.len();
        let ring = Arc::new(Keyring::new(file, keys.default_tenant.as_ref()));
        *keys.ring.write().unwrap_or_else(PoisonError::into_inner) = ring;
        Ok(count)
    }

    /// Who sends these headers, or 401.
    pub(crate) fn caller(&self, headers: &HeaderMap) -> Result<Arc<Caller>, Problem> {
        let Some(keys) = &self.keys else { return Ok(Arc::clone(&self.anyone)) };
        let key = bearer(headers).map_err(unauthorized)?;
        let ring = keys.ring.read().unwrap_or_else(PoisonError::into_inner);
        ring.find(key).ok_or_else(|| unauthorized("the API key is not known"))
    }
}

/// A key file in which `default` is either a tenant like any other, or another name's history, never both (P4).
fn checked(path: &Path, default_tenant: Option<&Tenant>) -> Result<KeyFile, KeyFileError> {
    let file = read_keys(path)?;
    let single = Tenant::single();
    match default_tenant {
        Some(owner) if *owner != single && file.lines.iter().any(|line| line.tenant == single) => {
            Err(KeyFileError {
                path: path.to_owned(),
                line: None,
                why: format!("tenant `default` belongs to {}, so no key can be its own", owner.as_str()),
            })
        }
        _ => Ok(file),
    }
}

/// A file without a key lets nobody in: much rather a write that was cut off than somebody's wish.
fn read_keys(path: &Path) -> Result<KeyFile, KeyFileError> {
    let file = KeyFile::read(path)?;
    if file.lines.is_empty() {
        let why = "file has no key; `unavez api-keys add TENANT --role ROLE --file PATH` adds one".to_owned();
        return Err(KeyFileError { path: path.to_owned(), line: None, why });
    }
    Ok(file)
}

/// The token of `Authorization: Bearer …`.
fn bearer(headers: &HeaderMap) -> Result<&str, &'static str> {
    let mut lines = headers.get_all(AUTHORIZATION).iter();
    let line = lines.next().ok_or("header authorization is not there")?;
    if lines.next().is_some() {
        return Err("header authorization stands twice");
    }
    let malformed = "header authorization is not of the form `Bearer KEY`";
    let (scheme, key) = line.to_str().ok().and_then(|text| text.split_once(' ')).ok_or(malformed)?;
    match key.trim() {
        key if scheme.eq_ignore_ascii_case("bearer") && !key.is_empty() => Ok(key),
        _ => Err(malformed),
    }
}

fn unauthorized(detail: &str) -> Problem {
    Problem::new(Code::Unauthorized)
        .with_detail(detail)
        .with_header(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("is_open", &self.is_open()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bearer_of(lines: &[&'static str]) -> Result<String, &'static str> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(AUTHORIZATION, HeaderValue::from_static(line));
        }
        bearer(&headers).map(str::to_owned)
    }

    #[test]
    fn the_bearer_scheme_is_read_in_any_case() {
        assert_eq!(bearer_of(&["Bearer k"]).as_deref(), Ok("k"));
        assert_eq!(bearer_of(&["bEARER  k "]).as_deref(), Ok("k"));
        for lines in [&[][..], &["k"], &["Bearer"], &["Bearer "], &["Basic k"], &["Bearer a", "Bearer a"]] {
            assert!(bearer_of(lines).is_err(), "{lines:?}");
        }
    }

    #[test]
    fn a_reload_takes_effect_or_leaves_all_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        let (one, one_line) = generate(Tenant::single(), Roles::ALL, None);
        let (two, two_line) = generate(Tenant::parse("b").unwrap(), Roles::ALL, None);
        let knows = |gate: &Gate, key: &str| {
            let line = HeaderValue::try_from(format!("Bearer {key}")).unwrap();
            gate.caller(&HeaderMap::from_iter([(AUTHORIZATION, line)])).is_ok()
        };
        std::fs::write(&path, format!("{one_line}\n")).unwrap();
        let gate = Gate::with_keys(&path, None).unwrap();
        assert!(knows(&gate, &one) && !knows(&gate, &two));

        std::fs::write(&path, format!("{two_line}\nnonsense\n")).unwrap();
        assert_eq!(
            gate.reload().unwrap_err().to_string(),
            format!("{}:2: expected `tenant role[,role] sha256-hex [name]`, found 1 word", path.display())
        );
        assert!(knows(&gate, &one) && !knows(&gate, &two));

        for text in ["", "\n# nobody\n"] {
            std::fs::write(&path, text).unwrap();
            let refused = gate.reload().unwrap_err().to_string();
            assert!(refused.contains("file has no key; `unavez api-keys add"), "{refused}");
            assert!(knows(&gate, &one) && !knows(&gate, &two));
            assert!(Gate::with_keys(&path, None).is_err(), "nor does it start with {text:?}");
        }

        std::fs::write(&path, format!("{two_line}\n")).unwrap();
        assert_eq!(gate.reload().unwrap(), 1);
        assert!(!knows(&gate, &one) && knows(&gate, &two));
    }

    #[test]
    fn a_role_is_missing_by_name() {
        let caller = Caller { tenant: Tenant::single(), roles: Roles::parse("read,charge").unwrap() };
        assert!(caller.require(&[Role::Read]).is_ok());
        let problem = caller.require(&[Role::Operator]).unwrap_err();
        let json: serde_json::Value = serde_json::from_slice(&problem.to_json()).unwrap();
        assert_eq!(json["detail"], "the API key has the roles charge,read, needed is operator");
    }
}
