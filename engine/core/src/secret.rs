//! The user's secret, and the tags that it gives: HMAC-SHA256 (RFC 2104).

use hmac::digest::Key;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// Bytes of a secret, and of a tag.
pub const BYTES: usize = 32;

/// The user's secret. The default is zeros, whose tags protect against damage only.
#[derive(Clone, Default)]
pub struct Secret([u8; BYTES]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// A secret of these bytes.
    pub fn new(bytes: [u8; BYTES]) -> Self {
        Self(bytes)
    }

    /// The HMAC-SHA256 tag of a message.
    pub fn tag(&self, message: &[u8]) -> [u8; BYTES] {
        self.tag_of(&[message])
    }

    /// The tag of the concatenated parts.
    pub fn tag_of(&self, parts: &[&[u8]]) -> [u8; BYTES] {
        self.mac(parts).finalize().into_bytes().into()
    }

    /// Whether `tag` is that of `message`, in constant time.
    pub fn verifies(&self, message: &[u8], tag: &[u8]) -> bool {
        self.mac(&[message]).verify_slice(tag).is_ok()
    }

    fn mac(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        // Zeros up to the block's length, which make the same key to HMAC.
        let mut key = Key::<Hmac<Sha256>>::default();
        for (to, from) in key.iter_mut().zip(self.0) {
            *to = from;
        }
        let mut mac = Hmac::new(&key);
        for part in parts {
            mac.update(part);
        }
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_that_of_the_standard() {
        // RFC 4231, test case 2, with its key padded by zeros to 32 bytes, which HMAC does anyway.
        let mut key = [0; BYTES];
        key[..4].copy_from_slice(b"Jefe");
        let secret = Secret::new(key);
        let message = b"what do ya want for nothing?";
        let tag = rondo_protocol::Digest(secret.tag(message)).to_string();
        assert_eq!(tag, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        assert!(secret.verifies(message, &secret.tag(message)));
        assert!(!secret.verifies(b"something else", &secret.tag(message)));
        assert!(!secret.verifies(message, &[]));
    }
}
