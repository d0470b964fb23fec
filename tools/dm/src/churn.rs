//! `dm churn`: is memory reused? A pool of its own is written over many times, at a steady number of records.
//!
//! Every step either updates a record, or deletes one and inserts another under a new random key. So leaves fill,
//! split, become empty and are merged all the time. Compute nodes leave and join now and then, so that others have to
//! collect their orphans.
//!
//! What counts is the *footprint*: the chunks that are granted. After the first turnovers it must not grow any more. At
//! the end every record is read and the tree is walked. Every place of every chunk must then be reached or collected.
//! An index whose memory is collected in extents is judged by its footprint alone.

use crate::failure::{Failure, print};
use crate::kinds;
use crate::pool::{Children, Start};
use crate::report::text::size;
use crate::tool::{LeaseArguments, with_tool};
use crate::workload::random::{Random, mix};
use dm_core::index::Index as _;
use dm_core::memory::chunks::{self, Tally};
use dm_core::operation::Census;
use dm_core::registry::KINDS;
use dm_core::remote::catalog::IndexKind;
use dm_core::verbs::NodeId;
use dm_host::compute_node::Membership;
use dm_host::fabric::shm::ShmOptions;
use dm_host::kinds::IndexParameters;
use dm_host::pool::Pool;
use dm_host::session::{Delete, Insert, Session, SessionOptions, Update};
use dm_host::solo::block_on;
use serde::Serialize;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// The index.
const INDEX: &str = "churn";

/// Bytes of a chunk: small, so that the footprint is measured finely.
const CHUNK_BYTES: u64 = 256 << 10;

/// Bytes of keys.
const KEY_BYTES: usize = 8;

/// Bytes of a pool besides its capacity: metadata, locks, redo records.
const BESIDE_BYTES: u64 = 16 << 20;

/// Turnovers at least: fewer have no part that is steady.
const TURNOVERS_MIN: u64 = 5;

/// The part of the turnovers before the footprint is taken for steady, in percent. By default a compute node has left
/// by then, and its chunks were collected.
const WARM_UP_PERCENT: u64 = 40;

/// How much larger than the steady one a footprint may become, in percent.
///
/// Chunks stay granted, so the footprint is the most that was ever needed at once. When a compute node leaves, others
/// need new chunks until they have collected its own, which takes them longer on a busy machine. Measured with SMART,
/// 8 MiB, 300 turnovers: 8.5 MiB if no compute node leaves; if one leaves after every tenth turnover, 7.5 to 8.5 MiB
/// after 60 turnovers, and 8.8 to 10.5 MiB at the end, in three runs. A room that loses one place in thirty that
/// it retires grows by more than this in the thirty turnovers behind the steady part.
const GROWTH_PERCENT_MAX: u64 = 150;

/// Arguments of `dm churn`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  dm churn --capacity-mib 16 --turnovers 50")]
pub struct Arguments {
    /// Capacity of the pool, in MiB
    #[arg(long, default_value_t = 16, value_name = "MIB")]
    capacity_mib: u64,

    /// Kind of the index: sherman, chime or smart
    #[arg(long, default_value = KINDS[0].name(), value_parser = kind)]
    index: IndexKind,

    /// How often its capacity is written, in bytes of records
    #[arg(long, default_value_t = 50)]
    turnovers: u64,

    /// Bytes of records there are all the time, in percent of the capacity
    #[arg(long, default_value_t = 30, value_name = "PERCENT")]
    fill: u64,

    /// Bytes of values
    #[arg(long, default_value_t = 248, value_name = "BYTES")]
    value_bytes: usize,

    /// Compute nodes, all in this process
    #[arg(long, default_value_t = 2)]
    sessions: usize,

    /// Threads of each
    #[arg(long, default_value_t = 2)]
    threads: usize,

    /// Turnovers after which a compute node leaves and joins anew; 0 = never
    #[arg(long, default_value_t = 10, value_name = "TURNOVERS")]
    rejoin: u64,

    #[command(flatten)]
    lease: LeaseArguments,

