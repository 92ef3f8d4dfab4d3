//! Who we are in a Lease.

use crate::entropy::Entropy;

/// `hostname_uuid`, as client-go's users have it: two processes of one machine
/// are two candidates.
pub fn identity(entropy: &Entropy) -> String {
    format!("{}_{}", hostname(), uuid(entropy))
}

/// A random uuid (version 4).
fn uuid(entropy: &Entropy) -> String {
    let (high, low) = (entropy.next_u64(), entropy.next_u64());
    let high = high & !0xf000 | 0x4000;
    let low = low & !(0b11 << 62) | 0b10 << 62;
    let text = format!("{high:016x}{low:016x}");
    [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]].join("-")
}

fn hostname() -> String {
    let from_kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = from_kernel.or_else(|| std::env::var("HOSTNAME").ok());
    let name = name.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
    name.unwrap_or_else(|| "localhost".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_the_hostname_and_a_uuid() {
        let entropy = Entropy::from_seed(1);
        let (one, other) = (identity(&entropy), identity(&entropy));
        assert_ne!(one, other);
        let (host, uuid) = one.rsplit_once('_').unwrap();
        assert!(!host.is_empty());
        let lengths: Vec<usize> = uuid.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
        assert_eq!(&uuid[14..15], "4");
        assert!("89ab".contains(&uuid[19..20]));
    }
}
