use std::cmp::Ordering;

use serde_json::json;

use super::*;
use crate::read::FromJson;

fn quantity(text: &str) -> Quantity {
    Quantity::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// Text, canonical form, value, thousandths.
const CANONICAL: &[(&str, &str, i64, i64)] = &[
    ("0", "0", 0, 0),
    ("0Ki", "0", 0, 0),
    ("00", "0", 0, 0),
    ("+", "0", 0, 0),
    ("-", "0", 0, 0),
    (".", "0", 0, 0),
    ("1", "1", 1, 1000),
    ("1.", "1", 1, 1000),
    (".5", "500m", 1, 500),
    ("+1.5", "1500m", 2, 1500),
    ("1.500", "1500m", 2, 1500),
    ("1.080", "1080m", 2, 1080),
    ("0.001", "1m", 1, 1),
    ("100.035k", "100035", 100_035, 100_035_000),
    ("1000m", "1", 1, 1000),
    ("1080000000n", "1080m", 2, 1080),
    ("10800u", "10800u", 1, 11),
    ("3.001n", "4n", 1, 1),
    ("0.0000000001", "1n", 1, 1),
    ("1000", "1k", 1000, 1_000_000),
    ("1234000", "1234k", 1_234_000, 1_234_000_000),
    ("1024k", "1024k", 1_024_000, 1_024_000_000),
    ("1000M", "1G", 1_000_000_000, 1_000_000_000_000),
    ("1.G", "1G", 1_000_000_000, 1_000_000_000_000),
    ("0.001T", "1G", 1_000_000_000, 1_000_000_000_000),
    ("12E", "12E", i64::MAX, i64::MAX),
    ("1000E", "1e21", i64::MAX, i64::MAX),
    ("1Ki", "1Ki", 1024, 1_024_000),
    ("1024", "1024", 1024, 1_024_000),
    ("1024Ki", "1Mi", 1 << 20, 1_048_576_000),
    ("1025024Mi", "1001Gi", 1001 << 30, (1001 << 30) * 1000),
    ("1.5Gi", "1536Mi", 1536 << 20, (1536 << 20) * 1000),
    ("0.5Mi", "512Ki", 1 << 19, (1 << 19) * 1000),
    ("0.5Ki", "512", 512, 512_000),
    (".001Ki", "1024m", 2, 1024),
    (".000001Ki", "1024u", 1, 2),
    (".000000000001Ki", "2n", 1, 1),
    ("100.035Ki", "102435840m", 102_436, 102_435_840),
    ("9Ei", "9223372036854775807", i64::MAX, i64::MAX),
    ("9223372036854775807Ki", "9223372036854775807", i64::MAX, i64::MAX),
    ("1e3", "1e3", 1000, 1_000_000),
    ("1E6", "1e6", 1_000_000, 1_000_000_000),
    ("1.3E+6", "1300e3", 1_300_000, 1_300_000_000),
    ("1E-3", "1e-3", 1, 1),
    ("1000e-12", "1e-9", 1, 1),
    (".001e12", "1e9", 1_000_000_000, 1_000_000_000_000),
    ("5e0", "5", 5, 5000),
];

#[test]
fn texts_take_their_canonical_form() {
    for &(text, wanted, value, milli) in CANONICAL {
        let read = quantity(text);
        assert_eq!(read.to_string(), wanted, "{text}");
        assert_eq!((read.value(), read.milli_value()), (value, milli), "{text}");
        assert_eq!(quantity(wanted), read, "{text}");
        assert_eq!(quantity(wanted).to_string(), wanted, "the canonical form of {text}");
    }
}

#[test]
fn what_is_below_zero_mirrors_what_is_above() {
    for &(text, wanted, value, _) in CANONICAL.iter().filter(|(text, ..)| !text.starts_with(['+', '-'])) {
        let read = quantity(&format!("-{text}"));
        let wanted = if wanted == "0" { "0".to_owned() } else { format!("-{wanted}") };
        assert_eq!(read.to_string(), wanted, "-{text}");
        assert_eq!(-read, quantity(text));
        let mirrored = if value == i64::MAX { read.value() } else { -value };
        assert_eq!(read.value(), mirrored, "-{text}");
        assert_eq!(read.is_negative(), value != 0);
    }
}

#[test]
fn what_is_no_quantity_is_refused() {
    use ParseError::{Format, Suffix};
    for (text, why) in [
        ("", Format),
        (" 1", Format),
        ("1 ", Format),
        ("1.1.M", Format),
        ("1+1.0M", Format),
        ("0.1mi", Suffix),
        ("0.1am", Format),
        ("aoeu", Format),
        (".5i", Suffix),
        ("1i", Suffix),
        ("1e", Suffix),
        ("1Em", Suffix),
        ("1Ki5", Suffix),
        ("-3.01e-", Suffix),
        ("1K", Suffix),
        ("1e99999999999999999999", Suffix),
        ("٣", Format),
        ("--1", Suffix),
    ] {
        assert_eq!(Quantity::parse(text).err(), Some(why), "{text:?}");
    }
}

#[test]
fn numbers_are_compared_not_texts() {
    use Ordering::{Equal, Greater, Less};
    for (a, b, wanted) in [
        ("0", "0Ki", Equal),
        ("1", "1000m", Equal),
        ("1Ki", "1024", Equal),
        ("1e3", "1k", Equal),
        ("100m", "50m", Greater),
        ("10000T", "100Gi", Greater),
        ("-1", "1n", Less),
        ("-2", "-1k", Greater),
        ("-1001m", "-1", Less),
        ("0", "-1n", Greater),
        ("1e900000", "1E", Greater),
        ("-1e900000", "0", Less),
        ("9223372036854775807", "9223372036854775808", Less),
        ("123456789012345678901234567890123456", "123456789012345678901234567890123455", Greater),
    ] {
        let (left, right) = (quantity(a), quantity(b));
        assert_eq!(left.cmp(&right), wanted, "{a} {b}");
        assert_eq!(right.cmp(&left), wanted.reverse(), "{b} {a}");
        assert_eq!(left == right, wanted == Equal);
        assert_eq!(left.max(right) == left, wanted != Less, "{a} {b}");
        assert_eq!(left.min(right) == left, wanted != Greater, "{a} {b}");
    }
}

#[test]
fn sums_keep_the_family_of_what_is_not_zero() {
    for (a, b, sum, difference) in [
        ("0", "100m", "100m", "-100m"),
        ("0", "1Gi", "1Gi", "-1Gi"),
        ("1Gi", "0", "1Gi", "1Gi"),
        ("1Gi", "1Gi", "2Gi", "0"),
        ("1Gi", "1M", "1074741824", "1072741824"),
        ("1Gi", "1024k", "1049576Ki", "1047576Ki"),
        ("1M", "1Gi", "1074741824", "-1072741824"),
        ("1", "1m", "1001m", "999m"),
        ("100m", "900m", "1", "-800m"),
        ("1k", "1", "1001", "999"),
        ("1e3", "1", "1001", "999"),
        ("-5", "5", "0", "-10"),
        ("512", "512Ki", "524800", "-523776"),
        ("1n", "1E", "1000000000000000000000000001n", "-999999999999999999999999999n"),
    ] {
        let (left, right) = (quantity(a), quantity(b));
        assert_eq!((left + right).to_string(), sum, "{a} + {b}");
        assert_eq!((left - right).to_string(), difference, "{a} - {b}");
        assert_eq!(left + right - right, left, "{a} + {b} - {b}");
    }
    let all = ["1Gi", "512Mi", "0", "100"].map(quantity);
    assert_eq!(all.into_iter().sum::<Quantity>().to_string(), "1610612836");
}

#[test]
fn zero_takes_on_the_family_of_what_is_added() {
    let mut total = quantity("5") - quantity("5");
    total += quantity("3Mi");
    assert_eq!((total.to_string().as_str(), total.family()), ("3Mi", Family::Binary));
    total -= quantity("3Mi");
    assert!(total.is_zero() && !total.is_negative());
}

#[test]
fn multiples_are_exact_or_rounded_away_from_zero() {
    for (text, count, wanted) in [
        ("250m", 4, "1"),
        ("1Gi", 3, "3Gi"),
        ("1Gi", 0, "0"),
        ("-1", -5, "5"),
        ("9223372036854775807", 2, "18446744073709551614"),
        ("9223372036854775807", i64::MIN, "-85070591730234615856620279821087277056"),
    ] {
        let product = quantity(text).times(count);
        if wanted.len() < 36 {
            assert_eq!(product.to_string(), wanted, "{text} times {count}");
        } else {
            assert!(product <= quantity(wanted), "{text} times {count}: {product}");
        }
    }
}

#[test]
fn absurd_numbers_stay_numbers() {
    let many = "9".repeat(5000);
    let texts = [
        many.clone(),
        format!("0.{many}"),
        format!("{many}Ei"),
        format!("0.{many}Ei"),
        format!("{many}e{many}"),
    ];
    for text in &texts[..4] {
        assert!(quantity(text) > quantity("0"), "{}", &text[..8]);
        assert!(quantity(&format!("-{text}")) < quantity("0"));
    }
    assert_eq!(Quantity::parse(&texts[4]), Err(ParseError::Suffix));
    assert_eq!(quantity(&texts[1]).to_string(), "1");
    assert_eq!(quantity(&texts[3]).to_string(), "1Ei");
    assert_eq!(quantity(&texts[2]).value(), i64::MAX);
    let (vast, tiny) = (quantity("1e9223372036854775807"), quantity("1e-9223372036854775807"));
    assert_eq!(tiny.to_string(), "1e-9");
    assert_eq!((vast + tiny).cmp(&vast), Ordering::Greater);
    assert_eq!((vast - vast).to_string(), "0");
    assert_eq!(((vast.times(i64::MAX) + vast) - vast).value(), i64::MAX);
    assert_eq!((-vast).milli_value(), i64::MIN);
    let mut sum = quantity("999999999999999999999999999999999999");
    for _ in 0..1000 {
        sum = sum + sum;
    }
    assert_eq!(sum.value(), i64::MAX);
    assert!(!sum.to_string().is_empty());
}

#[test]
fn made_numbers_print_in_their_family() {
    for (made, wanted) in [
        (Quantity::new(1024, Family::Binary), "1Ki"),
        (Quantity::new(5, Family::Binary), "5"),
        (Quantity::new(1_000_000, Family::Exponent), "1e6"),
        (Quantity::from_milli(1_234_000, Family::Decimal), "1234"),
        (Quantity::from_milli(1_024_000, Family::Binary), "1Ki"),
        (Quantity::from_milli(1024, Family::Binary), "1024m"),
        (Quantity::new(i64::MIN, Family::Decimal), "-9223372036854775808"),
    ] {
        assert_eq!(made.to_string(), wanted);
    }
    assert_eq!(quantity("1500u").scaled_value(-6), 1500);
    assert_eq!(quantity("1500u").scaled_value(-5), 150);
    assert_eq!(quantity("15k").scaled_value(4), 2);
    assert_eq!(quantity("-15k").scaled_value(4), -2);
}

#[test]
fn json_holds_texts_and_may_hold_numbers() {
    for (read, wanted) in [
        (json!("1024Mi"), "1Gi"),
        (json!(" 1 "), "1"),
        (json!(2), "2"),
        (json!(-2), "-2"),
        (json!(u64::MAX), "18446744073709551615"),
        (json!(0.5), "500m"),
    ] {
        let quantity: Quantity = crate::from_json(&read.to_string()).unwrap();
        assert_eq!(serde_json::to_value(quantity).unwrap(), json!(wanted), "{read}");
    }
    for read in [json!("x"), json!(true), json!([]), json!({})] {
        assert!(crate::from_json::<Quantity>(&read.to_string()).is_err(), "{read}");
    }
}

#[test]
fn a_view_with_quantities_declares_their_paths() {
    #[derive(FromJson)]
    #[allow(dead_code, reason = "only the shape counts")]
    struct View {
        storage: Quantity,
        limits: std::collections::BTreeMap<String, Quantity>,
    }
    let paths = crate::paths::Fields::Paths(vec!["limits".to_owned(), "storage".to_owned()]);
    assert_eq!(crate::paths::fields_of::<View>(), paths);
}
