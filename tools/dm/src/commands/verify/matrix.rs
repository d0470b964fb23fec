//! `dm verify --matrix`: tests which guarantees an index needs, and compares them with those that it declares.
//!
//! Each guarantee is withdrawn in turn, from a fabric that grants all that the index asks for: the fabric claims the
//! guarantee and breaks it. A guarantee whose withdrawal breaks the index has to be declared. A declared one whose
//! withdrawal broke nothing is listed: seeds do not prove that it is superfluous.

use super::planted::{Hunt, lasting_faults};
use crate::failure::{Failure, print};
use dm_core::verbs::Assumptions;
use dm_sim::verify::{Bounded, Settings, TreeKind, Verifier};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Seeds per guarantee.
const HISTORIES_DEFAULT: u64 = 2_000;

/// Guarantees that imply others: to withdraw an implied one, these must be withdrawn, too.
const IMPLIED_BY: &[(Assumptions, Assumptions)] = &[(Assumptions::WORD_ATOMIC, Assumptions::LINE_ATOMIC)];

pub(super) fn run<K: TreeKind>(
    kind: K,
    seed: u64,
    histories: Option<u64>,
    settings: &Settings,
    golden: Option<&Path>,
) -> Result<(), Failure> {
    let histories = histories.unwrap_or(HISTORIES_DEFAULT);
    let settings = Settings { faults: lasting_faults(), ..settings.clone() };
    let declared = declared(kind, &settings, seed, histories);
    let name = K::NAME;
    let mut table = format!(
        "{name}: what happens when a guarantee of the fabric is withdrawn, in up to {histories} histories each\n\
         faults besides: {}\n\n| guarantee | declared | withdrawn |\n|---|---|---|\n",
        settings.faults
    );
    let mut undeclared = Vec::new();
    for guarantee in Assumptions::all().iter() {
        let implied = IMPLIED_BY.iter().find(|(implied, _)| *implied == guarantee);
        let withdrawn = implied.map_or(guarantee, |(_, by)| guarantee | *by);
        let mut granting = Verifier::new(Bounded(kind), settings.clone());
        let caught =
            Hunt::new(Bounded(kind), Settings { withdrawn, ..settings.clone() })
                .hunt(seed, histories, |seed| Ok(granting.run(seed).findings.is_empty()))?;
        let count = declared.iter().filter(|needed| needed.contains(guarantee)).count() as u64;
        let says = match count {
            0 => "no",
            all if all == histories => "yes",
            _ => "in some cases",
        };
        let also = implied.map_or(String::new(), |(_, by)| {
            format!(" (with {} that it follows from)", by.names().collect::<Vec<_>>().join(", "))
        });
        let mut names = guarantee.names();
        let guarantee = names.next().unwrap_or_default();
        let effect = match (&caught, count) {
            (Some(_), _) => format!("breaks the index{also}"),
            (None, 0) => "breaks nothing".to_owned(),
            (None, _) => format!("declared, not seen to matter in {histories} histories{also}"),
        };
        let _ = writeln!(table, "| {guarantee} | {says} | {effect} |");
        if let Some(caught) = caught {
            print(&format!(
                "{guarantee}: seed {}, after {} histories: {}\n",
                caught.seed, caught.histories, caught.sentence
            ))?;
            if count == 0 {
                undeclared.push(guarantee);
            }
        }
    }
    print(&format!("\n{table}"))?;
    if !undeclared.is_empty() {
        return Err(Failure::Run(format!("needed, and not declared by {name}: {}", undeclared.join(", "))));
    }
    golden.map_or(Ok(()), |path| compare(path, &table))
}

/// What the index declares in the case of each seed.
fn declared<K: TreeKind>(kind: K, settings: &Settings, seed: u64, histories: u64) -> Vec<Assumptions> {
    let verifier = Verifier::new(Bounded(kind), settings.clone());
    (0..histories).map(|number| verifier.declared(seed.wrapping_add(number))).collect()
}

/// Compares with the golden file, or writes it if `DM_BLESS` is set.
fn compare(path: &Path, table: &str) -> Result<(), Failure> {
    let failed = |error| Failure::Run(format!("--golden {}: {error}", path.display()));
    if std::env::var_os("DM_BLESS").is_some() {
        return fs::write(path, table).map_err(failed);
    }
    let golden = fs::read_to_string(path).map_err(failed)?;
    let (mut kept, mut now) = (golden.lines(), table.lines());
    loop {
        match (kept.next(), now.next()) {
            (None, None) => return Ok(()),
            (one, other) if one == other => {}
            (one, other) => {
                let text = |line: Option<&str>| line.unwrap_or("(nothing)").to_owned();
                return Err(Failure::Run(format!(
                    "--golden {}: says \"{}\" where it is now \"{}\"; DM_BLESS=1 writes it anew",
                    path.display(),
                    text(one),
                    text(other)
                )));
            }
        }
    }
}
