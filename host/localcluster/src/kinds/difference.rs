//! How two texts differ, line by line, as the real server's library finds it.
//!
//! In: two lists of lines. Out: a unified diff with three lines around each change. Invariant: the same blocks are
//! taken for equal as by Python's `difflib`, which that library follows: the longest first, then what lies left and
//! right of it; lines that are everywhere in a long text begin no block.

use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Range;

const CONTEXT: usize = 3;
/// From so many lines on some are looked at as common.
const LONG: usize = 200;

/// Equal lines: where in the old text, where in the new one, how many.
type Block = (usize, usize, usize);

/// The difference of two texts, without names of files.
pub(super) fn unified(old: &str, new: &str) -> String {
    let (a, b): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let mut out = String::new();
    for group in groups(&blocks(&a, &b), a.len(), b.len()) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let (was, is) = (first.0.start..last.0.end, first.1.start..last.1.end);
        // Writing to a String cannot fail.
        let _ = writeln!(out, "@@ -{} +{} @@", shown(&was), shown(&is));
        for (was, is, equal) in group {
            if equal {
                a[was].iter().for_each(|line| out.extend([" ", line, "\n"]));
            } else {
                a[was].iter().for_each(|line| out.extend(["-", line, "\n"]));
                b[is].iter().for_each(|line| out.extend(["+", line, "\n"]));
            }
        }
    }
    out
}

fn shown(range: &Range<usize>) -> String {
    match range.len() {
        0 => format!("{},0", range.start),
        1 => (range.start + 1).to_string(),
        n => format!("{},{n}", range.start + 1),
    }
}

fn blocks(a: &[&str], b: &[&str]) -> Vec<Block> {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (j, line) in b.iter().enumerate() {
        places.entry(line).or_default().push(j);
    }
    if b.len() >= LONG {
        places.retain(|_, at| at.len() <= b.len() / 100 + 1);
    }
    let mut out = Vec::new();
    let mut waiting = vec![(0..a.len(), 0..b.len())];
    while let Some((left, right)) = waiting.pop() {
        let (i, j, size) = longest(a, b, &places, &left, &right);
        if size == 0 {
            continue;
        }
        waiting.push((left.start..i, right.start..j));
        waiting.push((i + size..left.end, j + size..right.end));
        out.push((i, j, size));
    }
    out.sort_unstable();
    out
}

/// The longest block within both ranges; the first one of several.
fn longest(
    a: &[&str],
    b: &[&str],
    places: &HashMap<&str, Vec<usize>>,
    left: &Range<usize>,
    right: &Range<usize>,
) -> Block {
    let (mut i, mut j, mut size) = (left.start, right.start, 0);
    // How long the block is that ends with the line before and each line of the new text.
    let mut lengths: HashMap<usize, usize> = HashMap::new();
    for at in left.clone() {
        let mut next = HashMap::new();
        for &other in places.get(a[at]).into_iter().flatten().filter(|j| right.contains(j)) {
            let length = other.checked_sub(1).and_then(|before| lengths.get(&before)).unwrap_or(&0) + 1;
            next.insert(other, length);
            if length > size {
                (i, j, size) = (at + 1 - length, other + 1 - length, length);
            }
        }
        lengths = next;
    }
    while i > left.start && j > right.start && a[i - 1] == b[j - 1] {
        (i, j, size) = (i - 1, j - 1, size + 1);
    }
    while i + size < left.end && j + size < right.end && a[i + size] == b[j + size] {
        size += 1;
    }
    (i, j, size)
}

/// A piece of both texts, and whether it is the same in them.
type Piece = (Range<usize>, Range<usize>, bool);

fn groups(blocks: &[Block], a: usize, b: usize) -> Vec<Vec<Piece>> {
    let mut pieces: Vec<Piece> = Vec::new();
    let (mut i, mut j) = (0, 0);
    for &(at, other, size) in blocks.iter().chain([&(a, b, 0)]) {
        if i < at || j < other {
            pieces.push((i..at, j..other, false));
        }
        match pieces.last_mut() {
            // Blocks that meet are one.
            Some((was, is, true)) if size > 0 => (was.end, is.end) = (at + size, other + size),
            _ if size > 0 => pieces.push((at..at + size, other..other + size, true)),
            _ => {}
        }
        (i, j) = (at + size, other + size);
    }
    let last = pieces.len().saturating_sub(1);
    let mut out: Vec<Vec<Piece>> = vec![Vec::new()];
    for (at, (was, is, equal)) in pieces.into_iter().enumerate() {
        let Some(group) = out.last_mut() else { break };
        if !equal {
            group.push((was, is, false));
            continue;
        }
        let size = was.len();
        let head = if at == 0 { 0 } else { size.min(CONTEXT) };
        let tail = if at == last { 0 } else { size.min(CONTEXT) };
        if at != 0 && at != last && size <= 2 * CONTEXT {
            group.push((was, is, true));
            continue;
        }
        if head > 0 {
            group.push((was.start..was.start + head, is.start..is.start + head, true));
        }
        let tail_piece = (was.end - tail..was.end, is.end - tail..is.end, true);
        if at == 0 {
            group.push(tail_piece);
        } else if at != last {
            out.push(vec![tail_piece]);
        }
    }
    out.retain(|group| group.iter().any(|(_, _, equal)| !equal));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_come_with_what_is_around_them() {
        let old = "{\n a\n b\n Host: {\n  Path\n  Type\n },\n Gluster: null,\n NFS: null,\n RBD\n Quo\n ISCSI\n more\n}";
        let new =
            "{\n a\n b\n Host: null,\n Gluster: null,\n NFS: {\n  Server\n },\n RBD\n Quo\n ISCSI\n more\n}";
        assert_eq!(
            unified(old, new),
            "@@ -1,12 +1,11 @@\n {\n  a\n  b\n- Host: {\n-  Path\n-  Type\n+ Host: null,\n+ Gluster: null,\n+ NFS: {\n+  Server\n  },\n- Gluster: null,\n- NFS: null,\n  RBD\n  Quo\n  ISCSI\n"
        );
        assert_eq!(unified("a\n", "a\n"), "");
        assert_eq!(unified("a", "b"), "@@ -1 +1 @@\n-a\n+b\n");
        assert_eq!(unified("", "b"), "@@ -0,0 +1 @@\n+b\n");
        let long: String = (0..20).map(|i| format!("{i}\n")).collect();
        let changed = long.replace("2\n", "x\n").replacen("17\n", "y\n", 1);
        assert_eq!(unified(&long, &changed).matches("@@ -").count(), 2);
    }
}
