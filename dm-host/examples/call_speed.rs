//! What a call costs on shared memory, beside a READ: both of a page of 1 KiB that is no node, so the memory node's thread
//! copies it, looks at it, and answers.
//!
//! `dm-memd --size 64MiB --socket SOCKET &`, then `cargo run --release --example call_speed -- SOCKET [PAUSE_US]`. With a pause
//! in front of each call, longer than the threads of the daemon stay awake, the time is that of a call that wakes one.
//!
//! Beside them, what every call takes: one thread stores a word, and another thread that looks at it stores one in return. With a
//! pause the other thread sleeps, and the first one wakes it.

use dm_core::dex::offload::message::{ANSWER_HEADER_BYTES, Nodes, Request as Search, Task};
use dm_core::dex::parameters::Parameters;
use dm_core::fabric::Fabric;
use dm_core::lane::Lane;
use dm_core::remote::address::Address;
use dm_core::verbs::{CallAnswer, Completion, Label, LaneId, NodeId, Request, Status};
use dm_host::fabric::shm::{ShmFabric, ShmOptions};
use dm_host::memory_node::connect;
use rustix::thread::futex;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

const ROUNDS: usize = 20_000;

/// Where the page is: behind the tables of a new pool.
const AT: u64 = 32 << 20;

/// How long it takes from storing a word to seeing the word that another thread stores in return, in ns, each time after a pause. If
/// there is a pause, the other thread sleeps until then, and is woken.
fn exchanges(pause: Duration) -> Vec<u64> {
    let (said, heard) = (AtomicU32::new(0), AtomicU32::new(0));
    let rounds = ROUNDS as u32;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=rounds {
                while said.load(SeqCst) != round {
                    if pause.is_zero() {
                        std::hint::spin_loop();
                    } else {
                        let _ = futex::wait(&said, futex::Flags::empty(), round - 1, None);
                    }
                }
                heard.store(round, SeqCst);
            }
        });
        let exchange = |round| {
            std::thread::sleep(pause);
            let began = Instant::now();
            said.store(round, SeqCst);
            if !pause.is_zero() {
                let _ = futex::wake(&said, futex::Flags::empty(), 1);
            }
            while heard.load(SeqCst) != round {
                std::hint::spin_loop();
            }
            began.elapsed().as_nanos() as u64
        };
        (1..=rounds).map(exchange).collect()
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let socket = arguments.next().ok_or("which socket?")?;
    let pause_us: u64 = arguments.next().map_or(Ok(0), |text| text.parse())?;
    let mut fabric = ShmFabric::new(vec![connect(Path::new(&socket))?], ShmOptions::default())?;
    let mut scratch = vec![0; 4096];
    let lanes = [Lane::new(LaneId(0), &mut scratch)];
    let port = lanes[0].port();
    let mut run = |request: Request| -> (u64, Completion) {
        let began = Instant::now();
        port.push(request);
        port.flush();
        let mut ready = fabric.post(&lanes, 0) == dm_core::fabric::Posted::Completed;
        while !ready {
            fabric.poll(&lanes, &mut |_| ready = true);
        }
        let completion = port.completion(0);
        let ns = began.elapsed().as_nanos() as u64;
        port.reset();
        (ns, completion)
    };
    let parameters = Parameters::with_sizes(8, 8);
    let nodes = Nodes { index: 1, leaf: parameters.leaf(), inner: parameters.inner(), exposure_ns_max: u32::MAX };
    let from = Address::new(NodeId(0), AT, 0);
    let search = Search { from, level: 0, nodes, key: &[0; 8], task: Task::Search };
    let (mut reads, mut calls, mut served) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        reads.push(run(Request::read(Label::Tool, NodeId(0), AT, 1024, 0)).0);
        let bytes = port.with(|scratch| search.encode(scratch)).ok_or("a request that does not fit")?;
        if pause_us > 0 {
            std::thread::sleep(Duration::from_micros(pause_us));
        }
        let (ns, completion) = run(Request::call(Label::Tool, NodeId(0), 0, bytes, ANSWER_HEADER_BYTES + 8));
        if completion.status == Status::Ok {
            calls.push(ns);
            served.push(u64::from(CallAnswer(completion.value).service_ns()));
        }
    }
    println!("{} of {ROUNDS} calls answered; ns at 10, 50, 90 %:", calls.len());
    let pause = Duration::from_micros(pause_us);
    let bare = if pause.is_zero() { "a word there and back" } else { "a bare wake-up" };
    let all = [
        ("READ of 1 KiB", reads),
        ("call", calls),
        ("of that, the processor's work", served),
        (bare, exchanges(pause)),
    ];
    for (what, mut times) in all {
        times.sort_unstable();
        let at = |percent: usize| times.get(times.len() * percent / 100).copied().unwrap_or(0);
        println!("{what:<30} {:>8} {:>8} {:>8}", at(10), at(50), at(90));
    }
    Ok(())
}
