//! A memory node on an RDMA device and compute processes, all real: some are refused, some are fenced, some die. Needs
//! a device; Soft-RoCE will do.

use dm_core::fabric::Fabric as _;
use dm_core::lane::Lane;
use dm_core::operation::Effect;
use dm_core::remote::lock_word::RowId;
use dm_core::remote::rpc::{self, Procedure, Reply};
use dm_core::remote::superblock::FORMAT_VERSION;
use dm_core::sherman::parameters::Parameters;
use dm_core::verbs::{Completion, Label, LaneId, NodeId, Request, Status};
use dm_host::compute_node::Membership;
use dm_host::fabric::any::{AnyFabric, Node};
use dm_host::fabric::verbs::VerbsOptions;
use dm_host::memory_node::verbs::secret::Secret;
use dm_host::memory_node::verbs::settings::VerbsArguments;
use dm_host::memory_node::verbs::wire::{Answer, HELLO_BYTES, Hello, VERSION};
use dm_host::pool::{Pool, PoolError};
use dm_host::session::{Session, SessionError};
use dm_host::solo::block_on;
use rustix::process::{Pid, Signal, kill_process};
use session_support::{options, value_of};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[path = "verbs_processes/calls.rs"]
mod calls;
mod session_support;

const N0: NodeId = NodeId(0);

/// A word in the heap that no index uses here.
const WORD: u64 = 6 << 20;

/// The address of an RDMA device of this machine.
fn ip() -> IpAddr {
    VerbsArguments::default().choose().expect("an RDMA device with an address").address.ip()
}

fn new_address() -> String {
    static PORT: AtomicU16 = AtomicU16::new(18_000);
    format!("{}:{}", ip(), PORT.fetch_add(1, Ordering::Relaxed))
}

fn memd(address: &str, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dm-memd"));
    command.args(["--fabric", "verbs", "--size", "16MiB", "--chunk-size", "64KiB", "--locks", "31"]);
    command.args(["--exit-with-parent", "--listen", address]).args(more).stdout(Stdio::piped());
    command
}

/// A daemon of this test, killed with it.
struct Daemon {
    child: Child,
    out: BufReader<ChildStdout>,
    ready: String,
    address: String,
}

impl Daemon {
    fn start(more: &[&str]) -> Self {
        Self::start_at(new_address(), more)
    }

