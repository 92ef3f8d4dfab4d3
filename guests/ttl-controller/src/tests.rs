use crate::TtlController;
use crate::sizes::ttl;

#[test]
fn scenarios() {
    coxswain_sdk::testing::scenarios::<TtlController>(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios"));
}

#[test]
fn the_larger_the_cluster_the_longer() {
    for (nodes, before, wanted) in [
        (0, None, 0),
        (1, Some(15), 0),
        (100, None, 0),
        (100, Some(0), 0),
        (101, Some(0), 15),
        (95, Some(15), 15),
        (90, Some(15), 15),
        (89, Some(15), 0),
        (95, Some(77), 0),
        (500, Some(15), 15),
        (501, Some(15), 30),
        (450, Some(30), 30),
        (449, Some(30), 15),
        (1001, Some(30), 60),
        (2000, Some(60), 60),
        (2001, Some(60), 300),
        (1800, Some(300), 300),
        (1799, Some(300), 60),
        (5000, None, 300),
        (5000, Some(-1), 300),
    ] {
        assert_eq!(ttl(nodes, before), wanted, "{nodes} nodes, told {before:?}");
    }
}

#[test]
fn it_reads_one_annotation_so_no_heartbeat_wakes_it() {
    let reads = [r#"nodes metadata.annotations."node.alpha.kubernetes.io/ttl""#];
    assert_eq!(coxswain_sdk::testing::reads::<TtlController>(), reads);
}
