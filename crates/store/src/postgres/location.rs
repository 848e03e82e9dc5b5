//! Where the database is, and whether the way there is encrypted.
//!
//! 1. Encrypted means verified: `sslmode=require` checks the server's certificate and name as `verify-full` does. Whoever
//!    can put himself between would be believed otherwise, and would read every answer.
//! 2. `prefer` and `allow` are refused: they fall back to clear text when somebody asks them to.
//! 3. Said nothing, a socket and a loopback address are in clear, every other host is `verify-full`.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::OpenError;

/// How long to wait for a host before the next one is tried, where the connection string does not say.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// After how long a host that acknowledges nothing counts as gone, where the connection string does not say. Below the
/// attempt's deadline, so that an owner still has time to find out.
const SILENT_HOST_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection string that was understood.
#[derive(Clone)]
pub struct Location {
    pub(super) config: Config,
    pub(super) tls: Option<MakeRustlsConnect>,
}

impl Location {
    /// Reads `postgres://user:password@host:port/database?sslmode=…&sslrootcert=…`, with several hosts where one of them
    /// takes writes.
    ///
    /// # Errors
    /// [`OpenError::Url`] and [`OpenError::Certificates`].
    pub fn parse(url: &str) -> Result<Self, OpenError> {
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(OpenError::Url("it does not begin with postgres://".to_owned()));
        }
        let (url, ssl) = Ssl::taken_from(url);
        // The driver's words can repeat what they are about, and that can be the password.
        let mut config: Config =
            url.parse().map_err(|_| OpenError::Url("a part of it is not known".to_owned()))?;
        let mode = ssl.mode(&config)?;
        config.ssl_mode(mode);
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(SILENT_HOST_TIMEOUT);
        }
        if config.get_application_name().is_none() {
            config.application_name("unavez");
        }
        let tls = (mode == SslMode::Require).then(|| ssl.connector()).transpose()?;
        Ok(Self { config, tls })
    }
}

impl fmt::Debug for Location {
    /// Without user and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Location")
            .field("hosts", &self.config.get_hosts())
            .field("database", &self.config.get_dbname())
            .field("encrypted", &self.tls.is_some())
            .finish_non_exhaustive()
    }
}

/// What a connection string says about encryption.
#[derive(Debug, Default)]
struct Ssl {
    mode: Option<String>,
    root_certificates: Option<String>,
}

impl Ssl {
    /// The driver knows fewer modes and no file of certificates, so both are taken out.
    fn taken_from(url: &str) -> (String, Self) {
        let mut ssl = Self::default();
        let Some((before, query)) = url.split_once('?') else { return (url.to_owned(), ssl) };
        let rest: Vec<&str> = query
            .split('&')
            .filter(|pair| match pair.split_once('=') {
                Some(("sslmode", mode)) => {
                    ssl.mode = Some(mode.to_owned());
                    false
                }
                Some(("sslrootcert", path)) => {
                    ssl.root_certificates = Some(path.replace("%2F", "/").replace("%2f", "/"));
                    false
                }
                _ => true,
            })
            .collect();
        let url = if rest.is_empty() { before.to_owned() } else { format!("{before}?{}", rest.join("&")) };
        (url, ssl)
    }

    fn mode(&self, config: &Config) -> Result<SslMode, OpenError> {
        match self.mode.as_deref() {
            Some("disable") => Ok(SslMode::Disable),
            Some("require" | "verify-ca" | "verify-full") => Ok(SslMode::Require),
            None if config.get_hosts().iter().all(is_near) => Ok(SslMode::Disable),
            None => Ok(SslMode::Require),
            Some(other) => Err(OpenError::Url(format!(
                "sslmode={other} may fall back to clear text or is not known; take verify-full, or disable"
            ))),
        }
    }

    fn connector(&self) -> Result<MakeRustlsConnect, OpenError> {
        let ring = Arc::new(rustls::crypto::ring::default_provider());
        let versions = ClientConfig::builder_with_provider(ring).with_safe_default_protocol_versions();
        let builder = versions.map_err(|error| OpenError::Certificates(error.to_string()))?;
        let config = builder.with_root_certificates(self.roots()?).with_no_client_auth();
        Ok(MakeRustlsConnect::new(config))
    }

    fn roots(&self) -> Result<RootCertStore, OpenError> {
        let mut roots = RootCertStore::empty();
        let Some(path) = &self.root_certificates else {
            let system = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(system.certs);
            return filled(roots, "the system has none; name a file with sslrootcert=…");
        };
        let unreadable = |error: &dyn fmt::Display| OpenError::Certificates(format!("{path}: {error}"));
        for certificate in CertificateDer::pem_file_iter(path).map_err(|error| unreadable(&error))? {
            let certificate = certificate.map_err(|error| unreadable(&error))?;
            roots.add(certificate).map_err(|error| unreadable(&error))?;
        }
        filled(roots, &format!("{path} has none"))
    }
}

fn filled(roots: RootCertStore, why_empty: &str) -> Result<RootCertStore, OpenError> {
    if roots.is_empty() { Err(OpenError::Certificates(why_empty.to_owned())) } else { Ok(roots) }
}

/// A host that no network lies before.
fn is_near(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|address: IpAddr| address.is_loopback())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(url: &str) -> SslMode {
        Location::parse(url).unwrap().config.get_ssl_mode()
    }

    #[test]
    fn only_near_hosts_are_in_clear_unless_said() {
        for near in ["localhost", "127.0.0.1", "%2Ftmp%2Fsocket"] {
            assert_eq!(mode(&format!("postgres://u@{near}/d")), SslMode::Disable, "{near}");
        }
        assert_eq!(mode("postgres://u@db.example/d?sslmode=disable"), SslMode::Disable);
        assert_eq!(mode("postgres://u@localhost/d?connect_timeout=3&sslmode=verify-full"), SslMode::Require);
        assert_eq!(mode("postgres://u@localhost,db.example/d"), SslMode::Require);
    }

    #[test]
    fn what_falls_back_to_clear_text_is_refused() {
        for word in ["prefer", "allow", "full"] {
            let refusal = Location::parse(&format!("postgres://u@db.example/d?sslmode={word}")).unwrap_err();
            assert!(refusal.to_string().contains("take verify-full"), "{refusal}");
        }
    }

    #[test]
    fn nothing_shows_a_password() {
        let location = Location::parse("postgres://u:s3cret@localhost/d").unwrap();
        assert!(!format!("{location:?}").contains("s3cret"), "{location:?}");
        let refusal = Location::parse("postgres://u:s3cret@localhost:port/d").unwrap_err();
        assert!(!format!("{refusal:?} {refusal}").contains("s3cret"), "{refusal}");
    }

    #[test]
    fn a_file_without_certificates_is_named() {
        let url = "postgres://u@db.example/d?sslrootcert=%2Fdev%2Fnull";
        assert_eq!(
            Location::parse(url).unwrap_err().to_string(),
            "certificates for the database: /dev/null has none"
        );
    }
}