    fn start_at(address: String, more: &[&str]) -> Self {
        let mut child = memd(&address, more).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut ready = String::new();
        out.read_line(&mut ready).unwrap();
        assert!(ready.starts_with("READY "), "{ready:?}");
        Self { child, out, ready, address }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn connect(&self) -> Arc<Pool> {
        Arc::new(Pool::connect_verbs(std::slice::from_ref(&self.address), VerbsOptions::default()).unwrap())
    }

    fn refuses(&self, secret: Option<&Path>) -> String {
        let secret = secret.map(|path| Secret::load(path).unwrap());
        let options = VerbsOptions { secret, ..VerbsOptions::default() };
        Pool::connect_verbs(std::slice::from_ref(&self.address), options).map(drop).unwrap_err().to_string()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a daemon that cannot start says: one line.
fn complaint(command: &mut Command) -> String {
    let output = command.stderr(Stdio::piped()).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "it started");
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

fn post_on(fabric: &mut AnyFabric, lane: &Lane<'_>, request: Request) -> Completion {
    match block_on(fabric, lane, lane.port().call(request)) {
        Ok(completion) => completion,
        Err(error) => Completion { status: error.status, ..Completion::default() },
    }
}

/// Executes one request on a lane kept for such and waits for it.
fn post(pool: &Pool, request: Request) -> Completion {
    pool.with_lane(|fabric, lane| post_on(fabric, lane, request)).unwrap()
}

fn word(pool: &Pool) -> u64 {
    let completion = post(pool, Request::fetch_add(Label::Tool, N0, WORD, 0));
    assert_eq!(completion.status, Status::Ok);
    completion.value
}

/// Tells the second process what to be: role and address.
const ROLE: &str = "DM_TEST_VERBS_ROLE";

/// The second process: this test binary again. Without its role there is nothing to do.
#[test]
fn partner() {
    let Ok(text) = std::env::var(ROLE) else { return };
    let (role, address) = text.split_once(' ').unwrap();
    match role {
        "reader" => return calls::be_a_reader(address),
        "owner" => return calls::be_an_owner(address),
        "changer" => return calls::be_a_changer(address),
        _ => {}
    }
    if let Some(often) = role.strip_prefix("caller-") {
        return calls::be_a_caller(address, often.parse().unwrap());
    }
    let pool = Arc::new(Pool::connect_verbs(&[address.to_owned()], VerbsOptions::default()).unwrap());
    match role {
        // Calls the memory node's processor until it is killed.
        "endless-caller" => calls::be_a_caller(address, u64::MAX),
        // Joins a row and adds to the word, for ever, whatever it is told.
        "writer" => {
            let node = pool.join(1, Membership::default()).unwrap();
            let mut fabric = pool.fabric().unwrap();
            let mut scratch = [0; 64];
            let lane = Lane::new(LaneId(0), &mut scratch);
            println!("JOINED {} {}", node.member().row.0, node.member().incarnation);
            let mut refused = 0;
            loop {
                let add = Request::fetch_add(Label::Tool, N0, WORD, 1);
                if post_on(&mut fabric, &lane, add).status != Status::Ok {
                    refused += 1;
                    if refused == 100 {
                        // A new queue pair is refused, too.
                        println!("REFUSED {}", u32::from(pool.fabric().is_err()));
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
        // Writes a few keys that others write, too, until it is done or killed.
        "storm" => {
            let session = Session::open(&pool, "contended", &options(2, 4)).unwrap();
            println!("STARTED");
            storm(&session, u64::from(std::process::id()), 400);
            println!("DONE");
        }
        role => panic!("{role}"),
    }
}

/// Keys that all processes write.
const KEYS: u64 = 12;

/// Upserts and reads few keys from several threads. Every call ends with a result or a typed error, within `WAIT`: how
/// many did with an error.
fn storm(session: &Session, writer: u64, turns: u64) -> u64 {
    const WAIT: Duration = Duration::from_secs(20);
    let failed = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let failed = &failed;
            scope.spawn(move || {
                for turn in 0..turns {
                    let key = ((turn * 7 + writer + thread) % KEYS).to_be_bytes();
                    let began = Instant::now();
                    let result = if turn % 3 == 0 {
                        session.get(&key).within(Duration::from_secs(5)).wait().map(|found| {
                            if let Some(found) = found {
                                let word = u64::from_le_bytes(found[..8].try_into().unwrap());
                                assert_eq!(value_of(word >> 8), found[..8], "a value nobody wrote");
                            }
                        })
                    } else {
                        let value = value_of(writer << 20 | turn);
                        session.upsert(&key, &value).within(Duration::from_secs(5)).wait().map(drop)
                    };
                    match result {
                        Ok(()) => {}
                        Err(SessionError::Operation(_) | SessionError::Broken { .. }) => {
                            failed.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => panic!("{error}"),
                    }
                    assert!(began.elapsed() < WAIT, "a call took {:?}", began.elapsed());
                }
            });
        }
    });
    failed.into_inner()
}

/// The second process, killed with this value.
struct Partner {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Partner {
    fn start(role: &str, daemon: &Daemon) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "partner", "--nocapture"]).env(ROLE, format!("{role} {}", daemon.address));
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out }
    }

    /// The words of the next line that has `first`.
    fn line(&mut self, first: &str) -> Vec<u64> {
        loop {
            let mut line = String::new();
            assert_ne!(self.out.read_line(&mut line).unwrap(), 0, "it ended before it said {first}");
            if let Some((_, rest)) = line.split_once(first) {
                return rest.split_whitespace().map(|word| word.parse().unwrap()).collect();
            }
        }
    }

    /// The steps that it says it has ended, until it ends itself.
    fn ended(&mut self) -> impl Iterator<Item = u64> {
        let lines = self.out.by_ref().lines().map_while(Result::ok);
        lines.filter_map(|line| line.strip_prefix("ENDED ")?.parse().ok())
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn what_cannot_be_served_is_one_line_with_the_limit_and_the_remedy() {
    let address = new_address();
    let says = |more: &[&str]| complaint(&mut memd(&address, more));
    let nobody = says(&[]);
    assert!(nobody.contains("--secret-file") && nobody.contains("--insecure"), "{nobody}");
    let device = says(&["--insecure", "--ib-dev", "mlx5_9"]);
    assert!(device.contains("--ib-dev mlx5_9: no such device; there are "), "{device}");
    let chosen = VerbsArguments::default().choose().unwrap();
    let gid = says(&["--insecure", "-d", &chosen.device, "-x", "77"]);
    assert!(gid.contains("--gid-index 77: port 1 of ") && gid.contains("it has 0, 1"), "{gid}");
    let port = says(&["--insecure", "-d", &chosen.device, "-i", "9"]);
    assert!(port.contains("--ib-port 9: "), "{port}");
    let mtu = says(&["--insecure", "--mtu", "4096"]);
    assert!(mtu.contains("--mtu 4096: the active MTU of ") && mtu.contains("is 1024"), "{mtu}");
    let elsewhere = says(&["--insecure", "--listen", "192.0.2.1"]);
    assert!(elsewhere.contains("192.0.2.1: no RDMA device has this address; they have "), "{elsewhere}");
    let piece = says(&["--insecure", "--registration-size", "3MiB"]);
    assert!(piece.contains("--registration-size 3145728: a power of two"), "{piece}");

    // A process that may lock less than its region, and may not exceed that.
    let mut limited = Command::new("setpriv");
    limited.args(["--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock", "sh", "-c", "ulimit -l 64; exec \"$0\" \"$@\""]);
    limited.arg(env!("CARGO_BIN_EXE_dm-memd"));
    limited.args(["--fabric", "verbs", "--size", "16MiB", "--insecure", "--listen", &address]);
    let memlock = complaint(&mut limited);
    assert!(memlock.contains("may lock 65536") && memlock.contains("ulimit -l unlimited"), "{memlock}");

    let error = Pool::connect_verbs(&[format!("{}:1", ip())], VerbsOptions::default()).map(drop).unwrap_err();
    assert!(error.to_string().contains("no memory node answers there"), "{error}");
    let error =
        Pool::connect_verbs(&["no.such.host.invalid".to_owned()], VerbsOptions::default()).map(drop).unwrap_err();
    assert!(error.to_string().contains("not the address of a memory node"), "{error}");
}

#[test]
fn only_who_knows_the_secret_comes_in() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, byte: u8, mode: u32| {
        use std::os::unix::fs::PermissionsExt as _;
        let path = directory.path().join(name);
        std::fs::write(&path, [byte; 32]).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    };
    let (right, wrong, public) = (file("right", 1, 0o600), file("wrong", 2, 0o600), file("public", 1, 0o644));
    let text = complaint(&mut memd(&new_address(), &["--secret-file", public.to_str().unwrap()]));
    assert!(text.contains("mode 0644 lets others read it") && text.contains("chmod 0600"), "{text}");

    let daemon = Daemon::start(&["--secret-file", right.to_str().unwrap()]);
    assert!(daemon.ready.contains("access=\"secret\""), "{}", daemon.ready);
    assert!(daemon.refuses(Some(&wrong)).contains("refuses the secret"));
    assert!(daemon.refuses(None).contains("asks for a secret"));
    let options = VerbsOptions { secret: Some(Secret::load(&right).unwrap()), ..VerbsOptions::default() };
    let pool = Pool::connect_verbs(std::slice::from_ref(&daemon.address), options).unwrap();
    assert_eq!(word(&pool), 0);
    let open = Daemon::start(&["--insecure"]);
    assert!(open.refuses(Some(&right)).contains("asks for no secret"));
}

#[test]
fn garbage_and_other_versions_are_turned_away_and_disturb_nobody() {
    let daemon = Daemon::start(&["--insecure"]);
    let pool = daemon.connect();
    assert_eq!(word(&pool), 0);
    for garbage in
        [&b"GET / HTTP/1.1\r\nHost: nobody, and a long line behind it\r\n\r\n"[..], &[0; 200], &[0xff; 4096], b"dm"]
    {
        let mut stream = TcpStream::connect(&daemon.address).unwrap();
        // The daemon may have closed the connection before all of it was written, or before it is shut.
        let _ = stream.write_all(garbage);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        // Closed without a word, or reset.
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty(), "{answer:?}");
    }
    let mut stream = TcpStream::connect(&daemon.address).unwrap();
    stream.write_all(&Hello { version: VERSION + 7, answer: Answer::Yes, nonce: [0; 32] }.encode()).unwrap();
    let mut answer = [0; HELLO_BYTES];
    stream.read_exact(&mut answer).unwrap();
    let answer = Hello::decode(&answer).unwrap();
    assert_eq!((answer.version, answer.answer), (VERSION, Answer::Version));
    // A client that says hello and nothing more blocks no other client.
    let _silent = TcpStream::connect(&daemon.address).unwrap();
    post(&pool, Request::fetch_add(Label::Tool, N0, WORD, 5));
    assert_eq!(word(&pool), 5);
    assert_eq!(word(&daemon.connect()), 5);
}

#[test]
fn another_format_version_is_told_from_damage() {
    let daemon = Daemon::start(&["--insecure"]);
    let pool = daemon.connect();
    // The version follows the magic.
    assert_eq!(post(&pool, Request::fetch_add(Label::Tool, N0, 8, 6)).status, Status::Ok);
    let error = daemon.refuses(None);
    let told = format!("format version {}; this program reads version {FORMAT_VERSION}", FORMAT_VERSION + 6);
    assert!(error.contains(&told), "{error}");
}

#[test]
fn requests_that_no_memory_node_has_are_refused_and_harm_nobody() {
    let daemon = Daemon::start(&["--insecure", "--registration-size", "2MiB"]);
    let pool = daemon.connect();
    let end = 16 << 20;
    for (offset, bytes) in [(end, 8), (end - 4, 8), (u64::MAX - 3, 8), (1 << 40, 64)] {
        assert_eq!(post(&pool, Request::read(Label::Tool, N0, offset, bytes, 0)).status, Status::Refused);
    }
    assert_eq!(post(&pool, Request::cas(Label::Tool, N0, WORD + 4, 0, 1)).status, Status::Refused);
    assert_eq!(post(&pool, Request::read(Label::Tool, NodeId(1), 0, 8, 0)).status, Status::Refused);
    assert_eq!(post(&pool, Request::masked_cas(Label::Tool, N0, WORD, [0, 1, 1, 1])).status, Status::Unsupported);
    assert_eq!(word(&pool), 0);
    // The last bytes of the region, and bytes at the border of two registrations.
    for offset in [end - 64, (2 << 20) - 8, (4 << 20) - 40] {
        assert_eq!(post(&pool, Request::write_word(Label::Tool, N0, offset, 77)).status, Status::Ok);
        let read = pool.with_lane(|fabric, lane| {
            let read = post_on(fabric, lane, Request::read(Label::Tool, N0, offset, 64, 0));
            (read.status, lane.port().with(|scratch| scratch[0]))
        });
        assert_eq!(read.unwrap(), (Status::Ok, 77));
    }
}

#[test]
fn a_broken_queue_pair_is_made_again_under_the_same_incarnation() {
    let daemon = Daemon::start(&["--insecure"]);
    let pool = daemon.connect();
    let node = pool.join(1, Membership::default()).unwrap();
    let AnyFabric::Verbs(mut fabric) = pool.fabric().unwrap() else { panic!("a verbs pool") };
    let mut scratch = [0; 4096];
    let lanes = [Lane::new(LaneId(0), &mut scratch)];
    let port = lanes[0].port();
    let mut landed = 0;
    for turn in 0..20 {
        // Breaks with a chain on its way.
        for _ in 0..3 {
            port.push(Request::fetch_add(Label::Tool, N0, WORD, 1));
        }
        port.push(Request::read(Label::Tool, N0, WORD, 8, 0));
        port.flush();
        let _ = fabric.post(&lanes, 0);
        if turn % 2 == 0 {
            fabric.break_link(N0);
        }
        let began = Instant::now();
        while port.state() != dm_core::port::State::Completed {
            fabric.poll(&lanes, &mut |_| {});
            assert!(began.elapsed() < Duration::from_secs(20), "a posted request ends by its completion");
        }
        // What completed well has happened; what was flushed may have, as a prefix in post order.
        let statuses: Vec<_> = (0..4).map(|position| port.completion(position).status).collect();
        let well = statuses.iter().take_while(|&&status| status == Status::Ok).count();
        assert!(statuses[well..].iter().all(|&status| status == Status::Flushed), "{statuses:?}");
        port.reset();
        let now = word(&pool);
        let least = landed + well.min(3) as u64;
        assert!((least..=landed + 3).contains(&now), "{now}, {landed} before, {statuses:?}");
        landed = now;
    }
    // The row is still alive and its own.
    drop(node);
    assert!(landed >= 30);
}

#[test]
fn a_fenced_compute_node_writes_no_more_however_it_tries() {
    let daemon = Daemon::start(&["--insecure"]);
    let pool = daemon.connect();
    let mut writer = Partner::start("writer", &daemon);
    let [row, incarnation] = writer.line("JOINED")[..] else { panic!("row and incarnation") };
    let began = word(&pool);
    while word(&pool) < began + 20 {}
    let fence = rpc::fence(N0, RowId(row as u16), incarnation as u32);
    // Said twice, as after a lost answer.
    for _ in 0..2 {
        let completion = post(&pool, fence);
        assert_eq!((completion.status, completion.value), (Status::Ok, Reply::Done as u64));
    }
    let after = word(&pool);
    assert_eq!(writer.line("REFUSED"), [1], "a new queue pair is refused as well");
    assert_eq!(word(&pool), after, "not one of a hundred attempts had an effect");
    // A late announcement of that incarnation is refused, and the next incarnation is accepted.
    let Node::Verbs(peer) = &pool.nodes()[0] else { panic!("a verbs pool") };
    assert!(peer.announce(RowId(row as u16), incarnation as u32).unwrap_err().to_string().contains("fenced off"));
    assert_eq!(peer.announce(RowId(row as u16), incarnation as u32 + 1), Ok(()));
    // Others do not notice.
    assert_eq!(post(&pool, Request::rpc(Label::Tool, N0, [Procedure::Ping as u64, 42, 0, 0])).value, 42);
    assert_eq!(post(&pool, Request::rpc(Label::Tool, N0, [999, 1, 2, 3])).value, Reply::Unknown as u64);
}

fn contended(daemon: &Daemon) -> (Arc<Pool>, Session) {
    let pool = daemon.connect();
    let parameters = Parameters { key_bytes: 8, value_bytes: 8, leaf_span: 4, inner_span: 4 };
    let session = Session::open_or_create(&pool, "contended", parameters, &options(2, 4)).unwrap();
    (pool, session)
}

#[test]
fn several_processes_write_the_same_hot_keys() {
    let daemon = Daemon::start(&["--insecure"]);
    let (_pool, session) = contended(&daemon);
    let mut partners: Vec<_> = (0..2).map(|_| Partner::start("storm", &daemon)).collect();
    for partner in &mut partners {
        partner.line("STARTED");
    }
    assert_eq!(storm(&session, 1, 400), 0, "nothing fails");
    for partner in &mut partners {
        partner.line("DONE");
    }
    let census = session.validate().unwrap();
    assert_eq!(census.records, KEYS);
    session.close();
}

#[test]
fn a_process_killed_amid_writes_costs_others_a_lease() {
    let daemon = Daemon::start(&["--insecure"]);
    let (pool, session) = contended(&daemon);
    let mut partner = Partner::start("storm", &daemon);
    partner.line("STARTED");
    std::thread::scope(|scope| {
        let survivor = scope.spawn(|| storm(&session, 1, 40));
        std::thread::sleep(Duration::from_millis(300));
        partner.child.kill().unwrap();
        println!("{} of 120 calls ended with an error", survivor.join().unwrap());
    });
    // Locks of a dead compute node are taken over once its lease is over: every key can be written again.
    let began = Instant::now();
    for n in 0..KEYS {
        session.upsert(&n.to_be_bytes(), &value_of(n)).within(Duration::from_mins(1)).wait().unwrap();
    }
    println!("all keys written {:?} after the storm", began.elapsed());
    assert_eq!(session.validate().unwrap().records, KEYS);
    assert_eq!(post(&pool, Request::fetch_add(Label::Tool, N0, WORD, 1)).status, Status::Ok);
    session.close();
}

#[test]
fn a_dead_memory_node_is_an_error_and_no_hang() {
    let mut daemon = Daemon::start(&["--insecure"]);
    let (pool, session) = contended(&daemon);
    assert_eq!(storm(&session, 1, 20), 0);
    std::thread::scope(|scope| {
        let storm = scope.spawn(|| storm(&session, 1, 300));
        std::thread::sleep(Duration::from_millis(100));
        daemon.child.kill().unwrap();
        daemon.child.wait().unwrap();
        assert!(storm.join().unwrap() > 0, "the rest fails");
    });
    let error = session.get(&1u64.to_be_bytes()).wait().unwrap_err();
    assert!(error.to_string().contains("node") || matches!(error, SessionError::Broken { .. }), "{error}");
    assert_eq!(error.effect(), Effect::None);
    assert_eq!(post(&pool, Request::read(Label::Tool, N0, 0, 8, 0)).status, Status::NodeDown);
    let began = Instant::now();
    session.close();
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_daemon_that_is_told_to_stop_deregisters_and_its_file_is_found_again() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let file = directory.path().join("pool");
    let file = file.to_str().unwrap();
    let mut daemon = Daemon::start(&["--insecure", "--file", file]);
    assert!(daemon.ready.contains("memory=new") && daemon.ready.contains("incarnation=1"), "{}", daemon.ready);
    let pool = daemon.connect();
    post(&pool, Request::fetch_add(Label::Tool, N0, WORD, 99));
    daemon.signal(Signal::TERM);
    let mut line = String::new();
    daemon.out.read_line(&mut line).unwrap();
    assert!(line.starts_with("STOPPED ") && line.contains("memory deregistered"), "{line}");
    assert!(daemon.child.wait().unwrap().success());
    assert_ne!(post(&pool, Request::read(Label::Tool, N0, 0, 8, 0)).status, Status::Ok);
    let again = Daemon::start_at(daemon.address.clone(), &["--insecure", "--file", file]);
    assert!(again.ready.contains("memory=kept") && again.ready.contains("incarnation=2"), "{}", again.ready);
    assert_eq!(word(&again.connect()), 99);
    // Connections to the earlier incarnation stay down.
    assert_eq!(post(&pool, Request::read(Label::Tool, N0, 0, 8, 0)).status, Status::NodeDown);
    let other =
        complaint(&mut memd(&new_address(), &["--insecure", "--file", file, "--node-id", "0", "--pool-name", "x"]));
    assert!(other.contains("in use") || other.contains("--pool-name"), "{other}");
}

#[test]
fn settings_come_from_a_file_and_counters_can_be_scraped() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memd.toml");
    let (address, metrics) = (new_address(), format!("127.0.0.1:{}", new_address().rsplit(':').next().unwrap()));
    std::fs::write(
        &path,
        format!("fabric = \"verbs\"\nsize = \"16MiB\"\nlisten = \"{address}\"\ninsecure = true\nmtu = 512\nmetrics = \"{metrics}\"\n"),
    )
    .unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_dm-memd"))
        .args(["--config", path.to_str().unwrap(), "--size", "8MiB", "--exit-with-parent"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut ready = String::new();
    out.read_line(&mut ready).unwrap();
    let daemon = Daemon { child, out, ready, address };
    assert!(daemon.ready.contains(&format!("region_bytes={}", 8 << 20)), "the command line counts: {}", daemon.ready);
    assert!(daemon.ready.contains(" mtu=512 "), "{}", daemon.ready);
    let pool = daemon.connect();
    assert_eq!(word(&pool), 0);
    let mut stream = TcpStream::connect(&metrics).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.contains("\ndm_memd_processes{pool=\"pool\",memory_node=\"0\"} 1\n"), "{text}");
    assert!(text.contains("\ndm_memd_queue_pairs_total{pool=\"pool\",memory_node=\"0\"} 1\n"), "{text}");
    std::fs::write(&path, "sise = \"16MiB\"\n").unwrap();
    let text = complaint(Command::new(env!("CARGO_BIN_EXE_dm-memd")).args(["--config", path.to_str().unwrap()]));
    assert!(text.contains("--sise"), "{text}");
}

#[test]
fn memory_nodes_of_one_pool_are_told_from_others() {
    let one = Daemon::start(&["--insecure", "--memory-nodes", "2"]);
    let other = Daemon::start(&["--insecure", "--memory-nodes", "2", "--node-id", "1", "--pool-name", "else"]);
    let connect = |daemons: &[&Daemon]| {
        let addresses: Vec<_> = daemons.iter().map(|daemon| daemon.address.clone()).collect();
        Pool::connect_verbs(&addresses, VerbsOptions::default()).map(drop)
    };
    assert!(connect(&[&one]).unwrap_err().to_string().contains("1 memory node is connected"));
    assert!(matches!(connect(&[&other, &one]), Err(PoolError::Mixed { .. })));
    let second = Daemon::start(&["--insecure", "--memory-nodes", "2", "--node-id", "1"]);
    connect(&[&second, &one]).unwrap();
}
