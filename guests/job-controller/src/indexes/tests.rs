use super::*;

fn set(text: &str) -> Indexes {
    Indexes::parse(text, 100)
}

#[test]
fn texts_are_read_leniently_and_written_canonically() {
    for (text, completions, written, total) in [
        ("", 10, "", 0),
        ("0", 10, "0", 1),
        ("0,1", 10, "0,1", 2),
        ("0,1,2", 10, "0-2", 3),
        ("0-2", 10, "0-2", 3),
        ("1-2,4,6-9", 10, "1,2,4,6-9", 7),
        ("0-1,2-3", 10, "0-3", 4),
        // Bounds: what is out of range is dropped, also in part.
        ("0-9", 4, "0-3", 4),
        ("3,4,5", 4, "3", 1),
        ("7-9", 4, "", 0),
        ("0-9", 0, "", 0),
        ("0-99999999999", 2_147_483_647, "0-2147483646", 2_147_483_647),
        // What cannot be read is left out, the rest counts.
        ("x,2", 10, "2", 1),
        ("1-x,2", 10, "2", 1),
        ("5-3,2", 10, "2", 1),
        ("-5,2", 10, "2", 1),
        ("1-2-3,7", 10, "7", 1),
        ("99999999999999999999,7", 10, "7", 1),
        // Out of order and overlapping, as only somebody else would write it.
        ("7,3-5,4-6", 10, "3-7", 5),
    ] {
        let indexes = Indexes::parse(text, completions);
        assert_eq!(
            (indexes.to_string().as_str(), indexes.total()),
            (written, total),
            "{text:?} of {completions}"
        );
        assert_eq!(Indexes::parse(written, completions), indexes, "{written:?} of {completions}");
        assert_eq!(indexes.is_empty(), total == 0);
    }
}

#[test]
fn sets_are_joined_in_order() {
    for (a, b, joined) in [
        ("", "", ""),
        ("1", "", "1"),
        ("0-2", "3", "0-3"),
        ("0-2,5-7", "3,4", "0-7"),
        ("0,4", "2,6", "0,2,4,6"),
        ("3-9", "5", "3-9"),
        ("5", "3-9", "3-9"),
    ] {
        assert_eq!(set(a).union(&set(b)).to_string(), joined, "{a:?} and {b:?}");
        assert_eq!(set(b).union(&set(a)).to_string(), joined, "{b:?} and {a:?}");
    }
    assert_eq!([7, 3, 4, 3].into_iter().collect::<Indexes>().to_string(), "3,4,7");
}

#[test]
fn membership_is_found_by_halving() {
    let indexes = set("1-3,5,8-10");
    let found: Vec<i64> = (-1..13).filter(|index| indexes.has(*index)).collect();
    assert_eq!(found, [1, 2, 3, 5, 8, 9, 10]);
    assert!(!Indexes::default().has(0));
}

#[test]
fn common_indexes_are_counted() {
    for (a, b, common) in [
        ("", "1", 0),
        ("0-9", "3-5", 3),
        ("0-2,5-9", "2-6", 3),
        ("0,2,4", "1,3,5", 0),
        ("0-4", "0-4", 5),
        ("0,5-6", "4-9", 2),
    ] {
        assert_eq!(set(a).in_common(&set(b)), common, "{a:?} and {b:?}");
        assert_eq!(set(b).in_common(&set(a)), common, "{b:?} and {a:?}");
    }
}

#[test]
fn the_first_missing_are_those_between_and_after() {
    for (text, count, completions, missing) in [
        ("", 3, 5, vec![0, 1, 2]),
        ("", 9, 2, vec![0, 1]),
        ("0-4", 3, 5, vec![]),
        ("0,2,4", 2, 10, vec![1, 3]),
        ("0,2,4", 4, 10, vec![1, 3, 5, 6]),
        ("1-3", 9, 5, vec![0, 4]),
        ("7-9", 9, 3, vec![0, 1, 2]),
        ("0", 0, 5, vec![]),
    ] {
        assert_eq!(
            set(text).first_missing(count, completions),
            missing,
            "{text:?}, {count} below {completions}"
        );
    }
    // Cheap however many there are.
    assert_eq!(Indexes::parse("0-2147483645", i64::MAX).first_missing(1, 2_147_483_647), [2_147_483_646]);
}
