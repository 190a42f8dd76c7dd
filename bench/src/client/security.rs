//! TLS and SASL, as Kafka's client properties name them.

use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// How connections are secured.
#[derive(Clone, Debug, Default)]
pub struct Security {
    /// Encryption; `None` for plaintext.
    pub tls: Option<Arc<ClientConfig>>,
    /// Authentication; `None` for none.
    pub sasl: Option<Sasl>,
}

/// Who connects, and how it shows that.
#[derive(Clone, PartialEq, Eq)]
pub struct Sasl {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// The user.
    pub username: String,
    /// Its password.
    pub password: String,
}

impl std::fmt::Debug for Sasl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A password is in no output.
        write!(f, "{} as {}", self.mechanism.name(), self.username)
    }
}

/// The mechanisms spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// The password as it is.
    Plain,
    /// SCRAM with SHA-256 (RFC 7677).
    ScramSha256,
    /// SCRAM with SHA-512.
    ScramSha512,
}

impl Mechanism {
    const ALL: [Self; 3] = [Self::Plain, Self::ScramSha256, Self::ScramSha512];

    /// Its registered name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

/// The properties that are understood; what else a client's file holds is for other clients.
const PROTOCOL: &str = "security.protocol";
const MECHANISM: &str = "sasl.mechanism";
const JAAS: &str = "sasl.jaas.config";
const TRUST_TYPE: &str = "ssl.truststore.type";
const TRUST_FILE: &str = "ssl.truststore.location";
const TRUST_TEXT: &str = "ssl.truststore.certificates";
const KEY_TYPE: &str = "ssl.keystore.type";
const KEY_FILE: &str = "ssl.keystore.location";
const CHAIN_TEXT: &str = "ssl.keystore.certificate.chain";
const KEY_TEXT: &str = "ssl.keystore.key";

impl Security {
    /// Reads a file of client properties. The error is a sentence.
    pub fn from_file(path: &Path) -> Result<Self, String> {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
        Self::from_properties(&properties(&text)).map_err(|error| failed(&error))
    }

    fn from_properties(properties: &BTreeMap<String, String>) -> Result<Self, String> {
        let get = |key: &str| properties.get(key).map(String::as_str);
        let (encrypted, authenticated) = match get(PROTOCOL).unwrap_or("PLAINTEXT") {
            "PLAINTEXT" => (false, false),
            "SSL" => (true, false),
            "SASL_PLAINTEXT" => (false, true),
            "SASL_SSL" => (true, true),
            other => {
                return Err(format!(
                    "{PROTOCOL}={other} is none of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"
                ));
            }
        };
        Ok(Self {
            tls: if encrypted {
                Some(Arc::new(tls(&get)?))
            } else {
                None
            },
            sasl: if authenticated { Some(sasl(&get)?) } else { None },
        })
    }
}

fn sasl<'a>(get: &impl Fn(&str) -> Option<&'a str>) -> Result<Sasl, String> {
    let name = get(MECHANISM).ok_or_else(|| format!("{MECHANISM} is missing"))?;
    let mechanism = Mechanism::ALL
        .into_iter()
        .find(|mechanism| mechanism.name() == name)
        .ok_or_else(|| format!("{MECHANISM}={name} is none of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"))?;
    let jaas = get(JAAS).ok_or_else(|| format!("{JAAS} is missing"))?;
    let option = |key: &str| quoted(jaas, key).ok_or_else(|| format!("{JAAS} has no {key}=\"…\""));
    Ok(Sasl {
        mechanism,
        username: option("username")?,
        password: option("password")?,
    })
}

/// The value of `key="value"`; a backslash keeps the character after it.
fn quoted(text: &str, key: &str) -> Option<String> {
    let start = text.match_indices(key).find_map(|(at, _)| {
        let before = text[..at].chars().next_back();
        let rest = text[at + key.len()..].trim_start().strip_prefix('=')?;
        before.is_none_or(char::is_whitespace).then_some(rest)
    })?;
    let mut characters = start.trim_start().strip_prefix('"')?.chars();
    let mut value = String::new();
    loop {
        match characters.next()? {
            '"' => return Some(value),
            '\\' => value.push(characters.next()?),
            other => value.push(other),
        }
    }
}

