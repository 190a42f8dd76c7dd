//! SCRAM as RFC 5802 and RFC 7677 have it, the client's side; pure.

use super::security::Mechanism;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac, pbkdf2};
use std::num::NonZeroU32;

/// Fewer would be no protection (RFC 7677), more than this a server that wants to keep us busy.
const ITERATIONS: std::ops::RangeInclusive<u32> = 4096..=10_000_000;

/// A conversation that has begun.
pub(super) struct Scram {
    algorithm: hmac::Algorithm,
    password: String,
    first_bare: String,
    nonce: String,
}

impl Scram {
    /// Begins with `nonce`, which nobody used before. Returns the first message too.
    pub(super) fn begin(mechanism: Mechanism, username: &str, password: &str, nonce: &str) -> (Self, String) {
        let algorithm = match mechanism {
            Mechanism::ScramSha512 => hmac::HMAC_SHA512,
            Mechanism::Plain | Mechanism::ScramSha256 => hmac::HMAC_SHA256,
        };
        let name = username.replace('=', "=3D").replace(',', "=2C");
        let first_bare = format!("n={name},r={nonce}");
        let first = format!("n,,{first_bare}");
        let scram = Self {
            algorithm,
            password: password.to_owned(),
            first_bare,
            nonce: nonce.to_owned(),
        };
        (scram, first)
    }

    /// Answers the server's first message; the second value is what the server has to prove at the end.
    pub(super) fn answer(&self, server_first: &str) -> Result<(String, String), String> {
        let field = |key: &str| {
            server_first
                .split(',')
                .find_map(|part| part.strip_prefix(key))
                .ok_or_else(|| format!("the server's message has no {key}"))
        };
        let (nonce, salt, iterations) = (field("r=")?, field("s=")?, field("i=")?);
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err("the server did not go on with our nonce".to_owned());
        }
        let salt = STANDARD
            .decode(salt)
            .map_err(|error| format!("the salt: {error}"))?;
        let iterations: u32 = iterations
            .parse()
            .map_err(|_| "the iterations are no number".to_owned())?;
        if !ITERATIONS.contains(&iterations) {
            return Err(format!("{iterations} iterations are refused"));
        }
        let rounds = NonZeroU32::new(iterations).ok_or("no iterations")?;
        let (derive, length) = if self.algorithm == hmac::HMAC_SHA512 {
            (pbkdf2::PBKDF2_HMAC_SHA512, digest::SHA512_OUTPUT_LEN)
        } else {
            (pbkdf2::PBKDF2_HMAC_SHA256, digest::SHA256_OUTPUT_LEN)
        };
        let mut salted = vec![0; length];
        pbkdf2::derive(derive, rounds, &salt, self.password.as_bytes(), &mut salted);
        let client_key = self.mac(&salted, b"Client Key");
        let stored_key = digest::digest(self.algorithm.digest_algorithm(), client_key.as_ref());
        let without_proof = format!("c=biws,r={nonce}");
        let message = format!("{},{server_first},{without_proof}", self.first_bare);
        let signature = self.mac(stored_key.as_ref(), message.as_bytes());
        let proof: Vec<u8> = client_key
            .as_ref()
            .iter()
            .zip(signature.as_ref())
            .map(|(key, signature)| key ^ signature)
            .collect();
        let server_key = self.mac(&salted, b"Server Key");
        let expected = self.mac(server_key.as_ref(), message.as_bytes());
        Ok((
            format!("{without_proof},p={}", STANDARD.encode(proof)),
            format!("v={}", STANDARD.encode(expected.as_ref())),
        ))
    }

    fn mac(&self, key: &[u8], message: &[u8]) -> hmac::Tag {
        hmac::sign(&hmac::Key::new(self.algorithm, key), message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_7677() {
        let (scram, first) = Scram::begin(Mechanism::ScramSha256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO");
        assert_eq!(first, "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let server = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let (answer, proof) = scram.answer(server).unwrap();
        assert_eq!(
            answer,
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        assert_eq!(proof, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    }

    #[test]
    fn a_server_that_does_not_follow_the_rules_is_refused() {
        let (scram, first) = Scram::begin(Mechanism::ScramSha512, "a,b=c", "x", "nonce");
        assert_eq!(first, "n,,n=a=2Cb=3Dc,r=nonce");
        for (message, says) in [
            ("r=other,s=AAAA,i=4096", "nonce"),
            ("r=nonce,s=AAAA,i=4096", "nonce"),
            ("r=nonce1,s=AAAA,i=1", "refused"),
            ("r=nonce1,s=*,i=4096", "salt"),
            ("r=nonce1,i=4096", "no s="),
        ] {
            assert!(scram.answer(message).unwrap_err().contains(says), "{message}");
        }
    }
}
