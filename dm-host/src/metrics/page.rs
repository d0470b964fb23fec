//! A page of metrics in Prometheus's text format.

use std::fmt::{self, Display, Write as _};

/// Labels of a sample, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Labels(String);

impl Labels {
    /// These labels and one more. Any text is a good value.
    #[must_use]
    pub(crate) fn with(&self, name: &str, value: impl Display) -> Self {
        let mut text = self.0.clone();
        let comma = if text.is_empty() { "" } else { "," };
        let value = value.to_string().replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        // Writing to a string does not fail.
        let _ = write!(text, "{comma}{name}=\"{value}\"");
        Self(text)
    }
}

impl Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, "{{{}}}", self.0) }
    }
}

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Never goes down while the process lives.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Observations, counted by upper bounds.
    Histogram,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

#[derive(Clone, Debug)]
struct Family {
    name: String,
    kind: Kind,
    help: String,
    /// A line for each sample.
    lines: String,
}

/// Metrics, each with its samples.
#[derive(Clone, Debug, Default)]
pub(crate) struct Page {
    families: Vec<Family>,
}

impl Page {
    /// Adds samples of one counter or gauge.
    pub(crate) fn put<V: Display>(
        &mut self,
        name: &str,
        kind: Kind,
        help: &str,
        samples: impl IntoIterator<Item = (Labels, V)>,
    ) {
        let lines = &mut self.family(name, kind, help).lines;
        for (labels, value) in samples {
            let _ = writeln!(lines, "{name}{labels} {value}");
        }
    }

    /// Adds a histogram: `buckets` have an upper bound and how many observations lie between it and the one below;
    /// `beyond` lie above the last.
    pub(crate) fn put_histogram(
        &mut self,
        name: &str,
        help: &str,
        labels: &Labels,
        buckets: impl IntoIterator<Item = (f64, u64)>,
        (beyond, sum): (u64, f64),
    ) {
        let lines = &mut self.family(name, Kind::Histogram, help).lines;
        let mut count = 0;
        for (bound, more) in buckets {
            count += more;
            let _ = writeln!(lines, "{name}_bucket{} {count}", labels.with("le", bound));
        }
        count += beyond;
        let _ = writeln!(lines, "{name}_bucket{} {count}", labels.with("le", "+Inf"));
        let _ = writeln!(lines, "{name}_sum{labels} {sum}\n{name}_count{labels} {count}");
    }

    /// Adds the samples of another page. Those of one metric must stand together.
    pub(crate) fn append(&mut self, other: &Self) {
        for Family { name, kind, help, lines } in &other.families {
            self.family(name, *kind, help).lines.push_str(lines);
        }
    }

    fn family(&mut self, name: &str, kind: Kind, help: &str) -> &mut Family {
        let at = self.families.iter().position(|family| family.name == name).unwrap_or_else(|| {
            let (name, help) = (name.to_owned(), help.to_owned());
            self.families.push(Family { name, kind, help, lines: String::new() });
            self.families.len() - 1
        });
        &mut self.families[at]
    }
}

impl Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Family { name, kind, help, lines } in &self.families {
            write!(f, "# HELP {name} {help}\n# TYPE {name} {}\n{lines}", kind.name())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_one_metric_stand_together_and_labels_are_escaped() {
        let mut page = Page::default();
        let of = |index: &str| Labels::default().with("pool", "p").with("index", index);
        page.put("dm_x_total", Kind::Counter, "Things.", [(of("a"), 3)]);
        page.put("dm_y", Kind::Gauge, "Others.", [(Labels::default(), 1.5)]);
        let mut other = Page::default();
        other.put("dm_x_total", Kind::Counter, "Things.", [(of("b\"\\\n"), 4)]);
        page.append(&other);
        assert_eq!(
            page.to_string(),
            "# HELP dm_x_total Things.\n# TYPE dm_x_total counter\ndm_x_total{pool=\"p\",index=\"a\"} 3\n\
             dm_x_total{pool=\"p\",index=\"b\\\"\\\\\\n\"} 4\n# HELP dm_y Others.\n# TYPE dm_y gauge\ndm_y 1.5\n"
        );
    }

    #[test]
    fn buckets_of_a_histogram_count_all_below_their_bound() {
        let mut page = Page::default();
        let labels = Labels::default().with("operation", "get");
        page.put_histogram("dm_s", "Time.", &labels, [(0.25, 2), (0.5, 3)], (1, 2.5));
        assert_eq!(
            page.to_string(),
            "# HELP dm_s Time.\n# TYPE dm_s histogram\ndm_s_bucket{operation=\"get\",le=\"0.25\"} 2\n\
             dm_s_bucket{operation=\"get\",le=\"0.5\"} 5\ndm_s_bucket{operation=\"get\",le=\"+Inf\"} 6\n\
             dm_s_sum{operation=\"get\"} 2.5\ndm_s_count{operation=\"get\"} 6\n"
        );
    }
}
