//! `dm verify --planted`: does the judge find bugs that are there?

use super::super::{Failure, print};
use dm_core::planted::Bug;
use dm_sim::verify::{Faults, Finding, ItemsSubject, Profile, Settings, ShermanSubject, Subject, Verifier};
use std::fmt::Write as _;

/// Seeds within which a bug has to be found.
const HISTORIES_DEFAULT: u64 = 2_000;

/// A history that is not clean.
pub(super) struct Catch {
    pub(super) seed: u64,
    /// How many were run, this one included.
    pub(super) histories: u64,
    kind: &'static str,
    /// What it says in the end.
    pub(super) sentence: String,
}

/// Looks for the first seed whose history is not clean.
pub(super) struct Hunt<S>(Verifier<S>);

impl<S: Subject> Hunt<S> {
    pub(super) fn new(subject: S, settings: Settings) -> Self {
        Self(Verifier::new(subject, settings))
    }

    /// Only seeds that `is_clean` says are clean otherwise count.
    pub(super) fn hunt(
        &mut self,
        from: u64,
        histories: u64,
        mut is_clean: impl FnMut(u64) -> Result<bool, Failure>,
    ) -> Result<Option<Catch>, Failure> {
        for number in 0..histories {
            let seed = from.wrapping_add(number);
            if let Some(first) = self.0.run(seed).findings.into_iter().next()
                && is_clean(seed)?
            {
                let (histories, kind) = (number + 1, first.kind());
                return Ok(Some(Catch { seed, histories, kind, sentence: sentence(&first) }));
            }
        }
        Ok(None)
    }
}

pub(super) fn run(name: &str, seed: u64, histories: Option<u64>, settings: &Settings) -> Result<(), Failure> {
    let bugs: Vec<Bug> = match name {
        "all" => Bug::ALL.to_vec(),
        name => vec![Bug::from_name(name).ok_or_else(|| {
            let known: Vec<_> = Bug::ALL.iter().map(|bug| bug.name()).collect();
            Failure::Usage(format!("--planted {name}: there is no such bug; there are all, {}", known.join(", ")))
        })?],
    };
    let histories = histories.unwrap_or(HISTORIES_DEFAULT);
    let settings = Settings { faults: lasting_faults(), ..settings.clone() };
    let mut table = String::from(
        "| bug | what is done wrong | histories about | shows as | seed | after histories |\n|---|---|---|---|---|---|\n",
    );
    let mut missed = Vec::new();
    for bug in bugs {
        plant(Some(bug))?;
        if Bug::RECOVERY.contains(&bug) {
            let caught = dm_sim::verify::crash::hunt(histories);
            plant(None)?;
            let (shows, runs) = if let Some((runs, what)) = &caught {
                print(&format!("{}: caught after {runs} runs: {what}\n", bug.name()))?;
                ("deaths", runs.to_string())
            } else {
                print(&format!("{}: NOT FOUND\n", bug.name()))?;
                missed.push(bug.name());
                ("not found", String::new())
            };
            let _ = writeln!(table, "| {} |{} | deaths | {shows} | | {runs} |", bug.name(), bug.what());
            continue;
        }
        let settings = Settings { profile: settings.profile.or(profile_for(bug)), ..settings.clone() };
        let about = settings.profile.map_or("all", Profile::name);
        let caught = if Bug::ITEMS.contains(&bug) {
            hunt(ItemsSubject, bug, seed, histories, &settings)?
        } else {
            hunt(ShermanSubject, bug, seed, histories, &settings)?
        };
        plant(None)?;
        if let Some(Catch { seed, histories, kind, sentence }) = caught {
            let _ = writeln!(table, "| {} |{} | {about} | {kind} | {seed} | {histories} |", bug.name(), bug.what());
            print(&format!("{}: caught by seed {seed}, after {histories} histories: {sentence}\n", bug.name()))?;
        } else {
            let _ = writeln!(table, "| {} |{} | {about} | not found | | |", bug.name(), bug.what());
            print(&format!("{}: NOT FOUND in {histories} histories\n", bug.name()))?;
            if !UNSEEN.contains(&bug) {
                missed.push(bug.name());
            }
        }
    }
    print(&format!("\n{table}"))?;
    if missed.is_empty() { Ok(()) } else { Err(Failure::Run(format!("not found: {}", missed.join(", ")))) }
}

/// Looks for the first seed that shows a bug, and nothing without it.
fn hunt<S: Subject + Copy>(
    subject: S,
    bug: Bug,
    seed: u64,
    histories: u64,
    settings: &Settings,
) -> Result<Option<Catch>, Failure> {
    let mut without = Verifier::new(subject, settings.clone());
    Hunt::new(subject, settings.clone()).hunt(seed, histories, |seed| {
        plant(None)?;
        let clean = without.run(seed).findings.is_empty();
        plant(Some(bug)).map(|()| clean)
    })
}

/// Bugs that no history has shown in so few seeds. They are run and listed like the others, as not found, and do not fail
/// the run.
///
/// - A wrong generation cannot be seen in an index that READs whole nodes: the fences in the image say where it is, whatever
///   pointer led there, and versions go on counting over a node's lives. Who READs parts of nodes would see it.
/// - A node torn under its lock needs an old pointer to a place in the very moment of its next life's first WRITE.
const UNSEEN: &[Bug] = &[Bug::TornIsResidue, Bug::SameGeneration];

/// What histories have to be about for a bug that needs many things to meet; any others would find it, too, after some
/// ten times as many seeds.
fn profile_for(bug: Bug) -> Option<Profile> {
    match bug {
        Bug::BookendVersions => Some(Profile::SlowReaders),
        Bug::SameGeneration | Bug::TornIsResidue => Some(Profile::Reuse),
        _ => None,
    }
}

/// Everything a lane may suffer and go on after. Deaths are left out: they end histories early.
pub(super) fn lasting_faults() -> Faults {
    Faults::parse("drops,qp-error,stale-cache").expect("these are kinds of faults")
}

/// What a finding says in the end.
fn sentence(finding: &Finding) -> String {
    finding.to_string().trim_end().lines().last().unwrap_or_default().to_owned()
}

#[cfg(feature = "planted")]
fn plant(bug: Option<Bug>) -> Result<(), Failure> {
    dm_core::planted::plant(bug);
    Ok(())
}

#[cfg(not(feature = "planted"))]
fn plant(_: Option<Bug>) -> Result<(), Failure> {
    Err(Failure::Usage(
        "--planted needs a program built with the feature \"planted\": no other has bugs in it".to_owned(),
    ))
}
