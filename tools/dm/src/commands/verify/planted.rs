//! `dm verify --planted`: tests whether the judge finds mutants.

use crate::failure::{Failure, print};
use dm_core::mutants::{Mutant, Shows};
use dm_sim::verify::mixtures::mix;
use dm_sim::verify::{
    Bounded, FaultKind, Faults, Finding, Profile, Recovered, Settings, Subject, TreeKind, Verifier, WideOptions,
};
use std::fmt::Write as _;

/// Seeds within which a mutant has to be found.
const HISTORIES_DEFAULT: u64 = 2_000;

/// Scenarios of reused places for each history: they are as much shorter.
const SCENARIOS_PER_HISTORY: u64 = 5;

/// A history with a finding.
pub(super) struct Catch {
    pub(super) seed: u64,
    /// How many were run, this one included.
    pub(super) histories: u64,
    kind: &'static str,
    /// The sentence in which the finding ends.
    pub(super) sentence: String,
}

/// Looks for the first seed whose history has a finding.
pub(super) struct Hunt<S>(Verifier<S>);

impl<S: Subject> Hunt<S> {
    pub(super) fn new(subject: S, settings: Settings) -> Self {
        Self(Verifier::new(subject, settings))
    }

    /// Only seeds count that `is_clean` says are clean without the mutant.
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

/// Runs that are arranged for a mutant, so many at most: how many it took until the mutant showed, and how it did.
type Arranged<'a> = &'a dyn Fn(Mutant, u64) -> Result<Option<(u64, String)>, Failure>;

/// An index in which mutants are switched on.
struct IndexUnderTest<'a> {
    name: &'static str,
    mutants: Vec<Mutant>,
    /// For mutants that only deaths show: the number of runs until it shows, and how.
    deaths: Arranged<'a>,
    /// For mutants that scenarios of reused places show: likewise.
    reuse: Arranged<'a>,
    /// For mutants that mixtures of lines show: likewise.
    mixtures: &'a dyn Fn(Mutant) -> Option<Catch>,
    mixes: fn(Mutant) -> bool,
    /// For the others: the seed that shows it.
    histories: &'a dyn Fn(Mutant, Settings) -> Result<Option<Catch>, Failure>,
    /// The profile of histories for a mutant.
    profile_for: fn(Mutant) -> Option<Profile>,
    /// Mutants that are run and listed like the others, and do not fail the run if they are not found.
    unseen: &'static [Mutant],
}

/// Switches the mutants of an index on, one after the other.
pub(super) fn run<K: TreeKind>(
    kind: K,
    name: &str,
    seed: u64,
    histories: Option<u64>,
    settings: &Settings,
) -> Result<(), Failure> {
    let histories = histories.unwrap_or(HISTORIES_DEFAULT);
    let index = IndexUnderTest {
        name: K::NAME,
        mutants: K::mutants(),
        deaths: &|mutant, histories| {
            let fails_without = |run: &mut dyn FnMut() -> bool| without(mutant, run);
            let cases = K::crash_cases();
            let found = dm_sim::verify::crash::hunt(Recovered(kind), &cases, K::own_deaths, histories, &fails_without);
            if found.is_some() || !K::HAS_OWNERS {
                return Ok(found);
            }
            let caught = hunt_with(Recovered(kind), mutant, seed, histories, owners(settings))?;
            Ok(caught.map(|caught| (histories + caught.histories, caught.sentence)))
        },
        reuse: &|mutant, histories| Ok(hunt_reuse(kind, mutant, seed, SCENARIOS_PER_HISTORY * histories)),
        mixtures: &|mutant| hunt_mixtures::<K>(mutant, seed, histories),
        mixes: K::mixes,
        histories: &|mutant, settings| match mutant.shows() {
            _ if K::HAS_OWNERS => hunt_with(Recovered(kind), mutant, seed, histories, owners(&settings)),
            Shows::BrokenQueuePairs => hunt_with(Recovered(kind), mutant, seed, histories, settings),
            Shows::Wide => hunt_with(Recovered(kind), mutant, seed, histories, wide(&settings)),
            _ => hunt_with(Bounded(kind), mutant, seed, histories, settings),
        },
        profile_for: K::profile_for,
        unseen: K::unseen(),
    };
    plant_all(&index, name, histories, settings)
}

