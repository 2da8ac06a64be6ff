//! The statistics of a few trials: their median, and how far they lie apart.

/// The median; of an even number of values the mean of the middle two. `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(&sorted(values), 0.5)
}

/// The mean; `None` without values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The standard deviation of all values there are, of their mean, in percent; `None` without
/// values, or where the mean is not above zero.
pub fn variation(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|mean| *mean > 0.0)?;
    let squares = values
        .iter()
        .map(|value| (value - mean).powi(2))
        .sum::<f64>();
    Some(100.0 * (squares / values.len() as f64).sqrt() / mean)
}

/// How far the middle half of the values lies apart, of the median, in percent: one trial that was
/// disturbed does not count against the others. `None` without values, or where the median is not
/// above zero.
pub fn spread(values: &[f64]) -> Option<f64> {
    let values = sorted(values);
    let median = quantile(&values, 0.5).filter(|median| *median > 0.0)?;
    let apart = quantile(&values, 0.75)? - quantile(&values, 0.25)?;
    Some(100.0 * apart / median)
}

/// The least and the greatest.
pub fn extremes(values: &[f64]) -> Option<(f64, f64)> {
    let least = values.iter().copied().reduce(f64::min)?;
    Some((least, values.iter().copied().reduce(f64::max)?))
}

/// The value below which three quarters of them lie.
pub fn upper_quartile(values: &[f64]) -> Option<f64> {
    quantile(&sorted(values), 0.75)
}

/// Between which of the values the true median lies with a probability of 95 % or more, by order
/// statistics; `None` of fewer than six, of which not even the least and the most enclose it so
/// surely.
pub fn range_of_median(values: &[f64]) -> Option<(f64, f64)> {
    let values = sorted(values);
    let n = values.len();
    if n < 6 {
        return None;
    }
    // The values at `out` places from both ends enclose it unless fewer than `out` + 1 of n fall on
    // one side: each falls there half of the time.
    let mut out = 0;
    let mut beyond = 0.5f64.powi(n.min(1000) as i32);
    let mut one = beyond;
    while out + 1 < n / 2 {
        one *= (n - out) as f64 / (out + 1) as f64;
        if 2.0 * (beyond + one) > 0.05 {
            break;
        }
        beyond += one;
        out += 1;
    }
    Some((*values.get(out)?, *values.get(n - 1 - out)?))
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The value below which this part of sorted values lies, in between two of them as much as it
/// falls between.
fn quantile(sorted: &[f64], part: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let at = part * last as f64;
    let below = sorted.get(at.floor() as usize)?;
    let above = sorted.get(at.ceil() as usize)?;
    Some(below + (above - below) * at.fract())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        for (values, expected) in [
            (&[][..], None),
            (&[3.0], Some(3.0)),
            (&[9.0, 1.0, 2.0], Some(2.0)),
            (&[4.0, 1.0, 2.0, 3.0], Some(2.5)),
            (&[f64::NAN, 5.0], Some(5.0)),
        ] {
            assert_eq!(median(values), expected, "{values:?}");
        }
    }

    #[test]
    fn means_and_how_far_values_lie_from_them() {
        assert_eq!((mean(&[]), variation(&[])), (None, None));
        assert_eq!(mean(&[1.0, 2.0, 6.0]), Some(3.0));
        // Of all values there are, not of a sample of more: 2 of 10.
        assert_eq!(variation(&[8.0, 12.0]), Some(20.0));
        assert_eq!(variation(&[0.0]), None);
    }

    #[test]
    fn few_values_do_not_enclose_the_median() {
        let upto = |n: usize| (1..=n).map(|v| v as f64).collect::<Vec<_>>();
        assert_eq!(range_of_median(&upto(5)), None);
        // Tables of the sign test: 6 to 8 values: the ends; 9 to 11: one in; 12: two in; 20: five
        // in.
        for (n, range) in [
            (6, (1.0, 6.0)),
            (8, (1.0, 8.0)),
            (9, (2.0, 8.0)),
            (11, (2.0, 10.0)),
            (12, (3.0, 10.0)),
            (20, (6.0, 15.0)),
        ] {
            assert_eq!(range_of_median(&upto(n)), Some(range), "{n}");
        }
    }

    #[test]
    fn one_disturbed_trial_of_five_is_no_spread() {
        assert_eq!(spread(&[100.0, 100.0, 100.0, 100.0, 900.0]), Some(0.0));
        assert_eq!(spread(&[80.0, 90.0, 100.0, 110.0, 120.0]), Some(20.0));
        assert_eq!(spread(&[7.0]), Some(0.0));
        assert_eq!(spread(&[0.0, 0.0]), None);
        assert_eq!(spread(&[]), None);
    }
}