    /// Random stream
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn kind(name: &str) -> Result<IndexKind, String> {
    KINDS
        .iter()
        .copied()
        .find(|kind| kind.name() == name)
        .ok_or_else(|| format!("no index of that kind churns: {name}"))
}

/// Lease of the compute nodes. A compute node that joins again waits for it before it collects orphans. It is short,
/// since this command does not test what happens meanwhile.
const LEASE_MS: u64 = 500;

/// How long the last compute node may take to collect the orphans of the others.
const COLLECTED_WITHIN: Duration = Duration::from_secs(30);

#[derive(Debug, Serialize)]
struct Row {
    turnover: u64,
    seconds: f64,
    operations: u64,
    footprint_bytes: u64,
}

#[derive(Debug, Serialize)]
struct Report {
    capacity_bytes: u64,
    records: u64,
    record_bytes: usize,
    rows: Vec<Row>,
    steady_bytes: u64,
    largest_bytes: u64,
    live_bytes: u64,
    places: u64,
    places_reached: u64,
    places_back: u64,
    /// Of a radix tree: bytes collected in chunks of departed compute nodes, of as many chunks as are kept at a time.
    collected_bytes: u64,
}

/// A thread's records: key and version.
struct Client {
    random: Random,
    keys: Vec<(u64, u64)>,
    operations: u64,
}

fn value_of(key: u64, version: u64, value: &mut [u8]) {
    for (at, piece) in value.chunks_mut(8).enumerate() {
        let word = mix(key ^ mix(version) ^ at as u64).to_le_bytes();
        piece.copy_from_slice(&word[..piece.len()]);
    }
}

impl Client {
    fn insert(&mut self, session: &Session, value: &mut [u8]) -> Result<(), Failure> {
        let key = self.random.next_u64();
        value_of(key, 0, value);
        self.operations += 1;
        match session.insert(&key.to_be_bytes(), value).wait().map_err(Failure::run)? {
            Insert::Inserted => self.keys.push((key, 0)),
            // Another thread has this key, by chance. This thread continues with one record fewer.
            Insert::Exists(_) => {}
        }
        Ok(())
    }

    /// Writes `bytes` bytes of records.
    fn churn(&mut self, session: &Session, bytes: u64, value: &mut [u8]) -> Result<(), Failure> {
        let record_bytes = (KEY_BYTES + value.len()) as u64;
        for _ in 0..bytes.div_ceil(record_bytes) {
            let at = self.random.below(self.keys.len().max(1) as u64) as usize;
            let Some(&(key, version)) = self.keys.get(at) else {
                self.insert(session, value)?;
                continue;
            };
            self.operations += 1;
            if self.random.below(2) == 0 {
                value_of(key, version + 1, value);
                let updated = session.update(&key.to_be_bytes(), value).wait().map_err(Failure::run)?;
                if updated != Update::Updated {
                    return Err(Failure::Run(format!("key {key:#x} was inserted, and an update says {updated:?}")));
                }
                self.keys[at].1 += 1;
            } else {
                let deleted = session.delete(&key.to_be_bytes()).wait().map_err(Failure::run)?;
                if deleted != Delete::Deleted {
                    return Err(Failure::Run(format!("key {key:#x} was inserted, and a delete says {deleted:?}")));
                }
                self.keys.swap_remove(at);
                self.insert(session, value)?;
            }
        }
        Ok(())
    }

    fn read_back(&self, session: &Session, value: &mut [u8]) -> Result<(), Failure> {
        for &(key, version) in &self.keys {
            value_of(key, version, value);
            let found = session.get(&key.to_be_bytes()).wait().map_err(Failure::run)?;
            if found.as_deref() != Some(&*value) {
                return Err(Failure::Run(format!("key {key:#x} does not have the value of its version {version}")));
            }
        }
        Ok(())
    }
}

/// What a client does in a session, with room for a value.
type Work<'w> = &'w (dyn Fn(&mut Client, &Session, &mut [u8]) -> Result<(), Failure> + Sync);

/// Runs it.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let capacity_bytes = arguments.capacity_mib << 20;
    for (name, value, min, max) in [
        ("capacity-mib", arguments.capacity_mib, 1, 1 << 20),
        ("turnovers", arguments.turnovers, TURNOVERS_MIN, 1 << 20),
        ("fill", arguments.fill, 1, 60),
        ("sessions", arguments.sessions as u64, 1, 64),
        ("threads", arguments.threads as u64, 1, 64),
    ] {
        if !(min..=max).contains(&value) {
            return Err(Failure::Usage(format!("--{name} {value}: from {min} to {max}")));
        }
    }
    let terms = arguments.lease.terms_or(LEASE_MS)?;
    let parameters = IndexParameters::with_sizes(arguments.index, KEY_BYTES, arguments.value_bytes)
        .and_then(|parameters| parameters.check().map(|()| parameters))
        .map_err(|error| Failure::Usage(format!("--value-bytes {}: {error}", arguments.value_bytes)))?;
    let start = Start {
        memory_nodes: 1,
        region_bytes: capacity_bytes + BESIDE_BYTES,
        chunk_bytes: Some(CHUNK_BYTES),
        device_bytes: None,
        lines: "auto".to_owned(),
    };
    let children = Children::start(&start)?;
    let pool = Arc::new(Pool::connect(children.sockets(), ShmOptions::default()).map_err(Failure::run)?);
    let mut options = SessionOptions {
        lanes_per_worker: arguments.threads,
        local_handles: 0,
        forward: false,
        ..SessionOptions::default()
    };
    options.spending.cache_bytes = 4 << 20;
    options.membership = Membership { terms, ..Membership::default() };
    let open = || Session::open_or_create(&pool, INDEX, parameters, &options).map_err(Failure::run);

