//! The page of what was found, and the list of mutants that change nothing that is promised.

use crate::Arguments;
use crate::hunt::{Fate, Known};
use crate::points::{Key, Kind, Point};
use crate::runs::Means;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

const EQUIVALENT: &str = "tools/mutate/equivalent.md";

/// An entry of the list: `### file function kind`, a line of code in backquotes, and the reason.
#[derive(Debug)]
pub struct Equivalent {
    file: String,
    function: String,
    kind: String,
    code: String,
    has_reason: bool,
}

impl Equivalent {
    /// Whether it speaks of this mutant: all points of a function that say the same.
    pub fn is(&self, key: &Key) -> bool {
        let named = (&*self.file, &*self.function, &*self.kind, &*self.code);
        self.has_reason && named == (&*key.file, &*key.function, key.kind.name(), &*key.code)
    }
}

/// Reads the list.
pub fn equivalent(root: &Path) -> io::Result<Vec<Equivalent>> {
    let text = fs::read_to_string(root.join(EQUIVALENT))?;
    let mut entries: Vec<Equivalent> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(head) = line.strip_prefix("### ") {
            let mut words = head.split(' ').map(str::to_owned);
            let mut word = || words.next().unwrap_or_default();
            let (file, function, kind) = (word(), word(), word());
            entries.push(Equivalent { file, function, kind, code: String::new(), has_reason: false });
        } else if let Some(entry) = entries.last_mut().filter(|_| !line.is_empty()) {
            if let Some(code) =
                line.strip_prefix('`').and_then(|line| line.strip_suffix('`')).filter(|_| entry.code.is_empty())
            {
                entry.code = code.to_owned();
            } else {
                entry.has_reason = true;
            }
        }
    }
    Ok(entries)
}

/// How many points came to what.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    points: usize,
    uncompiled: usize,
    chosen: usize,
    unreached: usize,
    tests: usize,
    histories: usize,
    enumeration: usize,
    hang: usize,
    equivalent: usize,
    survived: usize,
    untried: usize,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.points += other.points;
        self.uncompiled += other.uncompiled;
        self.chosen += other.chosen;
        self.unreached += other.unreached;
        self.tests += other.tests;
        self.histories += other.histories;
        self.enumeration += other.enumeration;
        self.hang += other.hang;
        self.equivalent += other.equivalent;
        self.survived += other.survived;
        self.untried += other.untried;
    }

    fn caught(&self) -> usize {
        self.tests + self.histories + self.enumeration
    }

    fn row(&self, name: &str) -> String {
        let Self {
            points,
            uncompiled,
            chosen,
            unreached,
            tests,
            histories,
            enumeration,
            hang,
            equivalent,
            survived,
            untried,
        } = self;
        let (caught, judged) = (self.caught(), self.caught() + survived);
        let part = (100 * caught).checked_div(judged).map_or_else(String::new, |part| format!("{part} %"));
        format!(
            "| {name} | {points} | {uncompiled} | {chosen} | {untried} | {unreached} | {tests} | {histories} | {enumeration} | \
             {hang} | {equivalent} | {survived} | {part} |\n"
        )
    }
}

const COLUMNS: &str = "| points | not compiled | chosen | not tried | not reached | caught by unit tests | by histories | by \
                       enumeration | of these, hang | equivalent | survived | caught of those tried |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";

