//! Flags about recordings and the policy.

use std::path::{Path, PathBuf};

use coxswain::{manager::Oversight, recording::RecordConfig};

/// The least that a recording may take: less would hold hardly a file.
const LEAST: u64 = 1 << 20;

/// Flags about recordings and the policy.
#[derive(clap::Args)]
pub struct OversightArgs {
    /// Record into this directory what controllers are asked, read and decide;
    /// `coxswain replay` runs it again.
    #[arg(long, value_name = "DIR", value_parser = parse_dir)]
    record: Option<PathBuf>,
    /// Bytes that recordings in the directory may take; the oldest go first.
    #[arg(long, value_name = "BYTES", default_value = "256Mi", value_parser = parse_bytes, requires = "record")]
    record_max_bytes: u64,
    /// Record what manifests mark as sensitive too, such as the data of Secrets.
    #[arg(long, requires = "record")]
    record_sensitive: bool,
    /// A file that narrows what controllers may read and write; followed for
    /// changes.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
}

fn parse_dir(text: &str) -> Result<PathBuf, String> {
    match text {
        "" => Err("expected a directory; to record nothing, leave the flag out".to_owned()),
        dir => Ok(dir.into()),
    }
}

impl OversightArgs {
    /// The settings.
    pub fn settings(&self) -> Oversight {
        let record = self.record.clone().map(|dir| RecordConfig {
            dir,
            max_bytes: self.record_max_bytes,
            sensitive: self.record_sensitive,
        });
        Oversight { record, policy: self.policy.clone() }
    }

    /// The policy's file.
    pub fn policy(&self) -> Option<&Path> {
        self.policy.as_deref()
    }
}

fn parse_bytes(text: &str) -> Result<u64, String> {
    let units = [
        ("Ki", 1 << 10),
        ("Mi", 1 << 20),
        ("Gi", 1 << 30),
        ("k", 1_000),
        ("M", 1_000_000),
        ("G", 1_000_000_000),
    ];
    let unit = units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)));
    let (number, factor) = unit.unwrap_or((text, 1));
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    match bytes {
        Some(bytes) if bytes >= LEAST => Ok(bytes),
        Some(_) => Err("expected 1Mi or more".to_owned()),
        None => Err("expected a number of bytes such as 268435456, 256Mi or 1G".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_no_directory() {
        assert_eq!(parse_dir("a b"), Ok(PathBuf::from("a b")));
        assert!(parse_dir("").unwrap_err().contains("leave the flag out"));
    }

    #[test]
    fn sizes_have_units() {
        let table = [
            ("1048576", Ok(1 << 20)),
            ("256Mi", Ok(256 << 20)),
            ("2Gi", Ok(2 << 30)),
            ("3M", Ok(3_000_000)),
            ("5", Err(())),
            ("Mi", Err(())),
            ("-1Mi", Err(())),
            ("99999999999Gi", Err(())),
        ];
        for (text, expected) in table {
            assert_eq!(parse_bytes(text).map_err(drop), expected, "{text}");
        }
    }
}
