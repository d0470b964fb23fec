//! An axis of a chart: from values to places, with few ticks.

/// From values to places.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    low: f64,
    high: f64,
    logarithmic: bool,
    start: f64,
    length: f64,
}

impl Axis {
    /// An axis that has all values, and ends at a tick. Its length is negative if it goes up or to the left.
    pub fn of(values: impl Iterator<Item = f64> + Clone, logarithmic: bool, start: f64, length: f64) -> Self {
        let most = values.clone().fold(f64::MIN_POSITIVE, f64::max);
        let least = values.fold(most, f64::min);
        if logarithmic {
            let low = steps().filter(|step| *step <= least).last().unwrap_or(least);
            let high = steps().find(|step| *step >= most).unwrap_or(most);
            return Self { low, high, logarithmic, start, length };
        }
        let step = steps().find(|step| most / step <= 5.0).unwrap_or(most);
        Self { low: 0.0, high: (most / step).ceil() * step, logarithmic, start, length }
    }

    /// Where a value is.
    pub fn at(&self, value: f64) -> f64 {
        let place = |value: f64| if self.logarithmic { value.max(1e-9).log2() } else { value };
        let share = (place(value) - place(self.low)) / (place(self.high) - place(self.low));
        self.start + share * self.length
    }

    /// Where grid lines are: few, and one of them at 1 if the axis is logarithmic and has it.
    pub fn ticks(&self) -> Vec<f64> {
        if !self.logarithmic {
            let step = steps().find(|step| self.high / step <= 5.0).unwrap_or(self.high);
            return (0..=5).map(|count| f64::from(count) * step).filter(|tick| *tick <= self.high * 1.001).collect();
        }
        let ticks: Vec<f64> = steps().filter(|step| (self.low..=self.high).contains(step)).collect();
        let thin = ticks.len().div_ceil(7).max(1);
        let one = ticks.iter().position(|tick| (tick - 1.0).abs() < 1e-9).unwrap_or(0);
        ticks.into_iter().enumerate().filter(|(at, _)| at % thin == one % thin).map(|(_, tick)| tick).collect()
    }
}

/// 1, 2, 5, 10 and so on, and below.
fn steps() -> impl Iterator<Item = f64> {
    (-3..8).flat_map(|decade| [1.0, 2.0, 5.0].map(|step| step * 10_f64.powi(decade)))
}

/// A number as short as it can be.
pub fn plain(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A number with as many digits as a table needs.
pub fn number(value: f64) -> String {
    match value {
        value if value >= 1000.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_few_ticks_and_all_values() {
        for (values, logarithmic, ticks) in [
            (&[0.34, 9.03][..], false, &["0", "2", "4", "6", "8", "10"][..]),
            (&[0.81, 4.3], true, &["0.5", "1", "2", "5"]),
            (&[20.4, 304.7], true, &["20", "50", "100", "200", "500"]),
            (&[44.0], false, &["0", "10", "20", "30", "40", "50"]),
        ] {
            let axis = Axis::of(values.iter().copied(), logarithmic, 0.0, 400.0);
            assert_eq!(axis.ticks().into_iter().map(plain).collect::<Vec<_>>(), ticks);
            assert!(values.iter().all(|value| (0.0..=400.0).contains(&axis.at(*value))));
        }
        let wide = Axis::of([0.06, 7.31].into_iter(), true, 0.0, 400.0).ticks();
        assert!(wide.len() <= 7 && wide.contains(&1.0), "{wide:?}");
        // Upwards.
        let axis = Axis::of([10.0].into_iter(), false, 300.0, -200.0);
        assert!((axis.at(10.0) - 100.0).abs() < 1e-9 && (axis.at(0.0) - 300.0).abs() < 1e-9);
    }
}
