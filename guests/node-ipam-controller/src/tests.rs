use crate::NodeIpamController;
use crate::cidr::Cidr;
use crate::memory::Memory;
use crate::range::{Range, Taken};
use crate::settings::Given;

#[test]
fn scenarios() {
    coxswain_sdk::testing::scenarios::<NodeIpamController>(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios"));
}

fn cidr(text: &str) -> Cidr {
    Cidr::parse(text).unwrap()
}

fn range(whole: &str, share: u32) -> Range {
    Range { whole: cidr(whole), share }
}

#[test]
fn blocks_are_read_and_written() {
    for (text, wanted) in [
        ("10.244.0.0/16", Some("10.244.0.0/16")),
        ("10.244.3.7/16", Some("10.244.0.0/16")),
        ("010.0.0.1/32", Some("10.0.0.1/32")),
        ("0.0.0.0/0", Some("0.0.0.0/0")),
        ("255.255.255.255/1", Some("128.0.0.0/1")),
        ("2001:db8:1234::/48", Some("2001:db8:1234::/48")),
        ("2001:DB8:1234:5::1/64", Some("2001:db8:1234:5::/64")),
        ("::/0", Some("::/0")),
        ("::1/128", Some("::1/128")),
        ("10.0.0.0", None),
        ("10.0.0.0/33", None),
        ("10.0.0.0/", None),
        ("10.0.0.0/+8", None),
        ("10.0.0/8", None),
        ("10.0.0.0.0/8", None),
        ("10.0.0.256/8", None),
        ("10.0..0/8", None),
        ("10.0.0.99999999999999999999/8", None),
        ("::/129", None),
        (":::/8", None),
        ("", None),
        ("/", None),
    ] {
        assert_eq!(Cidr::parse(text).map(|cidr| cidr.to_string()).as_deref(), wanted, "{text}");
    }
}

#[test]
fn shares_have_numbers() {
    for (range, shares, number, share) in [
        (range("10.244.0.0/16", 24), 256, 0, "10.244.0.0/24"),
        (range("10.244.0.0/16", 24), 256, 255, "10.244.255.0/24"),
        (range("10.244.0.0/16", 16), 1, 0, "10.244.0.0/16"),
        (range("10.244.0.0/16", 17), 2, 1, "10.244.128.0/17"),
        (range("10.0.0.0/8", 32), 1 << 24, 257, "10.0.1.1/32"),
        (range("0.0.0.0/0", 32), 1 << 32, 0xffff_ffff, "255.255.255.255/32"),
        (range("2001:db8:1234::/48", 64), 1 << 16, 0x8000, "2001:db8:1234:8000::/64"),
        (range("2001:db8::/60", 76), 1 << 16, 0xffff, "2001:db8:0:f:fff0::/76"),
        (range("2001:db8:1234:5::/64", 80), 1 << 16, 1, "2001:db8:1234:5:1::/80"),
        (range("::/0", 16), 1 << 16, 0x2001, "2001::/16"),
    ] {
        assert_eq!(range.shares(), shares, "{range:?}");
        assert_eq!(range.share(number).to_string(), share, "{range:?} {number}");
        assert_eq!(range.shares_of(&cidr(share)), Some((number, number)), "{range:?} {share}");
    }
}

#[test]
fn a_block_takes_every_share_that_it_touches() {
    let range = range("10.244.0.0/16", 24);
    for (block, wanted) in [
        ("10.244.1.0/24", Some((1, 1))),
        ("10.244.1.128/25", Some((1, 1))),
        ("10.244.1.7/32", Some((1, 1))),
        ("10.244.4.0/22", Some((4, 7))),
        ("10.244.0.0/16", Some((0, 255))),
        ("10.0.0.0/8", Some((0, 255))),
        ("10.245.0.0/24", None),
        ("10.243.255.0/24", None),
        ("::/0", None),
    ] {
        assert_eq!(range.shares_of(&cidr(block)), wanted, "{block}");
    }
}

#[test]
fn the_next_free_share_is_taken_and_the_end_is_followed_by_the_beginning() {
    let range = range("10.0.0.0/21", 24);
    let mut taken = Taken::new(vec![(2, 2), (3, 5), (0, 0), (2, 3)]);
    assert_eq!(taken.take(&range, 2), Some((6, 4)));
    assert_eq!(taken.take(&range, 7), Some((7, 0)));
    assert_eq!(taken.take(&range, 0), Some((1, 1)));
    for from in [0, 5, 7, 8, u64::MAX] {
        assert_eq!(taken.take(&range, from), None);
    }
    let mut nothing = Taken::default();
    assert_eq!(nothing.take(&range, 99), Some((0, 0)), "what was remembered of another range");
    let mut all = Taken::new(vec![(0, u64::MAX)]);
    assert_eq!(all.take(&range, 3), None);
}

#[test]
fn what_is_taken_is_counted() {
    for (a, b, shared) in [
        (vec![], vec![(0, 3)], 0),
        (vec![(0, 3)], vec![(0, 3)], 4),
        (vec![(0, 0), (1, 1), (5, 6)], vec![(1, 5)], 2),
        (vec![(2, 9)], vec![(0, 2), (4, 4), (8, 12)], 4),
        (vec![(0, 1)], vec![(2, 3)], 0),
        (vec![(7, 7)], vec![(0, u64::MAX)], 1),
    ] {
        let (a, b) = (Taken::new(a), Taken::new(b));
        assert_eq!(a.shared_with(&b), shared, "{a:?} {b:?}");
        assert_eq!(b.shared_with(&a), shared, "{b:?} {a:?}");
    }
    assert_eq!(Taken::new(vec![(0, 0), (1, 3), (2, 5), (9, 9)]).len(), 7);
    assert_eq!(Taken::new(vec![(0, u64::MAX)]).len(), u64::MAX);
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let given = |cluster, share, share_v4, share_v6| Given { cluster, share, share_v4, share_v6 };
    for (given, wanted) in [
        (given("10.244.0.0/16", 0, 0, 0), Ok(vec![24])),
        (given("10.244.0.0/16", 26, 0, 0), Ok(vec![26])),
        (given("10.244.0.0/16", 0, 25, 0), Ok(vec![25])),
        (given("10.244.0.0/16", 16, 0, 0), Ok(vec![16])),
        (given("fd00::/48", 0, 0, 0), Ok(vec![64])),
        (given("fd00::/56", 0, 0, 72), Ok(vec![72])),
        (given(" 10.244.0.0/16 , fd00::/48", 0, 0, 0), Ok(vec![24, 64])),
        (given("fd00::/48,10.244.0.0/16", 0, 26, 60), Ok(vec![60, 26])),
        (given("", 0, 0, 0), Err("no range")),
        (given("pods", 0, 0, 0), Err("no range")),
        (given("10.0.0.0/16,10.1.0.0/16", 0, 0, 0), Err("families")),
        (given("10.0.0.0/16,fd00::/48,10.1.0.0/16", 0, 0, 0), Err("no more than 2")),
        (given("10.0.0.0/16,fd00::/48", 24, 0, 0), Err("two ranges")),
        (given("10.0.0.0/16", 24, 25, 0), Err("along with")),
        (given("10.0.0.0/16", 0, 0, 64), Err("alone")),
        (given("fd00::/48", 0, 24, 0), Err("alone")),
        (given("10.0.0.0/16", 15, 0, 0), Err("no mask size")),
        (given("10.0.0.0/16", 33, 0, 0), Err("no mask size")),
        (given("10.0.0.0/16", -1, 0, 0), Err("no mask size")),
        (given("10.0.0.0/16", i64::MAX, 0, 0), Err("no mask size")),
        (given("fd00::/40", 0, 0, 0), Err("by 16 at most")),
    ] {
        let ranges = given.ranges();
        match (&ranges, wanted) {
            (Ok(ranges), Ok(sizes)) => {
                assert_eq!(ranges.iter().map(|range| range.share).collect::<Vec<_>>(), sizes, "{given:?}");
            }
            (Err(error), Err(part)) => assert!(error.contains(part), "{given:?}: {error}"),
            (ranges, _) => panic!("{given:?}: {ranges:?}"),
        }
    }
}

#[test]
fn memory_is_read_as_it_was_written() {
    let memory = Memory {
        next: [(0, 7), (1, u64::MAX)].into(),
        failed: [("a".to_owned(), 2)].into(),
        told: ["b".to_owned(), "c".to_owned()].into(),
        taken: [
            ("10.244.0.0/16:24".to_owned(), Taken::new(vec![(0, 3), (9, 9)])),
            ("fd00::/48:64".to_owned(), Taken::default()),
        ]
        .into(),
    };
    assert_eq!(Memory::read(&memory.write()), memory);
    assert_eq!(Memory::read("next 0\nnext x 1\nnext 0 -1\nfailed a often\ntold\n\n"), Memory::default());
}

#[test]
fn it_reads_the_shares_of_nodes_alone_so_no_heartbeat_wakes_it() {
    assert_eq!(coxswain_sdk::testing::reads::<NodeIpamController>(), ["nodes spec.podCIDRs"]);
}
