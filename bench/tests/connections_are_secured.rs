//! TLS and SASL by `--command-config`: a whole run through a terminator in front of the reference broker.

// Helpers of tests may unwrap as tests do.
#![allow(clippy::unwrap_used)]

mod support;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use strandline_bench::cli::{self, Command};
use strandline_bench::exit::Exit;
use strandline_bench::null_broker::{NullBroker, NullBrokerOptions};
use strandline_bench::run::{Finished, RunError, run};

const HANDSHAKE: i16 = 17;
const AUTHENTICATE: i16 = 36;
const AUTHENTICATION_FAILED: i16 = 58;

fn pem(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/tls")
        .join(name)
}

fn server_config() -> Arc<ServerConfig> {
    let chain = vec![CertificateDer::from_pem_file(pem("cert.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(pem("key.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    Arc::new(config)
}

/// One frame without its size.
fn frame(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut size = [0; 4];
    stream.read_exact(&mut size)?;
    let mut frame = vec![0; u32::from_be_bytes(size) as usize];
    stream.read_exact(&mut frame)?;
    Ok(frame)
}

fn send(stream: &mut impl Write, frame: &[u8]) -> io::Result<()> {
    stream.write_all(&[&(frame.len() as u32).to_be_bytes(), frame].concat())?;
    stream.flush()
}

/// Asks for PLAIN with user `alice` and password `secret`, then passes requests and their answers on, one after the other.
fn terminate(client: &mut (impl Read + Write), broker: SocketAddr, with_sasl: bool) -> io::Result<()> {
    let mut authenticated = !with_sasl;
    let mut upstream = TcpStream::connect(broker)?;
    loop {
        let request = frame(client)?;
        let api = i16::from_be_bytes([request[0], request[1]]);
        if authenticated {
            send(&mut upstream, &request)?;
            let answer = frame(&mut upstream)?;
            send(client, &answer)?;
            continue;
        }
        let correlation_id = &request[4..8];
        match api {
            HANDSHAKE => send(
                client,
                &[correlation_id, &[0, 0, 0, 0, 0, 1, 0, 5], b"PLAIN"].concat(),
            )?,
            AUTHENTICATE => {
                authenticated = request.ends_with(b"\0alice\0secret");
                let code = if authenticated { 0 } else { AUTHENTICATION_FAILED };
                let rest = [&[255_u8, 255][..], &[0; 4], &[0; 8]].concat();
                send(client, &[correlation_id, &code.to_be_bytes(), &rest].concat())?;
            }
            _ => return Err(io::Error::other("a request before the authentication")),
        }
    }
}

/// A broker that is reached only through a terminator; its address.
fn secured(with_tls: bool, with_sasl: bool) -> (NullBroker, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let front = listener.local_addr().unwrap();
    let broker = NullBroker::start(&NullBrokerOptions {
        advertised: Some(front),
        ..support::options()
    })
    .unwrap();
    let behind = broker.addresses()[0];
    let config = server_config();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            let config = Arc::clone(&config);
            std::thread::spawn(move || {
                // The end of a connection is the end of its terminator.
                let _ = if with_tls {
                    let session = ServerConnection::new(config).unwrap();
                    terminate(&mut StreamOwned::new(session, socket), behind, with_sasl)
                } else {
                    terminate(&mut socket, behind, with_sasl)
                };
            });
        }
    });
    (broker, front)
}

fn attempt(front: SocketAddr, properties: &str) -> Result<Finished, RunError> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("client.properties");
    std::fs::write(&file, properties).unwrap();
    let (front, file) = (front.to_string(), file.display().to_string());
    let output = folder.path().join("run").display().to_string();
    let arguments = [
        "strandline-bench",
        "run",
        "--quiet",
        "-b",
        &front,
        "--command-config",
        &file,
        "--output",
        &output,
        "--rate",
        "2k",
        "--num-records",
        "600",
        "--partitions",
        "3",
    ];
    let Command::Run(args) = cli::parse(arguments).unwrap().command else {
        unreachable!("the command is run")
    };
    run(&args, &Arc::new(AtomicBool::new(false)))
}

fn properties(protocol: &str, password: &str) -> String {
    format!(
        "security.protocol={protocol}\nssl.truststore.type=PEM\nssl.truststore.location={}\nsasl.mechanism=PLAIN\nsasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username=\"alice\" password=\"{password}\";\n",
        pem("cert.pem").display()
    )
}

#[test]
fn every_record_arrives_through_tls_and_sasl() {
    for (protocol, with_tls, with_sasl) in [
        ("SSL", true, false),
        ("SASL_PLAINTEXT", false, true),
        ("SASL_SSL", true, true),
    ] {
        let (_broker, front) = secured(with_tls, with_sasl);
        let finished = attempt(front, &properties(protocol, "secret")).unwrap();
        let verification = finished.report.verification.unwrap();
        assert!(verification.passed(), "{protocol}: {verification:?}");
        assert_eq!(verification.received, 600, "{protocol}");
        assert!(matches!(finished.exit, Exit::Ok | Exit::Invalid), "{protocol}");
    }
}

#[test]
fn refusals_name_what_was_refused() {
    let (_broker, front) = secured(false, true);
    let error = attempt(front, &properties("SASL_PLAINTEXT", "wrong")).unwrap_err();
    assert!(error.to_string().contains("authentication of alice"), "{error}");
    assert!(
        !error.to_string().contains("wrong"),
        "no password in any output: {error}"
    );
    let (_broker, front) = secured(true, false);
    // Nobody vouches for the certificate.
    let untrusted = properties("SSL", "").replace("cert.pem", "key.pem");
    let error = attempt(front, &untrusted).unwrap_err();
    assert_eq!(error.exit(), Exit::Usage);
    assert!(error.to_string().contains("no certificate"), "{error}");
}
