//! Plants each bug that only deaths bring to light, and looks for it.

fn main() {
    for &bug in dm_core::planted::Bug::RECOVERY {
        #[cfg(feature = "planted")]
        dm_core::planted::plant(Some(bug));
        match dm_sim::verify::crash::hunt(3000) {
            Some((runs, what)) => println!("{}: after {runs} runs: {}", bug.name(), what.replace('\n', " ")),
            None => println!("{}: NOT FOUND", bug.name()),
        }
    }
}