fn tls<'a>(get: &impl Fn(&str) -> Option<&'a str>) -> Result<ClientConfig, String> {
    for key in [TRUST_TYPE, KEY_TYPE] {
        if let Some(kind) = get(key)
            && kind != "PEM"
        {
            return Err(format!("{key}={kind}: only PEM is read"));
        }
    }
    let mut roots = RootCertStore::empty();
    let trusted = pem(get, TRUST_TEXT, TRUST_FILE)?.ok_or_else(|| {
        format!(
            "{PROTOCOL} asks for TLS: name the trusted certificates by {TRUST_FILE} or {TRUST_TEXT} (PEM)"
        )
    })?;
    for certificate in certificates(&trusted)? {
        roots
            .add(certificate)
            .map_err(|error| format!("a trusted certificate: {error}"))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    // A key store in one file holds the key and the chain; as texts they are two properties.
    let own = match (pem(get, CHAIN_TEXT, KEY_FILE)?, get(KEY_TEXT)) {
        (Some(chain), Some(key)) => Some((chain, key.as_bytes().to_vec())),
        (Some(both), None) => Some((both.clone(), both)),
        (None, _) => None,
    };
    match own {
        None => Ok(builder.with_no_client_auth()),
        Some((chain, key)) => {
            let key =
                PrivateKeyDer::from_pem_slice(&key).map_err(|error| format!("the private key: {error}"))?;
            builder
                .with_client_auth_cert(certificates(&chain)?, key)
                .map_err(|error| format!("the key store: {error}"))
        }
    }
}

/// PEM from a property, or from the file that another names.
fn pem<'a>(
    get: &impl Fn(&str) -> Option<&'a str>,
    text: &str,
    file: &str,
) -> Result<Option<Vec<u8>>, String> {
    if let Some(text) = get(text) {
        return Ok(Some(text.as_bytes().to_vec()));
    }
    match get(file) {
        Some(path) => std::fs::read(path)
            .map(Some)
            .map_err(|error| format!("{file}={path}: {error}")),
        None => Ok(None),
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|error| format!("certificates: {error}"))?;
    if found.is_empty() {
        return Err("there is no certificate in the PEM".to_owned());
    }
    Ok(found)
}

/// Java's properties, as far as client files use them: `key=value`, `#` comments, a backslash at the end goes on, `\n` is a line's end.
fn properties(text: &str) -> BTreeMap<String, String> {
    let mut properties = BTreeMap::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let mut whole = line.trim_start().to_owned();
        if whole.starts_with(['#', '!']) {
            continue;
        }
        while whole.ends_with('\\') {
            whole.pop();
            match lines.next() {
                Some(more) => whole.push_str(more.trim_start()),
                None => break,
            }
        }
        if let Some((key, value)) = whole.split_once('=') {
            properties.insert(key.trim().to_owned(), value.trim().replace("\\n", "\n"));
        }
    }
    properties
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Security, String> {
        Security::from_properties(&properties(text))
    }

    #[test]
    fn kafkas_properties_are_read() {
        let security = parse(
            "# a comment\nsecurity.protocol = SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n  username=\"al\\\"ice\" password=\"p=w;d\";\n",
        )
        .unwrap();
        let sasl = security.sasl.unwrap();
        assert_eq!(
            (sasl.mechanism, sasl.username.as_str()),
            (Mechanism::ScramSha512, "al\"ice")
        );
        assert_eq!(sasl.password, "p=w;d");
        assert!(!format!("{sasl:?}").contains("p=w"));
        assert!(security.tls.is_none());
        assert!(parse("").unwrap().sasl.is_none());
    }

    #[test]
    fn what_is_missing_or_unknown_is_named() {
        for (text, says) in [
            ("security.protocol=TLS", "none of PLAINTEXT"),
            ("security.protocol=SASL_PLAINTEXT", "sasl.mechanism is missing"),
            (
                "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI",
                "none of PLAIN",
            ),
            (
                "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config=x username=\"a\"",
                "no password",
            ),
            ("security.protocol=SSL", "ssl.truststore.location"),
            ("security.protocol=SSL\nssl.truststore.type=JKS", "only PEM"),
            (
                "security.protocol=SSL\nssl.truststore.location=/missing.pem",
                "/missing.pem",
            ),
            (
                "security.protocol=SSL\nssl.truststore.certificates=x",
                "no certificate",
            ),
        ] {
            assert!(
                parse(text).unwrap_err().contains(says),
                "{text}: {:?}",
                parse(text).unwrap_err()
            );
        }
    }
}
