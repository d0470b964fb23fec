//! What the documentation says is untried, and what a trial found of each.
//!
//! The texts are quoted from the files: when a file says something else, a test says which row of the table is out of date.

use super::document::{Document, Judged, Outcome, Step};
use std::fmt::Write as _;

/// What settles a statement.
enum By {
    /// All tasks whose names begin so, on a NIC.
    Tasks(&'static [&'static str]),
    /// The same, on any RDMA device.
    TasksOnAnyDevice(&'static [&'static str]),
    /// Nothing that a trial does: what does.
    Elsewhere(&'static str),
}

struct Statement {
    text: &'static str,
    file: &'static str,
    by: By,
}

const STATEMENTS: &[Statement] = &[
    Statement {
        text: "Nothing here has run on one",
        file: "README.md",
        by: By::Tasks(&["litmus", "rate", "device memory", "engine", "workloads", "any length"]),
    },
    Statement { text: "Soft-RoCE; no NIC tried", file: "README.md", by: By::Tasks(&["workloads"]) },
    Statement {
        text: "No index has run on a hardware NIC yet",
        file: "dm-core/README.md",
        by: By::Tasks(&["workloads"]),
    },
    Statement {
        text: "keys and values of any length, over each of them",
        file: "README.md",
        by: By::TasksOnAnyDevice(&["any length"]),
    },
    Statement {
        text: "how a NIC orders requests, nor how fast it is",
        file: "README.md",
        by: By::Tasks(&["litmus", "perftest", "engine"]),
    },
    Statement {
        text: "asserts what the indexes need beyond the InfiniBand",
        file: "README.md",
        by: By::Tasks(&["litmus"]),
    },
    Statement {
        text: "Masked atomics over verbs are written for mlx5 devices",
        file: "README.md",
        by: By::Tasks(&["masked atomics"]),
    },
    Statement {
        text: "HOST_BEFORE_DEVICE",
        file: "dm-host/src/fabric/verbs/profile.rs",
        by: By::Tasks(&["device memory"]),
    },
    Statement {
        text: "A NIC's driver comes on top",
        file: "tests/rxe/README.md",
        by: By::Tasks(&["perftest", "engine"]),
    },
    Statement {
        text: "None of this has run on a hardware NIC",
        file: "tools/README.md",
        by: By::Tasks(&["Sherman", "simulated"]),
    },
    Statement {
        text: "No verbs test has run on a hardware NIC",
        file: "tests/rxe/README.md",
        by: By::Elsewhere(
            "not part of a trial: cargo test -p dm-tests --features rdma-device --test conformance_verbs, and cargo test -p \
             dm-host --features rdma-device --test verbs_processes",
        ),
    },
];

/// What was found of each.
pub(super) fn judge(found: &Document) -> Vec<Judged> {
    let judged = |statement: &Statement| {
        let (settled, what) = statement.by.judge(found);
        Judged { statement: statement.text.to_owned(), file: statement.file.to_owned(), settled, found: what }
    };
    STATEMENTS.iter().map(judged).collect()
}

impl By {
    fn judge(&self, found: &Document) -> (bool, String) {
        let (names, on_any) = match self {
            Self::Tasks(names) => (*names, false),
            Self::TasksOnAnyDevice(names) => (*names, true),
            Self::Elsewhere(how) => return (false, (*how).to_owned()),
        };
        let Some(device) = &found.device else { return (false, "no RDMA device was reached".to_owned()) };
        let is_one = |step: &&Step| names.iter().any(|name| step.name.starts_with(name));
        let steps: Vec<&Step> = found.steps.iter().filter(is_one).collect();
        let of = |outcome| steps.iter().filter(move |step| step.outcome == outcome);
        let mut what = format!("on {}: {} of {} passed", device.name, of(Outcome::Ok).count(), steps.len());
        for step in steps.iter().filter(|step| step.outcome != Outcome::Ok) {
            let why = step.why.as_deref().unwrap_or_default();
            // Writing to a string does not fail.
            let _ = write!(what, "; {}: {}: {why}", step.name, step.outcome);
        }
        let is_nic = on_any || !device.is_software();
        if !is_nic {
            what.push_str("; it is a device in software, which says nothing about a NIC");
        }
        (is_nic && !steps.is_empty() && of(Outcome::Ok).count() == steps.len(), what)
    }
}

#[cfg(test)]
mod tests {
    use super::super::document::Device;
    use super::super::{Task, document};
    use super::*;
    use crate::report::machine::Machine;
    use std::path::Path;
    use std::time::Duration;

    #[test]
    fn every_statement_is_in_its_file_and_names_tasks_that_are_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let names: Vec<_> = Task::all().into_iter().map(|(task, _)| task.name()).collect();
        for Statement { text, file, by } in STATEMENTS {
            let page = std::fs::read_to_string(root.join(file)).unwrap();
            let page: Vec<_> = page.split_whitespace().collect();
            assert!(page.join(" ").contains(text), "{file} does not say any more: {text}");
            if let By::Tasks(tasks) | By::TasksOnAnyDevice(tasks) = by {
                for task in *tasks {
                    assert!(names.iter().any(|name| name.starts_with(task)), "{text}: no task {task}");
                }
            }
        }
    }

    fn document(device: Option<&str>, outcomes: &[(&str, Outcome)]) -> Document {
        let mut document = Document::new(Some("peer".to_owned()), Duration::from_secs(1), Machine::default());
        document.device = device.map(|driver| Device {
            name: "mlx5_0".to_owned(),
            driver: driver.to_owned(),
            rate: "100 Gb/sec".to_owned(),
        });
        let step = |&(name, outcome): &(&str, Outcome)| document::Step {
            name: name.to_owned(),
            commands: Vec::new(),
            seconds: 1.0,
            outcome,
            why: Some("because".to_owned()),
            said: String::new(),
        };
        document.steps = outcomes.iter().map(step).collect();
        document
    }

    #[test]
    fn what_did_not_run_or_ran_in_software_settles_nothing() {
        let by = By::Tasks(&["workloads"]);
        let (good, both) = (("workloads a", Outcome::Ok), ("workloads b", Outcome::NotTried));
        let judge = |device, outcomes: &[_]| by.judge(&document(device, outcomes));
        assert_eq!(judge(Some("mlx5_core"), &[good]), (true, "on mlx5_0: 1 of 1 passed".to_owned()));
        let (settled, what) = judge(Some("mlx5_core"), &[good, both]);
        assert!(!settled && what.contains("1 of 2 passed; workloads b: not tried: because"), "{what}");
        assert!(!judge(Some("rxe on eth0"), &[good]).0);
        assert!(!judge(None, &[good]).0 && !judge(Some("mlx5_core"), &[]).0);
        assert!(By::TasksOnAnyDevice(&["workloads"]).judge(&document(Some("rxe on eth0"), &[good])).0);
    }
}
