//! Calls of a memory node's processor: compute nodes share its receives, give up, and die. And operations that it passes on to the
//! owner of their keys.

use super::session_support::{has_updates_of_the_dead, in_ranges, small_pages, update_of};
use super::{Daemon, N0, Partner, new_address, post, value_of};
use dm_core::dex::offload::Mode;
use dm_core::dex::offload::message::{ANSWER_HEADER_BYTES, Answer, Nodes, Request as Search, Task};
use dm_core::dex::parameters::{Cut, Parameters};
use dm_core::fabric::{Fabric as _, Posted};
use dm_core::lane::Lane;
use dm_core::operation::Effect;
use dm_core::port::State;
use dm_core::remote::address::Address;
use dm_core::remote::lock_word::RowId;
use dm_core::remote::rpc::{self, Reply};
use dm_core::verbs::{CallAnswer, Label, LaneId, NodeId, Request, Status};
use dm_host::compute_node::Membership;
use dm_host::fabric::any::AnyFabric;
use dm_host::fabric::verbs::VerbsOptions;
use dm_host::pool::Pool;
use dm_host::session::{Insert, Session, SessionOptions, Update};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const LANES: usize = 8;
const LANE_BYTES: usize = 256;

/// A call that is not answered in so long is lost: longer than any stall of an emulated machine.
fn patient() -> VerbsOptions {
    VerbsOptions { answer_wait: Some(Duration::from_secs(20)), ..VerbsOptions::default() }
}

fn connect(address: &str, options: VerbsOptions) -> Arc<Pool> {
    Arc::new(Pool::connect_verbs(&[address.to_owned()], options).unwrap())
}

/// A call whose answer repeats what it asked for: a node of a memory node that is not there.
fn write_call(number: u64, scratch: &mut [u8]) -> Request {
    let parameters = Parameters::with_sizes(8, 8);
    let nodes = Nodes { index: 1, leaf: parameters.leaf(), inner: parameters.inner(), exposure_ns_max: u32::MAX };
    let from = Address::new(NodeId(9), number << 6, 1);
    let (key, task) = (&number.to_be_bytes(), Task::Search);
    let bytes = Search { from, level: 0, nodes, key, task }.encode(scratch).unwrap();
    Request::call(Label::Tool, N0, 0, bytes, ANSWER_HEADER_BYTES + 8)
}

/// Calls from several lanes at once, each of which checks that the answer is its own. How many were answered and how many not.
pub fn call_often(pool: &Pool, calls: u64) -> (u64, u64) {
    let mut fabric = pool.fabric().unwrap();
    let mut scratch = vec![0; LANES * LANE_BYTES];
    let lanes: Vec<_> =
        scratch.chunks_mut(LANE_BYTES).zip(0..).map(|(piece, id)| Lane::new(LaneId(id), piece)).collect();
    let (mut begun, mut answered, mut unanswered) = (0, 0, 0);
    let mut numbers = [None; LANES];
    let mut due: Vec<usize> = (0..LANES).collect();
    loop {
        for lane in std::mem::take(&mut due) {
            let port = lanes[lane].port();
            if let Some(number) = numbers[lane].take() {
                let completion = port.completion(0);
                match completion.status {
                    Status::Ok => {
                        let answer = CallAnswer(completion.value);
                        let repeated = Answer::Elsewhere(Address::new(NodeId(9), number << 6, 1), 0);
                        let found = port
                            .with(|scratch| Answer::decode(&scratch[..answer.bytes()], 8).map(|(answer, _)| answer));
                        assert_eq!(found, Some(repeated), "the answer to another call");
                        answered += 1;
                    }
                    Status::Unanswered => unanswered += 1,
                    // A test has fenced this compute node off.
                    Status::Flushed | Status::Fenced => return (answered, unanswered),
                    status => panic!("{status:?}"),
                }
                port.reset();
            }
            if begun < calls {
                numbers[lane] = Some(begun);
                let request = port.with(|scratch| write_call(begun, scratch));
                begun += 1;
                port.push(request);
                port.flush();
                if fabric.post(&lanes, lane) == Posted::Completed {
                    due.push(lane);
                }
            }
        }
        if numbers.iter().all(Option::is_none) {
            return (answered, unanswered);
        }
        if due.is_empty() {
            fabric.poll(&lanes, &mut |lane| due.push(lane));
        }
    }
}