fn plant_all(index: &IndexUnderTest<'_>, name: &str, histories: u64, settings: &Settings) -> Result<(), Failure> {
    let mutants: Vec<Mutant> = match name {
        "all" => index.mutants.clone(),
        "expected" => index.mutants.iter().filter(|mutant| !index.unseen.contains(mutant)).copied().collect(),
        name => {
            vec![dm_core::rooms::mutant(name).filter(|mutant| index.mutants.contains(mutant)).ok_or_else(|| {
                let known: Vec<_> = index.mutants.iter().map(|mutant| mutant.name()).collect();
                let (name_of_index, known) = (index.name, known.join(", "));
                Failure::Usage(format!(
                    "--planted {name}: there is no such mutant in {name_of_index}; there are all, expected, {known}"
                ))
            })?]
        }
    };
    check_can_plant()?;
    let settings = Settings { faults: lasting_faults(), ..settings.clone() };
    let mut table = String::from(
        "| mutant | what is done wrong | histories about | shows as | seed | after histories |\n|---|---|---|---|---|---|\n",
    );
    let mut missed = Vec::new();
    for mutant in mutants {
        plant(Some(mutant));
        let arranged = match mutant.shows() {
            Shows::Deaths => Some(("deaths", index.deaths)),
            Shows::Reuse => Some(("reuse", index.reuse)),
            Shows::Anywhere | Shows::BrokenQueuePairs | Shows::Wide => None,
        };
        if let Some((about, hunt)) = arranged {
            let caught = hunt(mutant, histories)?;
            plant(None);
            let (shows, runs) = if let Some((runs, what)) = &caught {
                let sentence = what.trim_end().lines().last().unwrap_or_default();
                print(&format!("{}: caught after {runs} runs: {sentence}\n", mutant.name()))?;
                (about, runs.to_string())
            } else {
                print(&format!("{}: NOT FOUND\n", mutant.name()))?;
                if !index.unseen.contains(&mutant) {
                    missed.push(mutant.name());
                }
                ("not found", String::new())
            };
            let _ = writeln!(table, "| {} |{} | {about} | {shows} | | {runs} |", mutant.name(), mutant.what());
            continue;
        }
        let settings = Settings { profile: settings.profile.or((index.profile_for)(mutant)), ..settings.clone() };
        let mixes = (index.mixes)(mutant);
        let about = match mutant.shows() {
            _ if mixes => "mixtures of lines",
            Shows::Wide => "wide",
            _ => settings.profile.map_or("all", Profile::name),
        };
        let caught = if mixes { (index.mixtures)(mutant) } else { (index.histories)(mutant, settings)? };
        plant(None);
        if let Some(Catch { seed, histories, kind, sentence }) = caught {
            let _ =
                writeln!(table, "| {} |{} | {about} | {kind} | {seed} | {histories} |", mutant.name(), mutant.what());
            print(&format!("{}: caught by seed {seed}, after {histories} histories: {sentence}\n", mutant.name()))?;
        } else {
            let _ = writeln!(table, "| {} |{} | {about} | not found | | |", mutant.name(), mutant.what());
            print(&format!("{}: NOT FOUND in {histories} histories\n", mutant.name()))?;
            if !index.unseen.contains(&mutant) {
                missed.push(mutant.name());
            }
        }
    }
    print(&format!("\n{table}"))?;
    if missed.is_empty() { Ok(()) } else { Err(Failure::Run(format!("not found: {}", missed.join(", ")))) }
}

/// Searches for a mutant that is switched on already. A seed counts only if it is clean without the mutant.
fn hunt_with<S: Subject + Copy>(
    subject: S,
    mutant: Mutant,
    seed: u64,
    histories: u64,
    settings: Settings,
) -> Result<Option<Catch>, Failure> {
    let mut clean = Verifier::new(subject, settings.clone());
    Hunt::new(subject, settings)
        .hunt(seed, histories, |seed| Ok(without(mutant, || clean.run(seed).findings.is_empty())))
}

/// The same in mixtures of lines.
fn hunt_mixtures<K: TreeKind>(mutant: Mutant, from: u64, seeds: u64) -> Option<Catch> {
    for number in 0..seeds {
        let seed = from.wrapping_add(number);
        let case = K::mixed_case(seed)?;
        if let Some(sentence) = mix(&case, seed).finding
            && without(mutant, || mix(&case, seed).finding.is_none())
        {
            return Some(Catch { seed, histories: number + 1, kind: "violation", sentence });
        }
    }
    None
}

/// The same in scenarios of reused places.
fn hunt_reuse<K: TreeKind>(kind: K, mutant: Mutant, from: u64, scenarios: u64) -> Option<(u64, String)> {
    let end = from.wrapping_add(scenarios);
    let (mut next, mut runs) = (from, 0);
    loop {
        let played = dm_sim::verify::reuse::play(kind, next..end);
        runs += played.runs;
        let (seed, what) = played.finding?;
        next = seed.wrapping_add(1);
        let is_clean = || dm_sim::verify::reuse::play(kind, seed..next).finding.is_none();
        if without(mutant, is_clean) {
            return Some((runs, what));
        }
    }
}

/// Runs something without the mutant that is switched on.
fn without<R>(mutant: Mutant, run: impl FnOnce() -> R) -> R {
    plant(None);
    let done = run();
    plant(Some(mutant));
    done
}

/// Histories with the options of `settings`, or with all, whose compute nodes die.
fn wide(settings: &Settings) -> Settings {
    let faults = settings.faults.and(Faults::only(FaultKind::Crash));
    let wide = if settings.wide.is_empty() { WideOptions::ALL } else { settings.wide };
    Settings { wide, faults, ..settings.clone() }
}

/// The same where keys have owners, whose leases the clocks end: everything that compute nodes recover from.
fn owners(settings: &Settings) -> Settings {
    let faults =
        Faults::parse("drops,crash,qp-error,rpc-lost,rpc-repeated,stale-cache").expect("these are kinds of faults");
    Settings { faults, ..wide(settings) }
}

/// All faults that a lane can continue after. Deaths are left out: they end histories early.
pub(super) fn lasting_faults() -> Faults {
    Faults::parse("drops,qp-error,stale-cache").expect("these are kinds of faults")
}

/// The sentence in which a finding ends.
fn sentence(finding: &Finding) -> String {
    finding.to_string().trim_end().lines().last().unwrap_or_default().to_owned()
}

/// Only builds with the feature have mutants.
fn check_can_plant() -> Result<(), Failure> {
    if cfg!(feature = "planted") {
        return Ok(());
    }
    Err(Failure::Usage(
        "--planted needs a program built with the feature \"planted\": no other has mutants in it".to_owned(),
    ))
}

fn plant(mutant: Option<Mutant>) {
    #[cfg(feature = "planted")]
    dm_core::mutants::plant(mutant);
    #[cfg(not(feature = "planted"))]
    let _ = mutant;
}