/// Writes the page.
pub fn write(known: &Known, arguments: &Arguments, root: &Path) -> io::Result<()> {
    let equivalent = equivalent(root)?;
    let chosen: BTreeSet<u32> = known.chosen.iter().copied().collect();
    let mut files: BTreeMap<&str, Counts> = BTreeMap::new();
    let mut kinds: BTreeMap<Kind, Counts> = BTreeMap::new();
    let (mut sum, mut survivors, mut unreached) = (Counts::default(), Vec::new(), Vec::new());
    for point in known.built.points.iter().filter(|point| arguments.has(&point.key.file)) {
        let fate = known.fates.get(&point.key);
        let mut one = Counts { points: 1, ..Counts::default() };
        if known.built.dropped.contains(&point.number) {
            one.uncompiled = 1;
        } else if equivalent.iter().any(|entry| entry.is(&point.key)) {
            (one.equivalent, one.chosen) = (1, usize::from(chosen.contains(&point.number)));
        } else if chosen.contains(&point.number) {
            one.chosen = 1;
            if !known.reached.contains(&point.number) {
                one.unreached = 1;
                unreached.push(point);
            } else if let Some(fate) = fate {
                if let Some(caught) = &fate.caught {
                    *match caught.means {
                        Means::Tests => &mut one.tests,
                        Means::Histories => &mut one.histories,
                        Means::Enumeration => &mut one.enumeration,
                    } = 1;
                    one.hang = usize::from(caught.hangs);
                } else {
                    one.survived = 1;
                    survivors.push((point, fate));
                }
            } else {
                one.untried = 1;
            }
        }
        sum.add(&one);
        files.entry(&point.key.file).or_default().add(&one);
        kinds.entry(point.key.kind).or_default().add(&one);
    }
    let shortly = survivors.iter().filter(|(point, fate)| known.has_more(point.number, fate)).count();
    let mut page = head(known, arguments, &sum, shortly);
    let _ = write!(page, "| kind {COLUMNS}");
    for kind in Kind::ALL {
        page.push_str(&kinds.get(&kind).copied().unwrap_or_default().row(kind.name()));
    }
    page.push_str(&sum.row("all"));
    let _ = write!(page, "\n| room or file {COLUMNS}");
    let mut rooms: BTreeMap<&str, Counts> = BTreeMap::new();
    for (file, counts) in &files {
        rooms.entry(file.split('/').next().unwrap_or_default()).or_default().add(counts);
    }
    for (room, counts) in rooms {
        page.push_str(&counts.row(&format!("**{room}**")));
        for (file, counts) in files.iter().filter(|(file, _)| file.split('/').next() == Some(room)) {
            page.push_str(&counts.row(file));
        }
    }
    list(
        &mut page,
        "Survivors",
        "No run that reaches the point fails with these.",
        survivors.iter().map(|(point, fate)| (*point, Some(*fate))),
    );
    list(&mut page, "Not reached", "No run evaluates these points.", unreached.iter().map(|point| (*point, None)));
    fs::write(root.join(&arguments.page), page)?;
    println!(
        "{} of {} caught, {} equivalent, {} not reached; written: {}",
        sum.caught(),
        sum.caught() + sum.survived,
        sum.equivalent,
        sum.unreached,
        arguments.page
    );
    Ok(())
}

fn head(known: &Known, arguments: &Arguments, sum: &Counts, shortly: usize) -> String {
    let Arguments { percent, seed, only, index, page, .. } = arguments;
    let mut options = format!("--percent {percent} --seed {seed}");
    for (option, names) in [("only", only), ("index", index)].into_iter().filter(|(_, names)| !names.is_empty()) {
        let _ = write!(options, " --{option} {}", names.join(","));
    }
    if !only.is_empty() {
        let _ = write!(options, " --page {page}");
    }
    let (caught, tried) = (sum.caught(), sum.caught() + sum.survived);
    let all = tried + sum.unreached;
    let part = |of: usize| 100 * caught / of.max(1);
    let which = if *percent == 100 {
        "All points are tried.".to_owned()
    } else {
        format!("Of each file {percent} % of the points are tried, at least one, drawn by seed {seed}.")
    };
    format!(
        "# Mutants of dm-core's protocol files\n\n\
         `cargo run --release -p dm-mutate -- {options}` writes this page;\n\
         [tools/mutate/src/main.rs](../tools/mutate/src/main.rs) says how it works. It is of {}. {which}\n\n\
         **{caught} of {tried} mutants that are evaluated and not equivalent are caught: {} %.** With those that no run \
         evaluates, of {all}: {} %.\n\n\
         A mutant counts for what caught it first: short unit tests of dm-core, then {} random histories of each kind that \
         reaches it, then longer unit tests, more histories and enumerated deaths. Each of these runs passes on clean code. \
         {shortly} of the {} survivors were not yet tried with all of these: a run that is started again goes on with them. \
         Equivalent mutants, with reasons: [tools/mutate/equivalent.md](../tools/mutate/equivalent.md).\n\n",
        known.built.commit,
        part(tried),
        part(all),
        crate::runs::HISTORIES[0],
        sum.survived,
    )
}

fn list<'a>(page: &mut String, title: &str, about: &str, points: impl Iterator<Item = (&'a Point, Option<&'a Fate>)>) {
    let _ = write!(
        page,
        "\n# {title}\n\n{about}\n\n| number | file | line | function | mutant | code |\n|---|---|---|---|---|---|\n"
    );
    for (point, _) in points {
        let Key { file, function, kind, code, .. } = &point.key;
        let code: String = code.replace('|', "\\|").chars().take(160).collect();
        let _ =
            writeln!(page, "| {} | {file} | {} | {function} | {} | `{code}` |", point.number, point.line, kind.name());
    }
}