    let record_bytes = KEY_BYTES + arguments.value_bytes;
    let clients = arguments.sessions * arguments.threads;
    let each = (capacity_bytes * arguments.fill / 100).div_ceil((record_bytes * clients) as u64);
    let mut sessions = (0..arguments.sessions).map(|_| open()).collect::<Result<Vec<_>, _>>()?;
    let mut clients: Vec<Client> = (0..clients as u64)
        .map(|number| Client { random: Random::stream(arguments.seed, number), keys: Vec::new(), operations: 0 })
        .collect();
    let value_bytes = arguments.value_bytes;
    let all = |sessions: &[Session], clients: &mut [Client], work: Work<'_>| {
        thread::scope(|scope| {
            let run = |(client, session)| scope.spawn(move || work(client, session, &mut vec![0; value_bytes]));
            let turns = (0..).map(|at| &sessions[at % sessions.len()]);
            let running: Vec<_> = clients.iter_mut().zip(turns).map(run).collect();
            running
                .into_iter()
                .try_for_each(|thread| thread.join().map_err(|_| Failure::Run("a thread panicked".to_owned()))?)
        })
    };
    all(&sessions, &mut clients, &|client, session, value| (0..each).try_for_each(|_| client.insert(session, value)))?;

    let began = Instant::now();
    let mut rows = Vec::new();
    for turnover in 0..=arguments.turnovers {
        if turnover > 0 {
            let bytes = capacity_bytes / clients.len() as u64;
            all(&sessions, &mut clients, &|client, session, value| client.churn(session, bytes, value))?;
        }
        let row = Row {
            turnover,
            seconds: began.elapsed().as_secs_f64(),
            operations: clients.iter().map(|client| client.operations).sum(),
            footprint_bytes: footprint(&pool)?,
        };
        if !arguments.json {
            print(&format!(
                "turnover {turnover}: {:.1} s, {} operations, footprint {}\n",
                row.seconds,
                row.operations,
                size(row.footprint_bytes)
            ))?;
        }
        rows.push(row);
        if arguments.rejoin > 0 && turnover > 0 && turnover.is_multiple_of(arguments.rejoin) {
            let at = (turnover / arguments.rejoin) as usize % sessions.len();
            drop(sessions.swap_remove(at));
            sessions.push(open()?);
        }
    }
    all(&sessions, &mut clients, &|client, session, value| client.read_back(session, value))?;
    drop(sessions);

    let mut report = Report {
        capacity_bytes,
        records: clients.iter().map(|client| client.keys.len() as u64).sum(),
        record_bytes,
        steady_bytes: 0,
        largest_bytes: 0,
        live_bytes: 0,
        places: 0,
        places_reached: 0,
        places_back: 0,
        collected_bytes: 0,
        rows,
    };
    let (before, after) = report.rows.split_at((arguments.turnovers * WARM_UP_PERCENT / 100) as usize + 1);
    let largest = |rows: &[Row]| rows.iter().map(|row| row.footprint_bytes).max().unwrap_or(0);
    (report.steady_bytes, report.largest_bytes) = (largest(before), largest(after));
    judge(&pool, terms, kinds::is_radix(&parameters), &mut report)?;
    if arguments.json {
        print(&(serde_json::to_string_pretty(&report).map_err(Failure::run)? + "\n"))?;
    } else {
        print(&render(&report, arguments.turnovers))?;
    }
    let percent = report.largest_bytes * 100 / report.steady_bytes.max(1);
    if percent > GROWTH_PERCENT_MAX {
        return Err(Failure::Run(format!("the footprint grew to {percent} % of the steady one")));
    }
    if report.places != report.places_reached + report.places_back {
        return Err(Failure::Run("memory is lost: places are neither reached nor did they come back".to_owned()));
    }
    Ok(())
}

