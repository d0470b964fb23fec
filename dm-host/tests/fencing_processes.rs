//! Compute processes that are fenced, and memory nodes that are restarted, with real processes: stopped, killed, late.

use dm_core::fabric::{Fabric, Posted};
use dm_core::index::Index;
use dm_core::lane::Lane;
use dm_core::marks::Mark;
use dm_core::membership::lease::LeaseConfig;
use dm_core::membership::rows;
use dm_core::operation::{Cause, Effect, OpError, Operation, OperationKind, Outcome, Part};
use dm_core::remote::lock_word::{LockWord, RowId};
use dm_core::remote::row::{Row, RowState};
use dm_core::remote::rpc::{self, Procedure, Reply};
use dm_core::sherman::parameters::Parameters;
use dm_core::verbs::{Completion, Flags, Label, LaneId, NodeId, Request, Status};
use dm_host::assembly::Spending;
use dm_host::compute_node::{ComputeNode, Membership};
use dm_host::fabric::any::AnyFabric;
use dm_host::fabric::shm::{CALL_WAIT, ShmOptions};
use dm_host::kinds::IndexParameters;
use dm_host::memory_node::AnnounceError;
use dm_host::pool::{Pool, PoolError};
use dm_host::session::{Session, SessionError};
use dm_host::solo::block_on;
use procfs::process::Process;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

mod session_support;

const N0: NodeId = NodeId(0);

/// A word in the heap that no index uses here.
const WORD: u64 = 3 << 20;

/// A daemon of this test, killed with it.
struct Daemon {
    child: Child,
    ready: String,
    socket: PathBuf,
}

fn memd(socket: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dm-memd"));
    command.args(["--size", "8MiB", "--chunk-size", "64KiB", "--locks", "31", "--exit-with-parent", "--socket"]);
    command.arg(socket).args(more).stdout(Stdio::piped());
    command
}

