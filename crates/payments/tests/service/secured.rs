//! TLS: the certificate in `tls/` is made for these tests and signs nothing else.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use http_body_util::Empty;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use unavez_payments::server::{self, Tls};

use crate::support::{Service, Setup};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/service/tls").join(name)
}

async fn connect(service: &Service, protocol: &[u8]) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file("test-certificate.pem")).unwrap()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    let stream = TcpStream::connect(service.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}

#[tokio::test]
async fn tls_speaks_both_protocols() {
    let tls = Tls::from_pem_files(&file("test-certificate.pem"), &file("test-key.pem")).unwrap();
    let server = server::Limits { tls: Some(tls), ..server::Limits::default() };
    let service = Service::start_with(Setup { server, ..Setup::default() }).await;
    let request = || {
        http::Request::get("https://localhost/healthz")
            .header("host", "localhost")
            .body(Empty::<bytes::Bytes>::new())
    };

    let stream = TokioIo::new(connect(&service, b"http/1.1").await);
    let (mut client, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    assert_eq!(client.send_request(request().unwrap()).await.unwrap().status(), 200);

    let stream = TokioIo::new(connect(&service, b"h2").await);
    let (mut client, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    let response = client.send_request(request().unwrap()).await.unwrap();
    assert_eq!((response.status().as_u16(), response.version()), (200, http::Version::HTTP_2));
}

#[test]
fn a_wrong_file_is_named() {
    let (certificate, key) = (file("test-certificate.pem"), file("test-key.pem"));
    for (one, other, named) in [
        (file("missing.pem"), key.clone(), "missing.pem"),
        (key.clone(), key, "test-key.pem"),
        (certificate.clone(), certificate, "test-certificate.pem"),
    ] {
        let error = Tls::from_pem_files(&one, &other).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
}