/// A compute node that calls until it is killed, or so often.
pub fn be_a_caller(address: &str, calls: u64) {
    let pool = connect(address, patient());
    let node = pool.join(1, Membership::default()).unwrap();
    println!("JOINED {} {}", node.member().row.0, node.member().incarnation);
    let (answered, unanswered) = call_often(&pool, calls);
    println!("CALLED {answered} {unanswered}");
}

/// A memory node whose metrics can be read.
struct Measured {
    daemon: Daemon,
    metrics: String,
}

impl Measured {
    fn start() -> Self {
        let metrics = format!("127.0.0.1:{}", new_address().rsplit(':').next().unwrap());
        Self { daemon: Daemon::start(&["--insecure", "--metrics", &metrics]), metrics }
    }

    fn metric(&self, name: &str) -> u64 {
        let mut stream = TcpStream::connect(&self.metrics).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        let line = page.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{')));
        line.unwrap().rsplit(' ').next().unwrap().parse().unwrap()
    }

    /// Credits of a pool that has posted something.
    fn credits(&self, pool: &Pool) -> u64 {
        assert_eq!(post(pool, Request::read(Label::Tool, N0, 0, 8, 0)).status, Status::Ok);
        self.metric("dm_memd_call_credits")
    }

    /// All receives wait for calls again, and compute processes that are gone have no credits any more.
    fn comes_to_rest(&self, receives: u64, credits: u64) {
        let began = Instant::now();
        let now = || (self.metric("dm_memd_call_receives"), self.metric("dm_memd_call_credits"));
        while now() != (receives, credits) {
            assert!(began.elapsed() < Duration::from_mins(1), "{:?}, not {:?}", now(), (receives, credits));
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// For how long compute nodes call in `compute_nodes_share_the_receives_and_no_call_is_lost`, in minutes; without it, once.
const MINUTES: &str = "DM_CALL_MINUTES";

#[test]
fn compute_nodes_share_the_receives_and_no_call_is_lost() {
    const CALLS: u64 = 4000;
    let minutes = std::env::var(MINUTES).map_or(0, |minutes| minutes.parse().expect("minutes"));
    let memory_node = Measured::start();
    let receives = memory_node.metric("dm_memd_call_receives");
    assert!(receives >= 1024);
    let pool = connect(&memory_node.daemon.address, patient());
    let credits = memory_node.credits(&pool);
    let mut dying = Partner::start("endless-caller", &memory_node.daemon);
    let [row, incarnation] = dying.line("JOINED")[..] else { panic!("row and incarnation") };
    let (began, mut rounds) = (Instant::now(), 0);
    while rounds == 0 || began.elapsed() < Duration::from_mins(minutes) {
        let mut other = Partner::start(&format!("caller-{CALLS}"), &memory_node.daemon);
        other.line("JOINED");
        assert_eq!(call_often(&pool, CALLS / 2), (CALLS / 2, 0));
        if rounds == 0 {
            // With calls under way.
            dying.child.kill().unwrap();
        }
        assert_eq!(call_often(&pool, CALLS / 2), (CALLS / 2, 0));
        if rounds == 0 {
            let completion = post(&pool, rpc::fence(N0, RowId(row as u16), incarnation as u32));
            assert_eq!((completion.status, completion.value), (Status::Ok, Reply::Done as u64));
        }
        assert_eq!(other.line("CALLED"), [CALLS, 0]);
        other.child.wait().unwrap();
        rounds += 1;
    }
    memory_node.comes_to_rest(receives, credits);
    let searches = memory_node.metric("dm_memd_searches_total");
    println!("{searches} calls of three compute nodes in {} s", began.elapsed().as_secs());
}

#[test]
fn a_compute_node_that_is_fenced_calls_no_more() {
    let memory_node = Measured::start();
    let (receives, pool) = (memory_node.metric("dm_memd_call_receives"), memory_node.daemon.connect());
    let credits = memory_node.credits(&pool);
    let mut caller = Partner::start("endless-caller", &memory_node.daemon);
    let [row, incarnation] = caller.line("JOINED")[..] else { panic!("row and incarnation") };
    let called = memory_node.metric("dm_memd_searches_total");
    while memory_node.metric("dm_memd_searches_total") < called + 100 {}
    let completion = post(&pool, rpc::fence(N0, RowId(row as u16), incarnation as u32));
    assert_eq!((completion.status, completion.value), (Status::Ok, Reply::Done as u64));
    let after = memory_node.metric("dm_memd_searches_total");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(memory_node.metric("dm_memd_searches_total"), after, "a call was begun after the fence was confirmed");
    memory_node.comes_to_rest(receives, credits);
}

#[test]
fn late_replies_give_credits_back() {
    let memory_node = Measured::start();
    let options = VerbsOptions { calls: 2, answer_wait: Some(Duration::ZERO), ..VerbsOptions::default() };
    let pool = connect(&memory_node.daemon.address, options);
    let AnyFabric::Verbs(mut fabric) = pool.fabric().unwrap() else { panic!("a verbs pool") };
    let mut scratch = [0; LANE_BYTES];
    let lanes = [Lane::new(LaneId(0), &mut scratch)];
    let port = lanes[0].port();
    let before = memory_node.metric("dm_memd_searches_total");
    for number in 0..40 {
        let request = port.with(|scratch| write_call(number, scratch));
        port.push(request);
        port.flush();
        if fabric.post(&lanes, 0) == Posted::InFlight {
            while port.state() == State::InFlight {
                fabric.poll(&lanes, &mut |_| {});
            }
        }
        assert!(matches!(port.completion(0).status, Status::Ok | Status::Unanswered));
        port.reset();
        // Until its reply has come.
        while memory_node.metric("dm_memd_searches_total") <= before + number {
            fabric.poll(&lanes, &mut |_| {});
        }
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(5));
            fabric.poll(&lanes, &mut |_| {});
        }
    }
    assert_eq!(memory_node.metric("dm_memd_searches_total"), before + 40);
}

#[test]
fn a_broken_queue_pair_ends_its_calls_and_loses_no_receive() {
    let memory_node = Measured::start();
    let receives = memory_node.metric("dm_memd_call_receives");
    let pool = connect(&memory_node.daemon.address, patient());
    let AnyFabric::Verbs(mut fabric) = pool.fabric().unwrap() else { panic!("a verbs pool") };
    let credits = memory_node.credits(&pool);
    let mut scratch = vec![0; LANES * LANE_BYTES];
    let lanes: Vec<_> =
        scratch.chunks_mut(LANE_BYTES).zip(0..).map(|(piece, id)| Lane::new(LaneId(id), piece)).collect();
    let (mut answered, mut flushed) = (0, 0);
    for turn in 0..40 {
        for lane in 0..LANES {
            let port = lanes[lane].port();
            let request = port.with(|scratch| write_call(turn, scratch));
            port.push(request);
            port.flush();
            let _ = fabric.post(&lanes, lane);
        }
        // With calls on their way, in all stages.
        for _ in 0..turn % 4 * 10 {
            fabric.poll(&lanes, &mut |_| {});
        }
        if turn % 2 == 0 {
            fabric.break_link(N0);
        }
        let began = Instant::now();
        while lanes.iter().any(|lane| lane.port().state() == State::InFlight) {
            fabric.poll(&lanes, &mut |_| {});
            assert!(began.elapsed() < Duration::from_secs(15), "a call outlives its queue pair");
        }
        for lane in &lanes {
            match lane.port().completion(0).status {
                Status::Ok => answered += 1,
                Status::Flushed => flushed += 1,
                status => panic!("{status:?}"),
            }
            lane.port().reset();
        }
    }
    println!("{answered} calls answered, {flushed} ended with their queue pair");
    assert!(answered >= 20 * LANES && flushed > 0);
    memory_node.comes_to_rest(receives, credits);
}

#[test]
fn without_threads_for_calls_a_memory_node_grants_none() {
    let daemon = Daemon::start(&["--insecure", "--call-threads", "0"]);
    let pool = daemon.connect();
    assert_eq!(pool.fabric().unwrap().capabilities().call_bytes_max, 0);
    let completion = post(&pool, Request::call(Label::Tool, N0, 0, 8, 8));
    assert_eq!(completion.status, Status::Unanswered);
}

const KEYS: u64 = 1200;

/// The compute node that dies may hold a lock that other indexes use, too: there are few. That costs a lease.
const PATIENCE: Duration = Duration::from_mins(2);

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// Fewer frames than leaves, and few inner nodes in copies: gets call.
fn small() -> SessionOptions {
    let mut options = super::options(1, 4);
    options.spending.page_cache_bytes = 64 << 10;
    options.spending.cache_bytes = 4 << 10;
    options.spending.log_lines = 0;
    options.spending.offload = Mode::Always;
    options
}

fn open(pool: &Arc<Pool>, name: &str) -> Session {
    let parameters = Parameters::with_sizes(8, 8);
    let parameters = Parameters {
        leaf_span: 8,
        inner_span: 6,
        entries: 2,
        cut: Cut::Even { first: 0, last: KEYS - 1 },
        ..parameters
    };
    let session = Session::open_or_create(pool, name, parameters, &small()).unwrap();
    let records: Vec<_> = (0..KEYS).map(|n| (key(n), value_of(n))).collect();
    session.multi_put(&records).wait().into_iter().for_each(|put| assert!(put.is_ok()));
    session
}

/// A compute node whose gets the memory node answers, until it is killed.
pub fn be_a_reader(address: &str) {
    let session = open(&connect(address, patient()), "theirs");
    println!("STARTED");
    for step in 0.. {
        let number = step * 104_729 % KEYS;
        assert_eq!(session.get(&key(number)).wait().unwrap().as_deref(), Some(&value_of(number)[..]));
    }
}

#[test]
fn gets_of_two_compute_nodes_are_answered_beside_updates_and_one_dies() {
    const GETS: u64 = 3000;
    let memory_node = Measured::start();
    let pool = connect(&memory_node.daemon.address, patient());
    let session = open(&pool, "ours");
    let mut partner = Partner::start("reader", &memory_node.daemon);
    partner.line("STARTED");
    let searches = memory_node.metric("dm_memd_searches_total");
    // Of each key, the last value that was acknowledged, and the last one that was begun.
    let rounds: Vec<[AtomicU64; 2]> = (0..KEYS).map(|n| [AtomicU64::new(n), AtomicU64::new(n)]).collect();
    std::thread::scope(|scope| {
        let (session, rounds) = (&session, &rounds);
        scope.spawn(move || {
            for step in 0..GETS / 3 {
                let number = step * 7919 % KEYS;
                let [ended, begun] = &rounds[number as usize];
                let next = begun.load(Ordering::SeqCst) + KEYS;
                begun.store(next, Ordering::SeqCst);
                session.update(&key(number), &value_of(next)).within(PATIENCE).wait().unwrap();
                ended.store(next, Ordering::SeqCst);
            }
        });
        for reader in 0..2 {
            scope.spawn(move || {
                for step in 0..GETS / 2 {
                    let number = (step * 104_729 + reader) % KEYS;
                    let [ended, begun] = &rounds[number as usize];
                    let least = ended.load(Ordering::SeqCst);
                    let found = session.get(&key(number)).within(PATIENCE).wait().unwrap().unwrap();
                    let most = begun.load(Ordering::SeqCst);
                    let mut all = (least..=most).step_by(KEYS as usize);
                    assert!(all.any(|n| found == value_of(n)), "key {number}: not {least} to {most}");
                }
            });
        }
        std::thread::sleep(Duration::from_millis(500));
        partner.child.kill().unwrap();
    });
    let searches = memory_node.metric("dm_memd_searches_total") - searches;
    println!("{searches} searches for {GETS} gets of one compute node and those of one that died");
    assert!(searches > GETS / 2);
    assert_eq!(session.validate().unwrap().records, KEYS);
    session.close();
}

/// A compute node whose updates the memory node makes, until it is killed. It says each one that was acknowledged.
pub fn be_a_changer(address: &str) {
    let session = open(&connect(address, patient()), "changed");
    for step in 0.. {
        let (number, next) = update_of(KEYS, step);
        assert_eq!(session.update(&key(number), &value_of(next)).wait(), Ok(Update::Updated));
        println!("ENDED {step}");
    }
}

#[test]
fn a_memory_node_makes_changes_and_a_caller_that_dies_leaves_none_half_made() {
    const STEPS: u64 = 1500;
    let memory_node = Measured::start();
    let ready = &memory_node.daemon.ready;
    assert!(ready.contains(" changes=device "), "{ready}");
    let pool = connect(&memory_node.daemon.address, patient());
    let mut changer = Partner::start("changer", &memory_node.daemon);
    assert_eq!(changer.line("ENDED"), [0]);
    let served = memory_node.metric("dm_memd_searches_total");
    let mut last = changer.ended().find(|&step| step >= STEPS);
    let served = memory_node.metric("dm_memd_searches_total") - served;
    // With a change under way, most of the time.
    changer.child.kill().unwrap();
    // What it said before it died, and this one has not read yet.
    last = changer.ended().last().or(last);
    let last = last.expect("a compute node that lives");
    println!("{served} calls of {STEPS} updates of one compute node, which died after {last}");
    // The others were of leaves that had come into the cache, by chance.
    assert!(served > STEPS / 5, "{served} calls");
    let session = Session::open(&pool, "changed", &small()).unwrap();
    has_updates_of_the_dead(&session, KEYS, last, PATIENCE);
    session.close();
}

/// A compute node that owns all keys of an index, and has written them, until it is killed.
pub fn be_an_owner(address: &str) {
    let session = open_shared(&connect(address, patient()));
    for n in 0..KEYS {
        session.upsert(&key(n), &value_of(n)).wait().unwrap();
    }
    println!("STARTED");
    std::thread::sleep(Duration::from_mins(5));
}

fn open_shared(pool: &Arc<Pool>) -> Session {
    Session::open_or_create(pool, "shared", in_ranges(KEYS, 3), &small_pages()).unwrap()
}

#[test]
fn operations_are_forwarded_and_an_owner_that_dies_takes_no_acknowledged_change_with_it() {
    let memory_node = Measured::start();
    let mut owner = Partner::start("owner", &memory_node.daemon);
    owner.line("STARTED");
    let pool = connect(&memory_node.daemon.address, patient());
    let session = open_shared(&pool);
    let value = |n| Some(value_of(n).to_vec());
    for n in (0..KEYS).step_by(7) {
        assert_eq!(session.get(&key(n)).wait(), Ok(value(n)));
    }
    assert_eq!(session.insert(&key(0), &value_of(1)).wait(), Ok(Insert::Exists(value_of(0).to_vec())));
    let records = session.scan(Bound::Unbounded, Bound::Unbounded).count_records();
    assert_eq!(records, Ok(KEYS));
    // Of each key, the values that it may have: the last acknowledged one, and those that were tried since.
    let mut possible: Vec<Vec<u64>> = (0..KEYS).map(|n| vec![n]).collect();
    let (mut acknowledged, mut unknown, mut failed) = (0, 0, 0);
    let mut update = |n: u64, next: u64| {
        let updated = session.update(&key(n), &value_of(next)).wait();
        match &updated {
            Ok(Update::Updated) => {
                possible[n as usize] = vec![next];
                acknowledged += 1;
            }
            Ok(Update::Absent) => panic!("key {n} is there"),
            Err(error) if error.effect() != Effect::None => {
                possible[n as usize].push(next);
                unknown += 1;
            }
            Err(_) => failed += 1,
        }
        updated.is_ok()
    };
    for step in 0..800 {
        assert!(update(step * 7 % KEYS, step + KEYS), "the owner lives");
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            owner.child.kill().unwrap();
        });
        // Until each range has been taken over.
        let (began, mut step) = (Instant::now(), 800);
        while began.elapsed() < Duration::from_millis(400)
            || !(0..3).all(|part| update(part * (KEYS / 3) + 1, step + part))
        {
            step += 50;
            assert!(began.elapsed() < Duration::from_mins(2), "nobody takes the keys over");
            for n in 0..20 {
                update((step + n * 11) % KEYS, step + KEYS + n);
            }
        }
    });
    println!("{acknowledged} updates acknowledged, {unknown} of unknown effect, {failed} without");
    for n in 0..KEYS {
        let found = session.get(&key(n)).wait().unwrap().unwrap();
        let values = &possible[n as usize];
        assert!(values.iter().any(|&value| found == value_of(value)), "key {n}: none of {values:?}");
    }
    session.close();
}

#[test]
fn sessions_of_one_process_share_keys_and_close() {
    let memory_node = Measured::start();
    let pool = connect(&memory_node.daemon.address, patient());
    let (first, second) = (open_shared(&pool), open_shared(&pool));
    for n in 0..KEYS / 4 {
        let session = if n % 2 == 0 { &first } else { &second };
        session.upsert(&key(n), &value_of(n)).wait().unwrap();
    }
    let rows = [&first, &second].map(|session| session.member().row);
    second.move_part(1, rows[1], Duration::from_mins(1)).unwrap();
    for session in [&first, &second] {
        for n in (0..KEYS / 4).step_by(9) {
            assert_eq!(session.get(&key(n)).wait(), Ok(Some(value_of(n).to_vec())));
        }
    }
    first.close();
    for n in (0..KEYS / 4).step_by(9) {
        assert_eq!(second.get(&key(n)).wait(), Ok(Some(value_of(n).to_vec())));
    }
    second.close();
}
