//! Hashes as Kubernetes writes them into names and labels.

/// FNV-1a, 32 bits.
pub fn fnv32a(bytes: &[u8]) -> u32 {
    let mut hash = Fnv32a::default();
    hash.write(bytes);
    hash.finish()
}

/// FNV-1, 32 bits: the older order of the two steps.
pub fn fnv32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash: u32, byte| hash.wrapping_mul(0x0100_0193) ^ u32::from(*byte))
}

/// FNV-1a, 128 bits.
pub fn fnv128a(bytes: &[u8]) -> u128 {
    let start = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    let step = |hash: u128, byte: &u8| (hash ^ u128::from(*byte)).wrapping_mul((1 << 88) + 0x13b);
    bytes.iter().fold(start, step)
}

/// A 32-bit FNV-1a hash that is fed in pieces.
#[derive(Clone, Copy, Debug)]
pub struct Fnv32a(u32);

impl Default for Fnv32a {
    fn default() -> Self {
        Self(0x811c_9dc5)
    }
}

impl Fnv32a {
    /// Feeds more bytes.
    pub fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        }
    }

    /// The hash so far.
    pub fn finish(self) -> u32 {
        self.0
    }
}

/// A hash in the alphabet that spells no words: its decimal digits, each mapped
/// to a consonant or digit.
pub fn safe_encode(hash: u32) -> String {
    const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    hash.to_string().bytes().map(|digit| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_hashes() {
        for (text, hash) in [("", 0x811c_9dc5), ("a", 0xe40c_292c), ("foobar", 0xbf9c_f968)] {
            assert_eq!(fnv32a(text.as_bytes()), hash);
            let mut pieces = Fnv32a::default();
            text.bytes().for_each(|byte| pieces.write(&[byte]));
            assert_eq!(pieces.finish(), hash);
        }
    }

    #[test]
    fn known_hashes_of_the_older_order() {
        for (text, hash) in [("", 0x811c_9dc5), ("a", 0x050c_5d7e), ("foobar", 0x31f0_b262)] {
            assert_eq!(fnv32(text.as_bytes()), hash);
        }
    }

    #[test]
    fn known_long_hashes() {
        for (text, hash) in [
            ("", 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d),
            ("a", 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964),
            ("foobar", 0x343e_1662_793c_64bf_6f0d_3597_ba44_6f18),
        ] {
            assert_eq!(fnv128a(text.as_bytes()), hash);
        }
    }

    #[test]
    fn encoded_as_kubernetes_does() {
        assert_eq!(safe_encode(0), "4");
        assert_eq!(safe_encode(123_456_789), "56789bcdf");
        assert_eq!(safe_encode(u32::MAX), "86f8fbc6f9");
    }
}
