//! Plants each bug that only deaths bring to light, or those whose names contain the argument, and looks for it.

fn main() {
    let filter = std::env::args().nth(1).unwrap_or_default();
    for &bug in dm_core::planted::Bug::RECOVERY.iter().filter(|bug| bug.name().contains(&filter)) {
        #[cfg(feature = "planted")]
        dm_core::planted::plant(Some(bug));
        match dm_sim::verify::crash::hunt(3000) {
            Some((runs, what)) => println!("{}: after {runs} runs: {}", bug.name(), what.replace('\n', " ")),
            None => println!("{}: NOT FOUND", bug.name()),
        }
    }
}