/// Bytes of chunks granted to the index.
fn footprint(pool: &Pool) -> Result<u64, Failure> {
    let number = pool.find_index(INDEX).map_err(Failure::run)?.0.number;
    let mut bytes = 0;
    for (node, geometry) in (0..).zip(pool.geometry()) {
        let mut tally = Tally::default();
        pool.with_lane(|fabric, lane| {
            block_on(fabric, lane, chunks::walk(lane, NodeId(node), geometry, 0, &mut |_, entry| tally.count(entry)))
        })
        .map_err(Failure::run)?
        .map_err(Failure::run)?;
        bytes += u64::from(tally.granted[usize::from(number.get())].iter().sum::<u32>()) * geometry.chunk_bytes;
    }
    Ok(bytes)
}

/// All compute nodes have left. The next one takes every chunk over, and finds every place reached, or collects it.
fn judge(
    pool: &Arc<Pool>,
    terms: dm_core::membership::lease::LeaseConfig,
    is_radix: bool,
    report: &mut Report,
) -> Result<(), Failure> {
    let node = pool.join(1, Membership { terms, ..Membership::default() }).map_err(Failure::run)?;
    with_tool(&node, INDEX, |tool| {
        let mut collected_orphans =
            block_on(tool.fabric, tool.lane, tool.index.collect_orphans(tool.lane)).map_err(Failure::run)?;
        let mut collected_bytes = collected_orphans.bytes;
        let began = Instant::now();
        while collected_orphans.waits && began.elapsed() < COLLECTED_WITHIN {
            thread::sleep(Duration::from_millis(20));
            collected_orphans =
                block_on(tool.fabric, tool.lane, tool.index.collect_orphans(tool.lane)).map_err(Failure::run)?;
            collected_bytes += collected_orphans.bytes;
        }
        let census = block_on(tool.fabric, tool.lane, tool.index.validate(tool.lane));
        let census = census.and_then(Census::at_rest).map_err(Failure::run)?;
        if census.records != report.records {
            return Err(Failure::Run(format!("{} records in the tree, {} inserted", census.records, report.records)));
        }
        report.live_bytes = census.live_bytes;
        if is_radix {
            // Its places are of many sizes, and it collects extents.
            report.collected_bytes = collected_bytes;
            return Ok(());
        }
        if !collected_orphans.is_complete() {
            return Err(Failure::Run(format!("the account is not complete: {collected_orphans:?}")));
        }
        report.places = collected_orphans.places;
        report.places_reached = census.leaves + census.inner_nodes;
        report.places_back = collected_orphans.nodes;
        Ok(())
    })
}

fn render(report: &Report, turnovers: u64) -> String {
    let Report { capacity_bytes, records, record_bytes, steady_bytes, largest_bytes, live_bytes, .. } = report;
    let Report { places, places_reached, places_back, collected_bytes, .. } = report;
    let account = if *places > 0 {
        let lost = places.abs_diff(places_reached + places_back);
        format!("{places} places of nodes = {places_reached} reached + {places_back} back + {lost} lost")
    } else {
        format!(
            "{} came back to the compute node that joined last, in as many chunks of departed ones as are kept at a time",
            size(*collected_bytes)
        )
    };
    format!(
        "{records} records of {record_bytes} B in a pool of {}, written {turnovers} times over (shared memory)\n\
         footprint: {} in the first {WARM_UP_PERCENT} % of that, at most {} after that ({} %; allowed {GROWTH_PERCENT_MAX} %); {} of it reached in the end\n\
         every record read back; tree sound; {account}\n",
        size(*capacity_bytes),
        size(*steady_bytes),
        size(*largest_bytes),
        largest_bytes * 100 / steady_bytes.max(&1),
        size(*live_bytes),
    )
}
