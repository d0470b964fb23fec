//! `dm trial`: everything that two RDMA hosts can tell of the engine, in one command and in bounded time.
//!
//! | file | what it is |
//! |---|---|
//! | this one | the command line, and the tasks in their order |
//! | [`child`] | a command run as a process of its own, which is ended when its time is over |
//! | [`peer`] | the other host: memory nodes, and the servers of perftest |
//! | [`bench`] | the tasks that are a `dm bench` |
//! | [`document`] | what was found: the content of the JSON |
//! | [`report`] | the report of it: Markdown, JSON, charts |
//! | [`statements`] | what the documentation says is untried, and what a trial found of each |
//!
//! **Every task is this program again, or one of perftest's.** A process can be ended when its time is over, and takes nothing
//! else with it when it crashes; each index is measured in a process of its own; what is reported is a command that a person
//! can repeat; and `dm doctor`, `dm litmus` and `dm bench` need to know nothing of a trial.
//!
//! **Time.** What is left of `--seconds` is shared among the tasks that are left, by weights. A task that takes longer than its
//! share takes it from those behind it, up to a bound; one for which nothing is left is reported as not tried. No task counts as
//! passed that did not run.

mod bench;
mod child;
mod document;
mod peer;
mod report;
mod statements;

use super::litmus::{Found, MASKED};
use crate::failure::{Failure, print};
use crate::figures;
use crate::pool::{Children, RdmaArguments, Start};
use crate::report::machine::Machine;
use crate::tool::seconds;
use child::Command;
use clap::builder::RangedU64ValueParser;
use dm_core::registry::KINDS;
use dm_core::remote::catalog::IndexKind;
use dm_host::fabric::devices;
use document::{Device, Document, Measure, Outcome, Step};
use peer::{PERFTEST, Perftest};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Arguments of `dm trial`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: on two RDMA hosts, of which the first has the address 10.0.0.1\n  \
                        (umask 077; head -c 32 /dev/urandom > secret)                 # copy it to the other host\n  \
                        dm trial --serve 10.0.0.1 --secret-file secret                # on the first\n  \
                        dm trial --peer 10.0.0.1 --secret-file secret --out trial     # on the second\n\n\
                        The second writes trial/trial.md, trial/trial.json and charts. Without --peer it tries shared memory. Exit code 1 \
                        if something that was tried failed.")]
pub(super) struct Arguments {
    /// The host that runs dm trial --serve; without it, shared memory of this machine
    #[arg(long, value_name = "HOST[:PORT]", conflicts_with = "serve")]
    peer: Option<String>,

    /// Be the other host, at this address of an RDMA device, until told to stop
    #[arg(long, value_name = "HOST[:PORT]")]
    serve: Option<String>,

    /// With --serve: accept every connection, without a secret
    #[arg(long, requires = "serve", conflicts_with = "secret_file")]
    insecure: bool,

    /// With --serve: size of the memory that is served, twice where the device has memory of its own
    #[arg(long, value_name = "SIZE", default_value = "1GiB", requires = "serve")]
    size: String,

    /// With --serve: the first of seven TCP ports for perftest; with --peer: that of the peer
    #[arg(long, value_name = "PORT", default_value_t = 18515)]
    perftest_port: u16,

    #[command(flatten)]
    rdma: RdmaArguments,

    /// How long all of it may take
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = seconds)]
    seconds: Duration,

    /// A look at each task: few records and operations
    #[arg(long)]
    short: bool,

    /// Most records that an index is loaded with
    #[arg(long, default_value_t = 1_000_000, value_parser = RangedU64ValueParser::<u64>::new().range(1000..=1 << 32))]
    records_max: u64,

    /// The simulated NIC to compare with [default: by the rate of the port]
    #[arg(long, value_name = "NAME|FILE.toml")]
    profile: Option<String>,

    /// Where the report goes
    #[arg(long, value_name = "DIRECTORY", default_value = "trial")]
    out: PathBuf,
}

