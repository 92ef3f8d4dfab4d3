//! JSON web signatures (RFC 7515) with HMAC-SHA256, without the content.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

/// Bytes that SHA-256 takes at once.
const BLOCK: usize = 64;

/// The signature of a content by a token, where the reader has the content.
pub(crate) fn detached(content: &str, id: &str, secret: &str) -> String {
    // An id is letters and digits: nothing in it needs an escape.
    let header = URL_SAFE_NO_PAD.encode(format!(r#"{{"alg":"HS256","kid":"{id}"}}"#));
    let signed = [&header, ".", &URL_SAFE_NO_PAD.encode(content)].concat();
    let signature = URL_SAFE_NO_PAD.encode(hmac(secret.as_bytes(), signed.as_bytes()));
    [&header, "..", &signature].concat()
}

/// HMAC (RFC 2104) with SHA-256.
fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut block = [0; BLOCK];
    if key.len() > BLOCK {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let keyed = |pad: u8, content: &[u8]| -> [u8; 32] {
        Sha256::new().chain_update(block.map(|byte| byte ^ pad)).chain_update(content).finalize().into()
    };
    keyed(0x5c, &keyed(0x36, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The cases of RFC 4231 that differ in how the key is taken.
    #[test]
    fn hmac_of_keys_short_and_long() {
        assert_eq!(
            hex(&hmac(b"Jefe", b"what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert_eq!(
            hex(&hmac(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
    }

    #[test]
    fn a_signature_as_kubernetes_makes_it() {
        assert_eq!(
            detached("apiVersion: v1\nkind: Config\nclusters: []\n", "abcdef", "0123456789abcdef"),
            "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiY2RlZiJ9..6noRUKYc6IcJatsCC4tJjBE6Jx8UClLwzsstr66SXaM"
        );
    }
}
