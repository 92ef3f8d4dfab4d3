//! Buckets of histograms.

/// The buckets that client libraries of Prometheus give a histogram for which none are named, in seconds.
pub const DEFAULT: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// So many bounds, of which each is a multiple of the one before.
pub fn exponential(first: f64, factor: f64, count: usize) -> Vec<f64> {
    std::iter::successors(Some(first), |bound| Some(bound * factor)).take(count).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_bound_is_a_multiple_of_the_one_before() {
        assert_eq!(super::exponential(0.5, 2.0, 4), [0.5, 1.0, 2.0, 4.0]);
        assert!(super::exponential(1.0, 2.0, 0).is_empty());
    }
}
