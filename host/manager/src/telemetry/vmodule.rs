//! `--vmodule`: more detail in the log for some source files, as klog has it.
//!
//! `executor=4,store/*=6`: a pattern is matched against the name of the file
//! without its ending (of `mod.rs` the name of its directory), and against the
//! whole path if it has a `/`. It adds lines and never takes any away.

use std::str::FromStr;

use tracing::{Level, Metadata};

/// Patterns, and up to which level lines of files that match are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vmodule(pub(super) Vec<(String, Level)>);

impl FromStr for Vmodule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
        let one = |pair: &str| {
            let (pattern, verbosity) = pair.split_once('=').unwrap_or((pair, ""));
            match verbosity.parse::<u8>() {
                Ok(verbosity) if !pattern.is_empty() => Ok((pattern.to_owned(), level(verbosity))),
                _ => Err(format!("{pair:?}: expected PATTERN=N, such as executor=4")),
            }
        };
        pairs.map(one).collect::<Result<_, _>>().map(Self)
    }
}

impl Vmodule {
    /// Whether nothing was said.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn shows(&self, line: &Metadata<'_>) -> bool {
        line.file().is_some_and(|file| self.shows_file(file, *line.level()))
    }

    fn shows_file(&self, file: &str, level: Level) -> bool {
        let path = file.strip_suffix(".rs").unwrap_or(file);
        let path = path.strip_suffix("/mod").unwrap_or(path);
        let name = path.rsplit('/').next().unwrap_or(path);
        let mut patterns = self.0.iter().filter(|(_, up_to)| level <= *up_to);
        patterns.any(|(pattern, _)| match pattern.contains('/') {
            // A pattern for a path may leave out where the source tree is.
            true => matches(pattern.as_bytes(), path.as_bytes()) || ends_so(pattern, path),
            false => matches(pattern.as_bytes(), name.as_bytes()),
        })
    }
}

fn level(verbosity: u8) -> Level {
    match verbosity {
        0..=3 => Level::INFO,
        4..=5 => Level::DEBUG,
        _ => Level::TRACE,
    }
}

fn ends_so(pattern: &str, path: &str) -> bool {
    path.match_indices('/').any(|(at, _)| matches(pattern.as_bytes(), &path.as_bytes()[at + 1..]))
}

/// `*` is any text within a part of a path, `?` one letter of it.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern, text) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => {
            matches(rest, text)
                || matches!(text, [letter, more @ ..] if *letter != b'/' && matches(pattern, more))
        }
        ([b'?', rest @ ..], [letter, more @ ..]) => *letter != b'/' && matches(rest, more),
        ([wanted, rest @ ..], [letter, more @ ..]) => wanted == letter && matches(rest, more),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_files_and_paths() {
        let file = "host/manager/src/executor/run.rs";
        for (patterns, level, shown) in [
            ("run=4", Level::DEBUG, true),
            ("run=4", Level::TRACE, false),
            ("run=6", Level::TRACE, true),
            ("r?n=4", Level::DEBUG, true),
            ("r*=4,other=6", Level::DEBUG, true),
            ("other=6", Level::DEBUG, false),
            ("executor/*=4", Level::DEBUG, true),
            ("host/*=4", Level::DEBUG, false),
            ("executor=4", Level::DEBUG, false),
        ] {
            let vmodule: Vmodule = patterns.parse().unwrap();
            assert_eq!(vmodule.shows_file(file, level), shown, "{patterns} {level}");
        }
        let vmodule: Vmodule = "store=4".parse().unwrap();
        assert!(vmodule.shows_file("host/manager/src/store/mod.rs", Level::DEBUG));
        assert_eq!("".parse(), Ok(Vmodule::default()));
        for bad in ["run", "run=x", "=4", "run=4,b"] {
            assert!(bad.parse::<Vmodule>().is_err(), "{bad}");
        }
    }
}
