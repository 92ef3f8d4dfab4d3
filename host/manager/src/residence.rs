//! How much of the process is in memory.
//!
//! Starting, compiling and reading whole collections touch code and memory that
//! the steady state does not need. What of it can be had again for a page fault
//! is let go of, now and then, as Go's scavenger does: pages of mapped code,
//! which stay in the page cache, and free pages of the heap.

use std::{ops::Range, time::Duration};

use crate::engine::Module;

/// From the start to the first time: caches are filled and controllers live.
const FIRST: Duration = Duration::from_secs(5);
const EVERY: Duration = Duration::from_secs(120);

/// Lets go now and then, for ever. `modules` says which are loaded.
pub async fn keep_small(modules: impl Fn() -> Vec<Module>) -> ! {
    tokio::time::sleep(FIRST).await;
    loop {
        let held = modules();
        // Walking the heap of a large cluster takes milliseconds.
        if let Err(error) = tokio::task::spawn_blocking(move || release(&held)).await {
            tracing::debug!(%error, "memory stays as it is");
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// Lets go of what is in memory without need.
///
/// `held` are modules whose code may go too: it cannot be unmapped meanwhile,
/// as anybody else's could, with something else in its place that is not to be
/// had again.
#[cfg(target_os = "linux")]
pub fn release(held: &[Module]) {
    let program = std::fs::read_link("/proc/self/exe").unwrap_or_default();
    // The last page of an image is mapped as a whole.
    let whole = |image: Range<usize>| image.start..image.end.next_multiple_of(rustix::param::page_size());
    let images: Vec<_> = held.iter().map(|module| whole(module.image())).collect();
    for mapping in Mapping::all(&std::fs::read_to_string("/proc/self/smaps").unwrap_or_default()) {
        let within =
            |image: &Range<usize>| image.start <= mapping.range.start && mapping.range.end <= image.end;
        let stays = std::path::Path::new(mapping.path) == program || images.iter().any(within);
        if stays && mapping.is_as_in_the_file() {
            mapping.let_go();
        }
    }
    trim_heap();
}

/// Other systems have no interface for it.
#[cfg(not(target_os = "linux"))]
pub fn release(_: &[Module]) {}

/// A mapping, as `/proc/self/smaps` has it (proc_pid_smaps(5)).
#[cfg(target_os = "linux")]
#[derive(Debug, PartialEq)]
struct Mapping<'a> {
    range: Range<usize>,
    permissions: &'a str,
    path: &'a str,
    /// KiB that this process has written to. Not what is called dirty there: that counts pages of files too which
    /// somebody has written and which are not on the disk yet.
    own: u64,
}

#[cfg(target_os = "linux")]
impl<'a> Mapping<'a> {
    fn all(smaps: &'a str) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for line in smaps.lines() {
            if let Some(mapping) = Self::head(line) {
                all.push(mapping);
            } else if let Some(last) = all.last_mut()
                && let Some(("Anonymous" | "Swap", amount)) = line.split_once(':')
            {
                let amount = amount.trim().strip_suffix(" kB").and_then(|kib| kib.parse().ok());
                last.own = last.own.saturating_add(amount.unwrap_or(u64::MAX));
            }
        }
        all
    }

    fn head(line: &'a str) -> Option<Self> {
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
        let (permissions, _inode) = (fields.next()?, fields.nth(2)?);
        let path = fields.next().unwrap_or_default();
        Some(Self { range: start..end, permissions, path: path.trim_start(), own: 0 })
    }

    /// Whether the file has all that the mapping has, now and later.
    fn is_as_in_the_file(&self) -> bool {
        matches!(self.permissions, "r--p" | "r-xp") && self.path.starts_with('/') && self.own == 0
    }

    #[allow(unsafe_code, reason = "the kernel is told of addresses")]
    fn let_go(&self) {
        let start = std::ptr::with_exposed_provenance_mut(self.range.start);
        // SAFETY: the mapping stays for as long as this function runs, nobody can write to it and nobody has, so
        // whatever page of it is dropped is read again from the same file.
        let done = unsafe { rustix::mm::madvise(start, self.range.len(), rustix::mm::Advice::LinuxDontNeed) };
        if let Err(error) = done {
            tracing::debug!(%error, mapping = ?self, "cannot let go of a mapping");
        }
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "a function of the C library")]
fn trim_heap() {
    // SAFETY: it has no preconditions, and only gives free pages back.
    unsafe { libc::malloc_trim(0) };
}

/// Other C libraries give memory back by themselves, or cannot be asked.
#[cfg(all(target_os = "linux", not(target_env = "gnu")))]
fn trim_heap() {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_as_in_the_file_is_let_go() {
        let smaps = "\
55d0a0000000-55d0a0100000 r--p 00000000 fe:00 1234                       /usr/bin/coxswain
Size:               1024 kB
Private_Dirty:       512 kB
Anonymous:             0 kB
55d0a0100000-55d0a0300000 r-xp 00100000 fe:00 1234                       /usr/bin/coxswain
Private_Dirty:         0 kB
Anonymous:             4 kB
VmFlags: rd ex mr mw me
55d0a0300000-55d0a0400000 rw-p 00300000 fe:00 1234                       /usr/bin/coxswain
Private_Dirty:         0 kB
7f0000000000-7f0000010000 r-xp 00000000 fe:00 99                         /var/cache/with space.cwasm
Private_Dirty:         0 kB
Swap:                  8 kB
7f0000010000-7f0000020000 r-xp 00000000 00:00 0
Private_Dirty:         0 kB
7ffd00000000-7ffd00001000 r-xp 00000000 00:00 0                          [vdso]
Anonymous:           odd
nonsense
";
        let found = Mapping::all(smaps);
        let paths: Vec<_> = found.iter().map(|m| (m.path, m.own, m.is_as_in_the_file())).collect();
        let expected = [
            ("/usr/bin/coxswain", 0, true),
            ("/usr/bin/coxswain", 4, false),
            ("/usr/bin/coxswain", 0, false),
            ("/var/cache/with space.cwasm", 8, false),
            ("", 0, false),
            ("[vdso]", u64::MAX, false),
        ];
        assert_eq!(paths, expected);
        assert_eq!(found[1].range, 0x55d0_a010_0000..0x55d0_a030_0000);
    }

    #[test]
    fn what_was_let_go_is_there_when_it_is_needed() {
        let resident = || -> u64 {
            let program = std::fs::read_link("/proc/self/exe").unwrap();
            let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
            let of_program = smaps.split("VmFlags").filter(|one| one.contains(program.to_str().unwrap()));
            let sizes = of_program.filter_map(|one| {
                one.split_once("\nRss:")?.1.split(" kB").next()?.trim().parse::<u64>().ok()
            });
            sizes.sum()
        };
        let before = resident();
        release(&[]);
        let after = resident();
        assert!(after < before, "{after} KiB resident, before {before}");
        assert_eq!("9".repeat(3).parse(), Ok(999));
    }
}
