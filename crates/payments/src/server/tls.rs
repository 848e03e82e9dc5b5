//! TLS by rustls with ring; ALPN chooses between HTTP/2 and HTTP/1.1.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::server::TlsStream;

use super::connection::Protocol;

/// A certificate chain and its key, read and checked. Cheap to clone.
#[derive(Clone)]
pub struct Tls(TlsAcceptor);

/// Why a certificate or key was refused: the file, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsError(String);

impl Tls {
    /// Reads a certificate chain (leaf first) and a private key, both PEM.
    ///
    /// # Errors
    /// A file cannot be read, holds no such thing, or the two do not belong together.
    pub fn from_pem_files(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let refuse = |path: &Path, why: &dyn fmt::Display| TlsError(format!("{}: {why}", path.display()));
        let chain = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| refuse(certificate, &error))?;
        if chain.is_empty() {
            return Err(refuse(certificate, &"no certificate in it"));
        }
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| refuse(key, &error))?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| refuse(certificate, &error))?
            .with_no_client_auth()
            .with_single_cert(chain, secret)
            .map_err(|error| refuse(certificate, &error))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    pub(super) async fn accept(&self, stream: TcpStream) -> io::Result<Secured> {
        self.0.accept(stream).await.map(Secured)
    }
}

/// A connection after its handshake.
pub(super) struct Secured(TlsStream<TcpStream>);

impl Secured {
    pub(super) fn protocol(&self) -> Protocol {
        match self.0.get_ref().1.alpn_protocol() {
            Some(b"h2") => Protocol::Http2,
            _ => Protocol::Http1,
        }
    }

    pub(super) fn into_inner(self) -> TlsStream<TcpStream> {
        self.0
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TlsError {}