impl Daemon {
    fn start(socket: &Path, more: &[&str]) -> Self {
        let mut child = memd(socket, more).spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        assert!(ready.starts_with("READY "), "{ready:?}");
        Self { child, ready, socket: socket.to_owned() }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a daemon that cannot start says: one line.
fn complaint(mut command: Command) -> String {
    let output = command.stderr(Stdio::piped()).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

fn connect(daemons: &[&Daemon]) -> Result<Arc<Pool>, PoolError> {
    let sockets: Vec<_> = daemons.iter().map(|daemon| daemon.socket.clone()).collect();
    Pool::connect(&sockets, ShmOptions::default()).map(Arc::new)
}

/// Executes one request and waits for it.
fn post(pool: &Pool, request: Request) -> Completion {
    let mut fabric = pool.fabric().unwrap();
    let mut scratch = [0; 64];
    let lane = Lane::new(LaneId(0), &mut scratch);
    post_on(&mut fabric, &lane, request)
}

fn post_on(fabric: &mut AnyFabric, lane: &Lane<'_>, request: Request) -> Completion {
    match block_on(fabric, lane, lane.port().call(request)) {
        Ok(completion) => completion,
        Err(error) => Completion { status: error.status, ..Completion::default() },
    }
}

fn rpc(pool: &Pool, operands: [u64; 4]) -> Result<u64, Status> {
    let completion = post(pool, Request::rpc(Label::Tool, N0, operands));
    if completion.status == Status::Ok { Ok(completion.value) } else { Err(completion.status) }
}

/// Asks until the fence is no longer pending.
fn fence(pool: &Pool, node: NodeId, row: u16, incarnation: u32) -> Reply {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let completion = post(pool, rpc::fence(node, RowId(row), incarnation));
        assert_eq!(completion.status, Status::Ok);
        match Reply::from_value(completion.value).unwrap() {
            Reply::Pending => assert!(Instant::now() < deadline, "a killed process does not end"),
            reply => return reply,
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn word(pool: &Pool) -> u64 {
    // Adds nothing, brings the old value.
    post(pool, Request::fetch_add(Label::Tool, N0, WORD, 0)).value
}

/// Names the role and the sockets of the second process.
const ROLE: &str = "DM_TEST_ROLE";

/// The second process: this test binary again. Without its role there is nothing to do.
#[test]
fn partner() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let (role, sockets) = role.split_once(' ').unwrap();
    let sockets: Vec<PathBuf> = sockets.split(',').map(PathBuf::from).collect();
    let pool = Arc::new(Pool::connect(&sockets, ShmOptions::default()).unwrap());
    let mut fabric = pool.fabric().unwrap();
    let mut scratch = [0; 64];
    let lane = Lane::new(LaneId(0), &mut scratch);
    match role {
        // Joins a row and adds to the word, for ever.
        "writer" => {
            let node = pool.join(1, Membership::default()).unwrap();
            println!("JOINED {} {}", node.member().row.0, node.member().incarnation);
            loop {
                let add = Request::fetch_add(Label::Tool, N0, WORD, 1);
                if post_on(&mut fabric, &lane, add).status != Status::Ok {
                    println!("DOWN");
                    std::thread::sleep(Duration::from_mins(10));
                }
            }
        }
        // Joins, leaves, and stays alive.
        "leaver" => {
            let member = pool.join(1, Membership::default()).unwrap().member();
            println!("LEFT {} {}", member.row.0, member.incarnation);
            std::thread::sleep(Duration::from_mins(10));
        }
        // Joins, opens the index, has looked into it, and stays alive.
        "reader" => {
            let node = pool.join(1, watched()).unwrap();
            let (entry, parameters) = pool.find_index(SHORT).unwrap();
            let opened = node.with_index(&entry, &parameters, &Spending::default(), |index| {
                let mut scratch = vec![0; index.plan().total_bytes];
                let lane = Lane::new(LaneId(0), &mut scratch);
                point(&node, &mut fabric, &lane, &index, OperationKind::Get, 0);
                println!("JOINED {} {}", node.member().row.0, node.member().incarnation);
                std::thread::sleep(Duration::from_mins(10));
            });
            opened.unwrap();
        }
        role => panic!("{role}"),
    }
}

/// The index whose places are reused.
const SHORT: &str = "short";

/// Short enough for a test to see several of them pass, long enough for a busy machine.
const LEASE: Duration = Duration::from_secs(2);

fn watched() -> Membership {
    Membership { terms: LeaseConfig::of(LEASE.as_nanos() as u64).unwrap(), ..Membership::default() }
}

/// A point operation on a record whose value is its key. It is repeated if its compute node could not renew its lease
/// for half of it.
fn point(
    node: &ComputeNode,
    fabric: &mut AnyFabric,
    lane: &Lane<'_>,
    index: &impl Index,
    kind: OperationKind,
    key: u64,
) -> Outcome {
    lane.port().with(|scratch| {
        for part in [Part::Key, Part::Value] {
            assert!(index.plan().put(scratch, part, &key.to_be_bytes()));
        }
    });
    let mut waits = 0;
    loop {
        match block_on(fabric, lane, index.execute(lane, Operation::point(kind))) {
            Ok(outcome) => return outcome,
            // All free places may be in limbo: tries again for a minute.
            Err(OpError { cause: Cause::PoolFull, effect: Effect::None }) if waits < 6_000 => {
                waits += 1;
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(OpError { cause: Cause::Fenced, effect: Effect::None }) if !node.is_fenced() => {
                block_on(fabric, lane, index.settle(lane)).unwrap();
            }
            Err(error) => panic!("{kind:?} of key {key}: {error}"),
        }
    }
}

fn state_of(pool: &Pool, row: RowId) -> RowState {
    let mut bytes = [0; Row::BYTES];
    let home = pool.nodes()[0].region().unwrap().area(dm_core::verbs::Space::Host);
    home.read(pool.geometry()[0].row_offset(row), &mut bytes).unwrap();
    Row::from_prefix(&bytes).unwrap().decode().unwrap().state
}

/// The second process, killed with this value.
struct Partner {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Partner {
    fn start(role: &str, daemons: &[&Daemon]) -> Self {
        let sockets: Vec<_> = daemons.iter().map(|daemon| daemon.socket.display().to_string()).collect();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "partner", "--nocapture"]).env(ROLE, format!("{role} {}", sockets.join(",")));
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out }
    }

    /// The words of the next line that begins, or goes on, with `first`.
    fn line(&mut self, first: &str) -> Vec<u64> {
        loop {
            let mut line = String::new();
            assert_ne!(self.out.read_line(&mut line).unwrap(), 0, "it ended before it said {first}");
            if let Some((_, rest)) = line.split_once(first) {
                return rest.split_whitespace().map(|word| word.parse().unwrap()).collect();
            }
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Stops it, and waits until none of its threads runs: a signal takes a while to arrive.
    fn stop(&self) {
        self.signal(Signal::STOP);
        let process = Process::new(self.child.id().cast_signed()).unwrap();
        while !process.tasks().unwrap().all(|task| task.unwrap().stat().is_ok_and(|stat| stat.state == 'T')) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn ended_by(&mut self) -> Option<i32> {
        let deadline = Instant::now() + Duration::from_secs(20);
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.signal();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        None
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_stopped_process_is_fenced_and_never_writes_again() {
    let directory = tempfile::tempdir().unwrap();
    for lines in ["auto", "sequence"] {
        let daemons = [0, 1].map(|node: u8| {
            let socket = directory.path().join(format!("{lines}-{node}"));
            Daemon::start(&socket, &["--lines", lines, "--node-id", &node.to_string(), "--memory-nodes", "2"])
        });
        let all = [&daemons[0], &daemons[1]];
        let pool = connect(&all).unwrap();
        assert!(pool.fabric().unwrap().capabilities().fencing);
        let mut partner = Partner::start("writer", &all);
        let joined = partner.line("JOINED");
        let (row, incarnation) = (joined[0] as u16, joined[1] as u32);
        while word(&pool) == 0 {}
        partner.stop();
        // The memory node that it never wrote to knows it as well.
        assert_eq!(fence(&pool, NodeId(1), row, incarnation), Reply::Done, "lines {lines}");
        assert_eq!(fence(&pool, N0, row, incarnation), Reply::Done);
        let last = word(&pool);
        assert_eq!(partner.ended_by(), Some(Signal::KILL.as_raw()));
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(word(&pool), last);
        // Once more: nothing to do any more.
        assert_eq!(post(&pool, rpc::fence(N0, RowId(row), incarnation)).value, Reply::Done as u64);
        // And nothing of the kind is let in again; the next incarnation is.
        let late = pool.nodes()[0].announce(RowId(row), incarnation);
        assert_eq!(late, Err(AnnounceError::Fenced { node: 0, row, incarnation }));
        assert_eq!(pool.nodes()[0].announce(RowId(row), incarnation + 1), Ok(()));
    }
}

/// Retired leaves whose generations begin again wait until no compute node has an old pointer to them. An unresponsive
/// compute node holds all of them back, for ever, though it holds no lock that is wanted. It is left alone until nodes
/// run short.
#[test]
fn a_stopped_process_that_memory_waits_for_is_fenced_when_nodes_run_short() {
    const KEYS: u64 = 1000;
    const PATIENCE: Duration = Duration::from_mins(1);
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(&directory.path().join("memd"), &[]);
    let pool = connect(&[&daemon]).unwrap();
    let node = pool.join(1, watched()).unwrap();
    let parameters = IndexParameters::from(Parameters { leaf_span: 8, ..Parameters::with_sizes(8, 8) });
    let entry = node.create_index(SHORT, &parameters).unwrap();
    // Places have two generations before they wait, not thirty-two.
    let spending = Spending { generations: 2, ..Spending::default() };
    let opened = node.with_index(&entry, &parameters, &spending, |index| {
        let mut fabric = pool.fabric().unwrap();
        let mut scratch = vec![0; index.plan().total_bytes];
        let lane = Lane::new(LaneId(0), &mut scratch);
        let mut call = |kind, key| point(&node, &mut fabric, &lane, &index, kind, key);
        let mut partner = Partner::start("reader", &[&daemon]);
        let row = RowId(partner.line("JOINED")[0] as u16);
        // Leaves split, are merged and retired, over and over.
        let round = |call: &mut dyn FnMut(OperationKind, u64) -> Outcome| {
            for key in 0..KEYS {
                assert_eq!(call(OperationKind::Insert, key), Outcome::Inserted);
            }
            for key in 0..KEYS {
                assert_eq!(call(OperationKind::Delete, key), Outcome::Deleted);
            }
        };
        let began = Instant::now();
        while began.elapsed() < 2 * LEASE || lane.marked(Mark::LIMBO_LEFT) == 0 {
            assert!(began.elapsed() < PATIENCE, "nothing has waited for long enough");
            round(&mut call);
        }
        assert!(lane.marked(Mark::LIMBO_ENTERED) > 0);
        assert_eq!(state_of(&pool, row), RowState::Live, "who says that it lives is waited for");
        partner.stop();
        // An earlier shortage of nodes is forgotten here.
        call(OperationKind::Get, 0);
        std::thread::sleep(3 * LEASE);
        call(OperationKind::Get, 0);
        assert_eq!(state_of(&pool, row), RowState::Live, "silent, and nobody is short of anything");
        assert_eq!(lane.marked(Mark::ROW_FENCED), 0);
        let began = Instant::now();
        while state_of(&pool, row) != RowState::Dead {
            assert!(began.elapsed() < PATIENCE, "nobody ends it");
            round(&mut call);
        }
        assert_eq!(partner.ended_by(), Some(Signal::KILL.as_raw()));
        assert_eq!((lane.marked(Mark::ROW_FENCED), lane.marked(Mark::TAKEOVER)), (1, 0));
        // The places in its limbo list become free.
        let (began, over) = (Instant::now(), lane.marked(Mark::LIMBO_LEFT));
        while lane.marked(Mark::LIMBO_LEFT) == over {
            assert!(began.elapsed() < PATIENCE, "its places are still waiting");
            round(&mut call);
        }
    });
    opened.unwrap();
}

#[test]
fn who_left_its_row_is_not_ended_for_it() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(&directory.path().join("memd"), &[]);
    let pool = connect(&[&daemon]).unwrap();
    let mut leaver = Partner::start("leaver", &[&daemon]);
    let left = leaver.line("LEFT");
    assert_eq!(fence(&pool, N0, left[0] as u16, left[1] as u32 + 5), Reply::Done);
    std::thread::sleep(Duration::from_millis(50));
    assert!(leaver.child.try_wait().unwrap().is_none(), "it lives");
}

#[test]
fn a_compute_node_fenced_before_it_said_who_it_is_joins_as_another() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(&directory.path().join("memd"), &[]);
    let pool = connect(&[&daemon]).unwrap();
    // Row 1 is the first to be claimed. This is what a fencing node does that was faster than the row's announcement.
    assert_eq!(fence(&pool, N0, 1, 1), Reply::Done);
    let refused = pool.join(1, Membership::default()).unwrap_err();
    assert!(matches!(refused, PoolError::Announce(AnnounceError::Fenced { row: 1, incarnation: 1, .. })), "{refused}");
    let node = pool.join(1, Membership::default()).unwrap();
    assert_eq!((node.member().row, node.member().incarnation), (RowId(1), 2));
}

#[test]
fn calls_are_answered_and_may_be_repeated() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(&directory.path().join("memd"), &[]);
    let pool = connect(&[&daemon]).unwrap();
    assert_eq!(rpc(&pool, [Procedure::Ping as u64, 4711, 0, 0]), Ok(4711));
    assert_eq!(rpc(&pool, [77, 1, 2, 3]), Ok(Reply::Unknown as u64));
    // A row that is not taken, and a number that is no row.
    for _ in 0..2 {
        assert_eq!(rpc(&pool, [Procedure::Fence as u64, 99, 7, 0]), Ok(Reply::Done as u64));
        assert_eq!(rpc(&pool, [Procedure::Fence as u64, 1 << 40, 7, 0]), Ok(Reply::Done as u64));
    }
    let node = pool.join(1, Membership::default()).unwrap();
    let own = [u64::from(node.member().row.0), u64::from(node.member().incarnation)];
    assert_eq!(rpc(&pool, [Procedure::CloseQueuePair as u64, own[0], own[1], 0]), Ok(Reply::Done as u64));
    let mut partner = Partner::start("writer", &[&daemon]);
    let other = partner.line("JOINED");
    assert_eq!(rpc(&pool, [Procedure::CloseQueuePair as u64, other[0], other[1], 0]), Ok(Reply::Impossible as u64));
    // Memory nodes within this process have no daemon to call.
    assert_eq!(rpc(&session_support::pool_here(1), [Procedure::Ping as u64, 1, 0, 0]), Err(Status::Unsupported));
}

#[test]
fn a_lane_that_waits_for_a_daemon_does_not_hold_up_the_others() {
    let directory = tempfile::tempdir().unwrap();
    let mut daemon = Daemon::start(&directory.path().join("memd"), &[]);
    let pool = connect(&[&daemon]).unwrap();
    let mut fabric = pool.fabric().unwrap();
    let mut scratch = [[0; 64]; 2];
    let [first, second] = &mut scratch;
    let lanes = [Lane::new(LaneId(0), first), Lane::new(LaneId(1), second)];
    daemon.signal(Signal::STOP);
    let ping = Request::rpc(Label::Tool, N0, [Procedure::Ping as u64, 1, 0, 0]);
    let submit = |fabric: &mut AnyFabric, lane: usize, request| {
        lanes[lane].port().push(request);
        assert!(lanes[lane].port().flush());
        fabric.post(&lanes, lane)
    };
    // Before the submit: the fabric counts the wait from somewhere within it.
    let began = Instant::now();
    assert_eq!(submit(&mut fabric, 0, ping), Posted::InFlight);
    let mut others = 0;
    let mut first_is_ready = false;
    while !first_is_ready {
        let mut read = Request::read(Label::Tool, N0, WORD, 8, 0);
        read.flags = Flags::SIGNALED;
        let posted = submit(&mut fabric, 1, read);
        let mut second_is_ready = posted == Posted::Completed;
        fabric.poll(&lanes, &mut |lane| if lane == 0 { first_is_ready = true } else { second_is_ready = true });
        assert!(second_is_ready, "the other lane waits");
        assert_eq!(lanes[1].port().completion(0).status, Status::Ok);
        lanes[1].port().reset();
        others += 1;
    }
    assert!(began.elapsed() >= CALL_WAIT && others > 100, "{others} in {:?}", began.elapsed());
    assert_eq!(lanes[0].port().completion(0).status, Status::NodeDown);
    lanes[0].port().reset();
    assert!(!pool.nodes()[0].is_down(), "slow is not dead");
    daemon.signal(Signal::CONT);
    assert_eq!(rpc(&pool, [Procedure::Ping as u64, 2, 0, 0]), Ok(2), "the late return was for nobody");
    daemon.kill();
    let gone = rpc(&pool, [Procedure::Ping as u64, 3, 0, 0]);
    assert_eq!(gone, Err(Status::NodeDown));
}

const PARAMETERS: Parameters = Parameters { key_bytes: 8, value_bytes: 8, leaf_span: 8, inner_span: 8 };

#[test]
fn a_memory_node_on_a_file_comes_back_with_its_data() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pool");
    let socket = directory.path().join("memd");
    for lines in ["sequence", "auto"] {
        let _ = std::fs::remove_file(&file);
        let start = ["--lines", lines, "--file", file.to_str().unwrap()];
        let mut daemon = Daemon::start(&socket, &start);
        assert!(daemon.ready.contains("incarnation=1 "), "{}", daemon.ready);
        let pool = connect(&[&daemon]).unwrap();
        let session = Session::open_or_create(&pool, "kept", PARAMETERS, &session_support::options(1, 2)).unwrap();
        for key in 0..500u64 {
            session.insert(&key.to_be_bytes(), &(key * 7).to_le_bytes()).wait().unwrap();
        }
        // All locks are in its hands when the memory node dies.
        let (geometry, owner) = (&pool.geometry()[0], session.member());
        for index in 0..geometry.lock_count {
            let word = LockWord::new(owner.row, (1 << 40) + u64::from(index)).unwrap();
            let take = Request::cas(Label::Tool, N0, geometry.lock_offset(index), 0, word.0);
            assert_eq!(post(&pool, take.in_space(geometry.lock_space)).value, 0);
        }
        daemon.kill();
        let began = Instant::now();
        let error = loop {
            // What was under way when it died may still be acknowledged: then it is in the file.
            match session.upsert(&0u64.to_be_bytes(), &0u64.to_le_bytes()).wait() {
                Ok(_) => assert!(began.elapsed() < Duration::from_secs(10), "a dead memory node goes unnoticed"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, SessionError::Operation(_) | SessionError::Broken { .. }), "{error}");
        // Its client still runs, with its session open.
        let daemon = Daemon::start(&socket, &start);
        assert!(daemon.ready.contains("incarnation=2 (kept)"), "{}", daemon.ready);
        assert!(session.get(&1u64.to_be_bytes()).wait().is_err(), "the old connection stays down");
        let again = connect(&[&daemon]).unwrap();
        assert_eq!(again.descriptions()[0].identity.pool_incarnation, 2);
        let mut options = session_support::options(1, 2);
        options.membership.terms = LeaseConfig::of(200_000_000).unwrap();
        let second = Session::open(&again, "kept", &options).unwrap();
        for key in 0..500u64 {
            let value = second.get(&key.to_be_bytes()).wait().unwrap();
            assert_eq!(value, Some((key * 7).to_le_bytes().to_vec()), "key {key}, lines {lines}");
        }
        assert_eq!(second.validate().unwrap().records, 500);
        // The locks are recovered from the row of the old compute node, for which no process is connected to the new
        // daemon.
        for key in 0..500u64 {
            second.update(&key.to_be_bytes(), &key.to_le_bytes()).wait().unwrap();
        }
        let mut bytes = [0; Row::BYTES];
        let home = again.nodes()[0].region().unwrap().area(dm_core::verbs::Space::Host);
        home.read(geometry.row_offset(owner.row), &mut bytes).unwrap();
        let row = Row::from_prefix(&bytes).unwrap();
        assert_eq!(row.decode().unwrap().state, RowState::Dead);
        assert_eq!(second.validate().unwrap().records, 500);
        second.close();
        session.close();
    }
}

#[test]
fn a_session_that_was_fenced_says_so_and_another_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(&directory.path().join("memd"), &[]);
    let pool = connect(&[&daemon]).unwrap();
    let mut options = session_support::options(1, 2);
    options.membership.terms = LeaseConfig::of(400_000_000).unwrap();
    let session = Session::open_or_create(&pool, "fenced", PARAMETERS, &options).unwrap();
    let (key, value) = ([7; 8], [1; 8]);
    session.upsert(&key, &value).wait().unwrap();
    // The first step of another compute node that takes this one for dead. (The next step would end this process.)
    let member = session.member();
    let home = &pool.geometry()[0];
    pool.with_lane(|fabric, lane| {
        block_on(fabric, lane, rows::advance(lane, home, member.row, member.word(), RowState::Fencing))
    })
    .unwrap()
    .unwrap();
    let began = Instant::now();
    let error = loop {
        match session.upsert(&key, &[2; 8]).wait() {
            Ok(_) => assert!(began.elapsed() < Duration::from_secs(10), "it does not notice"),
            Err(error) => break error,
        }
    };
    let fenced = OpError { effect: Effect::None, cause: Cause::Fenced };
    assert_eq!(error, SessionError::Operation(fenced));
    assert_eq!(session.get(&key).wait(), Err(SessionError::Operation(fenced)), "every call says so");
    let next = Session::open(&pool, "fenced", &options).unwrap();
    assert_ne!((next.member().row, next.member().incarnation), (member.row, member.incarnation));
    next.upsert(&key, &[3; 8]).wait().unwrap();
    assert_eq!(next.get(&key).wait().unwrap(), Some(vec![3; 8]));
    session.close();
    next.close();
}

#[test]
fn a_client_that_does_not_let_go_is_ended_before_the_file_is_used_again() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pool");
    let socket = directory.path().join("memd");
    let options = ["--file", file.to_str().unwrap()];
    let mut daemon = Daemon::start(&socket, &options);
    let mut stopped = Partner::start("writer", &[&daemon]);
    stopped.line("JOINED");
    let mut running = Partner::start("writer", &[&daemon]);
    running.line("JOINED");
    stopped.stop();
    daemon.kill();
    running.line("DOWN");
    let daemon = Daemon::start(&socket, &options);
    assert_eq!(stopped.ended_by(), Some(Signal::KILL.as_raw()));
    assert!(running.child.try_wait().unwrap().is_none(), "who let go lives");
    let pool = connect(&[&daemon]).unwrap();
    let last = word(&pool);
    assert!(last > 0);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(word(&pool), last);
}

#[test]
fn a_file_is_one_daemons_and_one_memory_nodes() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pool");
    let file = ["--file", file.to_str().unwrap()];
    let socket = directory.path().join("memd");
    let other = directory.path().join("other");
    let mut daemon = Daemon::start(&socket, &file);
    let pool = connect(&[&daemon]).unwrap();
    let text = complaint(memd(&other, &file));
    assert!(text.contains("in use by another process"), "{text}");
    assert!(!pool.nodes()[0].is_down(), "the one that runs is not disturbed");
    daemon.kill();
    let with = |more: &[&str]| complaint(memd(&other, &[&file[..], more].concat()));
    let text = with(&["--pool", "another"]);
    assert!(text.contains("--pool pool --node-id 0 --memory-nodes 1 --size 8388608"), "{text}");
    let text = with(&["--incarnation", "1"]);
    assert!(text.contains("is at 1 already"), "{text}");
    // None of that was the start of a new incarnation.
    let daemon = Daemon::start(&socket, &[&file[..], &["--incarnation", "7"]].concat());
    assert!(daemon.ready.contains("incarnation=7 (kept)"), "{}", daemon.ready);
}

#[test]
fn half_a_pool_is_not_opened() {
    let directory = tempfile::tempdir().unwrap();
    let sockets = [directory.path().join("0"), directory.path().join("1")];
    let file = directory.path().join("pool");
    let first = Daemon::start(&sockets[0], &["--memory-nodes", "2"]);
    let kept = ["--memory-nodes", "2", "--node-id", "1", "--file", file.to_str().unwrap()];
    let mut second = Daemon::start(&sockets[1], &kept);
    drop(connect(&[&first, &second]).unwrap());
    second.kill();
    let second = Daemon::start(&sockets[1], &kept);
    let error = connect(&[&first, &second]).unwrap_err();
    assert!(matches!(error, PoolError::Incarnation { node: 1, found: 2, expected: 1 }), "{error}");
    assert_eq!(error.to_string().lines().count(), 1);
}