/// What is tried, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    Doctor,
    Litmus,
    /// Read from what the litmus tests found.
    Masked,
    /// How fast inserts are, roughly: how many records the others load.
    Rate,
    DeviceMemory,
    Perftest(&'static Perftest),
    /// The engine beside perftest.
    Beside(&'static bench::Beside),
    Workloads(IndexKind),
    Items(IndexKind),
    /// A bar of [`figures::techniques`].
    Technique(usize),
    Simulated(IndexKind),
}

impl Task {
    /// All, and what share of the time each gets.
    fn all() -> Vec<(Self, u32)> {
        let mut all = vec![(Self::Doctor, 1), (Self::Litmus, 8), (Self::Masked, 0), (Self::Rate, 2)];
        all.extend(PERFTEST.iter().map(|test| (Self::Perftest(test), 2)));
        all.extend(bench::BESIDE.iter().map(|beside| (Self::Beside(beside), 3)));
        all.push((Self::DeviceMemory, 6));
        all.extend(KINDS.iter().map(|&kind| (Self::Workloads(kind), 16)));
        all.extend(KINDS.iter().map(|&kind| (Self::Items(kind), 4)));
        all.extend((0..figures::techniques().len()).map(|at| (Self::Technique(at), 3)));
        all.extend(KINDS.iter().map(|&kind| (Self::Simulated(kind), 4)));
        all
    }

    fn name(self) -> String {
        match self {
            Self::Doctor => "doctor".to_owned(),
            Self::Litmus => "litmus".to_owned(),
            Self::Masked => "masked atomics".to_owned(),
            Self::Rate => "rate of inserts".to_owned(),
            Self::DeviceMemory => "device memory".to_owned(),
            Self::Perftest(test) => format!("perftest {}", test.name),
            Self::Beside(beside) => format!("engine {}", beside.name),
            Self::Workloads(kind) => format!("workloads {}", kind.name()),
            Self::Items(kind) => format!("any length {}", kind.name()),
            Self::Technique(at) => {
                figures::techniques().get(at).map_or_else(String::new, |technique| technique.title.to_owned())
            }
            Self::Simulated(kind) => format!("simulated {}", kind.name()),
        }
    }
}

/// What came of a task that was tried: all is well, or why not.
type Tried = Result<(), String>;

/// A task's result before it is a [`Step`].
enum Taken {
    Tried(Tried),
    NotTried(String),
}

/// A trial under way.
struct Trial<'a> {
    arguments: &'a Arguments,
    began: Instant,
    /// How the pool is named to a command.
    pool: Vec<String>,
    /// The same of the pool whose locks are in host memory: of a peer, it is there if its device has memory.
    pool_without_device: Vec<String>,
    /// Files of the children.
    scratch: TempDir,
    /// The commands that the task under way has run.
    commands: Vec<String>,
    /// What they said.
    said: String,
    /// Share of the task under way.
    share: Duration,
    /// Most that the task under way may take.
    most: Duration,
    /// Inserts a second.
    rate: f64,
    /// Indexes that benches have made.
    indexes: u32,
    found: Document,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(address) = &arguments.serve {
        return peer::serve(arguments, address);
    }
    let failed = |error: std::io::Error| Failure::Run(format!("{}: {error}", arguments.out.display()));
    fs::create_dir_all(&arguments.out).map_err(failed)?;
    let scratch = tempfile::tempdir().map_err(|error| Failure::Run(format!("a directory for results: {error}")))?;
    // Lives until the trial is over.
    let mut own = None;
    let (pool, pool_without_device) = if let Some(peer) = &arguments.peer {
        let (first, second) = peer::addresses(peer)?;
        (peer::pool_of(&first, &arguments.rdma), peer::pool_of(&second, &arguments.rdma))
    } else {
        let start = |device_bytes| {
            let lines = "auto".to_owned();
            Children::start(&Start { memory_nodes: 1, region_bytes: 1 << 30, chunk_bytes: None, device_bytes, lines })
        };
        let (first, second) = own.insert((start(None)?, start(Some(0))?));
        let pool = |children: &Children| vec!["--pool".to_owned(), children.sockets()[0].display().to_string()];
        (pool(first), pool(second))
    };
    let found = Document::new(arguments.peer.clone(), arguments.seconds, Machine::detect());
    let mut trial = Trial {
        arguments,
        began: Instant::now(),
        pool,
        pool_without_device,
        scratch,
        commands: Vec::new(),
        said: String::new(),
        share: Duration::ZERO,
        most: Duration::ZERO,
        rate: 0.0,
        indexes: 0,
        found,
    };
    let mut left: u32 = Task::all().iter().map(|(_, weight)| weight).sum();
    for (task, weight) in Task::all() {
        trial.take(task, weight, left)?;
        left -= weight;
    }
    trial.found.took_s = trial.began.elapsed().as_secs_f64();
    trial.found.statements = statements::judge(&trial.found);
    trial.found.write(&arguments.out)?;
    print(&trial.found.summary(&arguments.out))?;
    let of = |outcome| trial.found.steps.iter().filter(move |step| step.outcome == outcome);
    let failed: Vec<_> = of(Outcome::Failed).map(|step| step.name.as_str()).collect();
    if !failed.is_empty() {
        return Err(Failure::Run(format!("of what was tried, this failed: {}", failed.join(", "))));
    }
    if of(Outcome::Ok).next().is_none() {
        return Err(Failure::Run("nothing was tried: the reasons are above".to_owned()));
    }
    Ok(())
}

