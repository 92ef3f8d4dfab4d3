use coxswain_sdk::Time;

use super::*;

fn at(text: &str) -> Time {
    Time::parse(text).unwrap()
}

/// The runs after a time, as local times would be too easy to get wrong: in UTC.
fn runs(schedule: &str, after: &str, count: usize) -> Vec<String> {
    let schedule = Schedule::parse(schedule).unwrap();
    let mut at = at(after);
    let mut runs = Vec::new();
    while runs.len() < count {
        let Some(next) = schedule.next(at) else { break };
        runs.push(next.to_string());
        at = next;
    }
    runs
}

#[test]
fn the_next_run_is_the_first_that_fits() {
    for (schedule, after, expected) in [
        ("* * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"),
        ("* * * * *", "2026-01-01T00:00:59.900Z", "2026-01-01T00:01:00Z"),
        ("* * * * *", "2025-12-31T23:59:30Z", "2026-01-01T00:00:00Z"),
        ("*/15 * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:15:00Z"),
        ("5/20 * * * *", "2026-01-01T00:06:00Z", "2026-01-01T00:25:00Z"),
        ("10-20/5 * * * *", "2026-01-01T00:16:00Z", "2026-01-01T00:20:00Z"),
        ("0,30,,45 * * * *", "2026-01-01T00:31:00Z", "2026-01-01T00:45:00Z"),
        ("0 22 * * 1-5", "2026-01-02T22:00:00Z", "2026-01-05T22:00:00Z"),
        ("0 22 * * MON-fri", "2026-01-02T22:00:00Z", "2026-01-05T22:00:00Z"),
        ("0 0 1 Jan,jul *", "2026-01-01T00:00:00Z", "2026-07-01T00:00:00Z"),
        ("0 0 31 * *", "2026-01-31T00:00:00Z", "2026-03-31T00:00:00Z"),
        ("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
        // A day of the month or of the week is enough, unless one is a star.
        ("0 0 13 * 5", "2026-01-10T00:00:00Z", "2026-01-13T00:00:00Z"),
        ("0 0 13 * 5", "2026-01-13T00:00:00Z", "2026-01-16T00:00:00Z"),
        ("0 0 13 * ?", "2026-01-13T00:00:00Z", "2026-02-13T00:00:00Z"),
        // A star with a step is no star.
        ("0 0 */10 * 5", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
        ("0 0 */1 * 5", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
        ("0 0 */1 * 5", "2026-01-02T00:00:00Z", "2026-01-09T00:00:00Z"),
        ("@yearly", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"),
        ("@annually", "2026-06-01T00:00:00Z", "2027-01-01T00:00:00Z"),
        ("@monthly", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"),
        ("@weekly", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"),
        ("@daily", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
        ("@midnight", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
        ("@hourly", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"),
        ("@every 1h30m", "2026-01-01T00:00:00.700Z", "2026-01-01T01:30:00Z"),
        ("@every 90.9s", "2026-01-01T00:00:00Z", "2026-01-01T00:01:30Z"),
        ("@every 10ms", "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"),
        ("@every -5m", "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"),
        ("TZ=America/New_York 0 6 * * *", "2026-01-01T00:00:00Z", "2026-01-01T11:00:00Z"),
        ("CRON_TZ=Asia/Kathmandu 0 6 * * *", "2026-01-01T00:15:00Z", "2026-01-02T00:15:00Z"),
        ("TZ=America/New_York   @daily", "2026-01-01T00:00:00Z", "2026-01-01T05:00:00Z"),
        ("TZ=Pacific/Kiritimati 0 0 1 1 *", "2025-12-31T00:00:00Z", "2025-12-31T10:00:00Z"),
        ("TZ=Pacific/Niue 59 23 31 12 *", "2026-01-01T00:00:00Z", "2026-01-01T10:59:00Z"),
    ] {
        assert_eq!(runs(schedule, after, 1), [expected], "{schedule} after {after}");
    }
}

#[test]
fn what_never_comes_has_no_next() {
    for schedule in ["59 23 31 2 *", "0 0 30 feb *", "0 0 31 4,6,9,11 ?", ", * * * *", "* , * * *"] {
        assert_eq!(runs(schedule, "2026-01-01T00:00:00Z", 1), [""; 0], "{schedule}");
    }
    // The nearest 29 February is eight years away; five are looked at.
    assert_eq!(runs("0 0 29 2 *", "2096-03-01T00:00:00Z", 1), [""; 0]);
    // Absurd times give none, and no panic.
    for schedule in ["* * * * *", "@every 2562047h", "TZ=Europe/Berlin 0 0 * * *"] {
        let schedule = Schedule::parse(schedule).unwrap();
        for unix in [i64::MIN, i64::MAX, i64::MAX - 60, -400_000 * 365 * 86_400] {
            let _ = schedule.next(Time::from_unix(unix));
        }
    }
    assert_eq!(Schedule::parse("* * * * *").unwrap().next(Time::from_unix(i64::MAX)), None);
}

#[test]
fn what_cannot_be_read_says_why() {
    for (schedule, why) in [
        ("", "empty spec string"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("* * * * * *", "expected exactly 5 fields, found 6: [* * * * * *]"),
        ("  ", "expected exactly 5 fields, found 0: []"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* 24 * * *", "end of range (24) above maximum (23): 24"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("* * * 13 *", "end of range (13) above maximum (12): 13"),
        ("* * * * 7", "end of range (7) above maximum (6): 7"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("x * * * *", r#"failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax"#),
        (
            "* * * * funday",
            r#"failed to parse int from funday: strconv.Atoi: parsing "funday": invalid syntax"#,
        ),
        ("-1 * * * *", r#"failed to parse int from : strconv.Atoi: parsing "": invalid syntax"#),
        ("*/-1 * * * *", "negative number (-1) not allowed: -1"),
        (
            "99999999999999999999 * * * *",
            r#"failed to parse int from 99999999999999999999: strconv.Atoi: parsing "99999999999999999999": value out of range"#,
        ),
        ("4294967296 * * * *", "end of range (4294967295) above maximum (59): 4294967296"),
        ("@fortnightly", "unrecognized descriptor: @fortnightly"),
        ("@every", "unrecognized descriptor: @every"),
        ("@every soon", r#"failed to parse duration soon: time: invalid duration "soon""#),
        ("@every 2562048h", r#"failed to parse duration 2562048h: time: invalid duration "2562048h""#),
        ("TZ=Mars/Olympus * * * * *", "provided bad location Mars/Olympus: unknown time zone Mars/Olympus"),
        ("TZ=UTC", "invalid schedule format: nothing follows the time zone"),
        ("CRON_TZ=", "invalid schedule format: nothing follows the time zone"),
        ("TZ=UTC ", "expected exactly 5 fields, found 0: []"),
        (" @hourly", "expected exactly 5 fields, found 1: [@hourly]"),
    ] {
        assert_eq!(Schedule::parse(schedule).unwrap_err(), why, "{schedule:?}");
    }
}

/// In spring 02:00 to 03:00 does not exist: on 29 March 2026 in Berlin.
#[test]
fn a_run_in_the_hour_that_spring_skips_is_the_next_days() {
    for (schedule, expected) in [
        ("30 2 * * *", ["2026-03-28T01:30:00Z", "2026-03-30T00:30:00Z"]),
        ("30 3 * * *", ["2026-03-28T02:30:00Z", "2026-03-29T01:30:00Z"]),
        ("30 1 * * *", ["2026-03-28T00:30:00Z", "2026-03-29T00:30:00Z"]),
    ] {
        let schedule = format!("TZ=Europe/Berlin {schedule}");
        assert_eq!(runs(&schedule, "2026-03-27T12:00:00Z", 2), expected, "{schedule}");
    }
    let hourly = runs("TZ=Europe/Berlin 0 * * * *", "2026-03-28T23:30:00Z", 3);
    assert_eq!(hourly, ["2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"]);
    // Where it is midnight that is skipped.
    let midnight = runs("TZ=Africa/Cairo 0 0 * * *", "2026-04-22T12:00:00Z", 3);
    assert_eq!(midnight, ["2026-04-22T22:00:00Z", "2026-04-24T21:00:00Z", "2026-04-25T21:00:00Z"]);
}

/// In autumn 02:00 to 03:00 comes twice: on 25 October 2026 in Berlin, at 00:00
/// and at 01:00 UTC.
#[test]
fn bug_121594_a_run_in_the_hour_that_autumn_repeats_takes_place_once() {
    for (schedule, expected) in [
        ("0 2 * * *", ["2026-10-25T00:00:00Z", "2026-10-26T01:00:00Z"].as_slice()),
        ("30 2 * * *", &["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]),
        ("30 1-3 * * *", &["2026-10-24T23:30:00Z", "2026-10-25T00:30:00Z", "2026-10-25T02:30:00Z"]),
        ("0 3 * * *", &["2026-10-25T02:00:00Z", "2026-10-26T02:00:00Z"]),
        ("0 */2 * * *", &["2026-10-24T22:00:00Z", "2026-10-25T00:00:00Z", "2026-10-25T03:00:00Z"]),
        (
            "*/30 2 * * *",
            &["2026-10-25T00:00:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:00:00Z", "2026-10-26T01:30:00Z"],
        ),
        // What runs in every hour goes by real time.
        (
            "0 * * * *",
            &[
                "2026-10-24T22:00:00Z",
                "2026-10-24T23:00:00Z",
                "2026-10-25T00:00:00Z",
                "2026-10-25T01:00:00Z",
                "2026-10-25T02:00:00Z",
            ],
        ),
        (
            "@hourly",
            &["2026-10-24T22:00:00Z", "2026-10-24T23:00:00Z", "2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z"],
        ),
    ] {
        let schedule = format!("TZ=Europe/Berlin {schedule}");
        assert_eq!(runs(&schedule, "2026-10-24T21:30:00Z", expected.len()), expected, "{schedule}");
    }
    // Also if the run before is looked for from within the repeated hour.
    for after in ["2026-10-25T00:31:00Z", "2026-10-25T01:15:00Z", "2026-10-25T01:30:00Z"] {
        assert_eq!(runs("TZ=Europe/Berlin 30 2 * * *", after, 1), ["2026-10-26T01:30:00Z"], "{after}");
    }
    // Half an hour on Lord Howe Island: 01:30 to 02:00 comes twice on 5 April.
    let howe = runs("TZ=Australia/Lord_Howe 45 1 * * *", "2026-04-04T00:00:00Z", 2);
    assert_eq!(howe, ["2026-04-04T14:45:00Z", "2026-04-05T15:15:00Z"]);
}

#[test]
fn the_run_that_is_due_is_the_latest_and_missed_ones_are_counted() {
    let run = |text: &str| Some(at(text));
    for (schedule, earliest, now, expected) in [
        ("0 * * * *", "2026-01-01T00:30:00Z", "2026-01-01T00:59:59Z", (None, Missed::None)),
        (
            "0 * * * *",
            "2026-01-01T00:30:00Z",
            "2026-01-01T01:00:00Z",
            (run("2026-01-01T01:00:00Z"), Missed::None),
        ),
        (
            "0 * * * *",
            "2026-01-01T00:30:00Z",
            "2026-01-01T01:59:00Z",
            (run("2026-01-01T01:00:00Z"), Missed::None),
        ),
        (
            "0 * * * *",
            "2026-01-01T00:30:00Z",
            "2026-01-01T05:30:00Z",
            (run("2026-01-01T05:00:00Z"), Missed::Few),
        ),
        (
            "* * * * *",
            "2026-01-01T00:00:00Z",
            "2026-01-01T01:40:59Z",
            (run("2026-01-01T01:40:00Z"), Missed::Few),
        ),
        (
            "* * * * *",
            "2026-01-01T00:00:00Z",
            "2026-01-01T01:41:00Z",
            (run("2026-01-01T01:41:00Z"), Missed::Many),
        ),
        (
            "* * * * *",
            "1970-01-01T00:00:00Z",
            "2026-01-01T01:41:00Z",
            (run("2026-01-01T01:41:00Z"), Missed::Many),
        ),
        (
            "0 0 * * *",
            "2020-01-01T00:00:00Z",
            "2026-01-01T01:41:00Z",
            (run("2026-01-01T00:00:00Z"), Missed::Many),
        ),
        // Every so often, counted from the start and not from now.
        (
            "@every 7m",
            "2026-01-01T00:00:30Z",
            "2026-01-01T01:00:00Z",
            (run("2026-01-01T00:56:30Z"), Missed::Few),
        ),
        (
            "@every 1s",
            "1970-01-01T00:00:00Z",
            "2026-01-01T01:00:00Z",
            (run("2026-01-01T01:00:00Z"), Missed::Many),
        ),
        // An uneven schedule: the estimate does not reach back to Friday's run.
        ("30 6-16/4 * * 1-5", "2026-01-02T06:00:00Z", "2026-01-04T12:00:00Z", (None, Missed::Few)),
        (
            "30 6-16/4 * * 1-5",
            "2026-01-02T06:00:00Z",
            "2026-01-05T06:31:00Z",
            (run("2026-01-05T06:30:00Z"), Missed::Few),
        ),
        ("0 0 1 1 *", "9999-01-01T00:00:00Z", "2026-01-01T00:00:00Z", (None, Missed::None)),
    ] {
        let overdue = overdue(&Schedule::parse(schedule).unwrap(), at(earliest), at(now)).unwrap();
        assert_eq!((overdue.run, overdue.missed), expected, "{schedule} since {earliest} at {now}");
    }
    let never = Schedule::parse("59 23 31 2 *").unwrap();
    let why = overdue(&never, at("2026-01-01T00:00:00Z"), at("2026-01-02T00:00:00Z")).unwrap_err();
    assert_eq!(why, "time difference between two schedules is less than 1 second");
}

#[test]
fn it_is_looked_at_again_just_after_the_next_run() {
    for (schedule, earliest, now, expected) in [
        ("0 * * * *", "2026-01-01T00:30:00Z", "2026-01-01T00:45:00Z", Some("2026-01-01T01:00:00.1Z")),
        ("0 * * * *", "2026-01-01T00:30:00Z", "2026-01-01T03:45:00Z", Some("2026-01-01T04:00:00.1Z")),
        ("@every 7m", "2026-01-01T00:00:30Z", "2026-01-01T01:00:00Z", Some("2026-01-01T01:03:30.1Z")),
        ("30 6-16/4 * * 1-5", "2026-01-02T06:00:00Z", "2026-01-04T12:00:00Z", Some("2026-01-05T06:30:00.1Z")),
        ("59 23 31 2 *", "2026-01-02T06:00:00Z", "2026-01-04T12:00:00Z", None),
    ] {
        let next = next_after_now(&Schedule::parse(schedule).unwrap(), at(earliest), at(now));
        assert_eq!(next, expected.map(at), "{schedule} since {earliest} at {now}");
    }
}

/// Random schedules around the days on which clocks are changed, compared with a
/// walk through every minute.
#[test]
fn the_next_run_is_what_a_walk_through_the_minutes_finds() {
    let mut seed: u64 = 121_594;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let changes = [
        ("Europe/Berlin", "2026-03-29T01:00:00Z"),
        ("Europe/Berlin", "2026-10-25T01:00:00Z"),
        ("America/New_York", "2026-11-01T06:00:00Z"),
        ("Australia/Lord_Howe", "2026-04-04T15:00:00Z"),
        ("Australia/Lord_Howe", "2026-10-03T15:30:00Z"),
        ("Africa/Cairo", "2026-04-23T22:00:00Z"),
        ("America/Santiago", "2026-04-05T03:00:00Z"),
        ("Africa/Casablanca", "2026-02-15T02:00:00Z"),
        ("Asia/Kathmandu", "2026-01-01T00:00:00Z"),
    ];
    for _ in 0..150 {
        let (name, change) = changes[random(changes.len() as u64) as usize];
        let zone = Zone::named(name).unwrap();
        let minute = ["*", "0", "30", "*/20", "5-50/15", "59"][random(6) as usize];
        let hour = ["*", "0", "1", "2", "3", "23", "*/2", "0-3", "1,2", "22-23"][random(10) as usize];
        let weekday = ["*", "0", "6", "1-5"][random(4) as usize];
        let text = format!("{minute} {hour} * * {weekday}");
        let schedule = Schedule::parse_in(&text, zone).unwrap();
        let Schedule::Local(fields, _) = &schedule else { panic!("{text}") };
        let from = at(change).unix() - 36 * 3600 + random(72 * 3600) as i64;
        let found = schedule.next(Time::from_unix(from)).map(Time::unix);

        let fits = |utc: i64| {
            let local = utc + i64::from(zone.offset(utc));
            let again = |back: i64| (utc - back) + i64::from(zone.offset(utc - back)) == local;
            let repeated = !fields.every_hour() && (again(3600) || again(1800));
            let (days, seconds) = (local.div_euclid(DAY), local.rem_euclid(DAY) as u32);
            fields.minutes.has(seconds / 60 % 60)
                && fields.hours.has(seconds / 3600)
                && fields.weekdays.has(crate::civil::weekday_of(days))
                && !repeated
        };
        let first_minute = (from + 60).div_euclid(60) * 60;
        let walked = (first_minute..from + 9 * DAY).step_by(60).find(|utc| fits(*utc));
        assert_eq!(found, walked, "{text} in {name} after {}", Time::from_unix(from));
    }
}