/// Times that a test of perftest is begun.
const ATTEMPTS: u32 = 3;

/// A task is not begun when less is left.
const LEAST: Duration = Duration::from_millis(500);

/// A task may take so long, or twice its share if that is longer: a process has to start, and to connect.
const GRACE: Duration = Duration::from_secs(30);

impl Trial<'_> {
    /// Does one task, of so much weight among what is left, and notes what came of it.
    fn take(&mut self, task: Task, weight: u32, left: u32) -> Result<(), Failure> {
        let remaining = self.arguments.seconds.saturating_sub(self.began.elapsed());
        self.share = remaining.mul_f64(f64::from(weight) / f64::from(left.max(1)));
        self.most = remaining.min(GRACE.max(self.share * 2));
        self.commands.clear();
        self.said.clear();
        let began = Instant::now();
        let taken = match self.hindrance(task) {
            Some(why) => Taken::NotTried(why),
            None if weight > 0 && remaining < LEAST => {
                Taken::NotTried(format!("no time was left of --seconds {}", self.arguments.seconds.as_secs_f64()))
            }
            None => self.perform(task),
        };
        let (outcome, why) = match taken {
            Taken::Tried(Ok(())) => (Outcome::Ok, None),
            Taken::Tried(Err(why)) => (Outcome::Failed, Some(why)),
            Taken::NotTried(why) => (Outcome::NotTried, Some(why)),
        };
        let step = Step {
            name: task.name(),
            commands: std::mem::take(&mut self.commands),
            seconds: began.elapsed().as_secs_f64(),
            outcome,
            why,
            said: std::mem::take(&mut self.said),
        };
        print(&format!("{step}\n"))?;
        self.found.steps.push(step);
        Ok(())
    }

    /// Why a task cannot be tried here; `None`: it can.
    fn hindrance(&self, task: Task) -> Option<String> {
        let needs_device = matches!(
            task,
            Task::Doctor | Task::Masked | Task::DeviceMemory | Task::Perftest(_) | Task::Beside(_) | Task::Simulated(_)
        );
        if self.arguments.peer.is_none() && needs_device {
            return Some("no RDMA device: this is shared memory".to_owned());
        }
        let device = || self.found.device.as_ref().map_or("the device", |device| device.name.as_str());
        let litmus = self.found.litmus.as_ref();
        match task {
            Task::Masked if litmus.is_none() => Some("the litmus tests, of which it is one, did not end".to_owned()),
            Task::Masked if litmus.is_some_and(|found| !found.masked_atomics) => {
                Some(format!("{}, or the peer's device, has no masked atomics", device()))
            }
            Task::DeviceMemory if litmus.is_none_or(|found| found.device_bytes == 0) => {
                Some("the peer's device offers no device memory".to_owned())
            }
            Task::Technique(at)
                if litmus.is_none_or(|found| found.device_bytes == 0)
                    && figures::techniques().get(at).is_some_and(|technique| technique.adds_device_memory) =>
            {
                Some("the peer's device offers no device memory, which is what this adds".to_owned())
            }
            Task::Simulated(kind) if self.measured(&Task::Workloads(kind).name()).is_none() => {
                Some("the index was not measured, so there is nothing to compare with".to_owned())
            }
            _ => None,
        }
    }

    fn perform(&mut self, task: Task) -> Taken {
        match task {
            Task::Doctor => Taken::Tried(self.child(&Command::dm(&["doctor"])).map(drop)),
            Task::Litmus => Taken::Tried(self.litmus()),
            Task::Masked => Taken::Tried(self.masked()),
            Task::Rate => Taken::Tried(self.measure_rate()),
            Task::DeviceMemory => Taken::Tried(self.device_memory()),
            Task::Perftest(test) => self.perftest(test),
            Task::Beside(beside) => Taken::Tried(self.beside(beside)),
            Task::Workloads(kind) => Taken::Tried(self.workloads(kind)),
            Task::Items(kind) => Taken::Tried(self.items(kind)),
            Task::Technique(at) => Taken::Tried(self.technique(at)),
            Task::Simulated(kind) => Taken::Tried(self.simulated(kind)),
        }
    }

    /// Runs a command for the task under way. `Err`: it failed, and why.
    fn child(&mut self, command: &Command) -> Result<String, String> {
        self.commands.push(command.to_string());
        let ended = command.run(self.scratch.path(), self.most)?;
        self.said.push_str(&ended.out);
        self.said.push_str(&ended.err);
        ended.verdict().map(|()| ended.out)
    }

    /// Eight tests at most, in half of the share: two of them run on after their time.
    fn litmus(&mut self) -> Tried {
        let file = self.scratch.path().join("litmus.json");
        let longest = if self.arguments.short { 0.1 } else { 60.0 };
        let seconds = (self.share.as_secs_f64() / 16.0).clamp(0.05, longest);
        let mut command = Command::dm(&["litmus", "--seconds", &format!("{seconds:.2}"), "--json"]);
        command.arguments.push(file.display().to_string());
        command.arguments.extend(self.pool.iter().cloned());
        let ended = self.child(&command).map(drop);
        // Written also if something was refuted.
        if let Some(found) = child::json::<Found>(&file) {
            self.found.device = found.device.as_deref().map(Device::named);
            self.found.litmus = Some(found);
        }
        ended
    }

    fn masked(&self) -> Tried {
        let tests = self.found.litmus.iter().flat_map(|found| &found.tests);
        let test = tests.into_iter().find(|line| line.test == MASKED).ok_or("the litmus tests left it out")?;
        match (test.looks, test.refuted) {
            (0, _) => Err("none was executed".to_owned()),
            (_, 0) => Ok(()),
            (looks, refuted) => Err(format!("{refuted} of {looks} brought a word that nobody had left there")),
        }
    }

    fn perftest(&mut self, test: &'static Perftest) -> Taken {
        let Some(host) = self.arguments.peer.as_deref().map(peer::host_of) else {
            return Taken::NotTried("there is no peer".to_owned());
        };
        if !child::is_installed(test.program) {
            return Taken::NotTried(format!("{} is not installed here: `apt-get install perftest`", test.program));
        }
        let name = self.found.device.as_ref().map(|device| device.name.clone());
        let place = peer::Place::find(&devices::list(), name.as_deref(), None, &self.arguments.rdma);
        let Some(place) = place else {
            return Taken::NotTried("no active port of an RDMA device has an address".to_owned());
        };
        let mut command = test.command(&place, self.arguments.perftest_port);
        command.arguments.push(host.to_owned());
        let mut why = String::new();
        // A server that has just served the test before is started anew. And perftest now and then prints no number, on a busy
        // host whose clock it cannot measure.
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                std::thread::sleep(Duration::from_millis(500));
            }
            match self.child(&command) {
                Err(failed) => why = failed,
                Ok(said) => match test.read(&said) {
                    None => "it printed no result".clone_into(&mut why),
                    Some(value) => {
                        let (name, unit) = (test.name.to_owned(), test.unit.to_owned());
                        self.found.perftest.push(Measure { name, value, unit });
                        return Taken::Tried(Ok(()));
                    }
                },
            }
        }
        if self.said.contains("Couldn't connect") {
            return Taken::NotTried(format!("the peer does not serve {}: is perftest installed there?", test.program));
        }
        Taken::Tried(Err(why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_has_a_name_of_its_own_and_a_share() {
        let all = Task::all();
        let mut names: Vec<_> = all.iter().map(|(task, _)| task.name()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all.len());
        assert!(all.iter().all(|&(task, weight)| weight > 0 || task == Task::Masked));
        for kind in KINDS {
            assert!(names.contains(&format!("workloads {}", kind.name())), "every index is tried");
        }
    }
}
