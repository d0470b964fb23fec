//! The daemon of one memory node: what the programs `dm-memd` and `dm memd` both run.
//!
//! **Restarts.** Anonymous memory (a memfd) ends with the daemon. A file, on tmpfs, hugetlbfs or a DAX device, stays as
//! its last writer left it, with every WRITE that was acknowledged. A daemon that is started on such a file, with the
//! same options, continues with it. It waits until no process has the file mapped any more ([`crate::region`]), raises
//! the pool's incarnation in the superblock, and serves. Compute nodes of the old incarnation have lost their
//! connections and get `NodeDown`; others fence their rows and recover their locks, as those of any dead node. All
//! memory nodes of a pool must have the same incarnation, or the pool cannot be opened. That distinguishes a memory
//! node that lost its memory (incarnation 1 again) from one that kept it, so that no process works on half a pool. So
//! restart them together, or with `--incarnation`.

pub use super::arguments::Arguments;
use super::arguments::{FabricKind, Lines};
use super::{ServeOptions, log, serve, sweeper};
use crate::fabric::shm::litmus;
use crate::pool;
use crate::region::layout::DEVICE_BYTES_DEFAULT;
use crate::region::{LineMode, Region, RegionSpec, lines};
use dm_core::remote::row::Member;
use dm_core::verbs::NodeId;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::mpsc::Sender;

/// Runs the daemon until it is told to stop, as a program called `program`.
pub fn main(program: &str, arguments: &Arguments) -> ExitCode {
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{program}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let with_file = arguments.with_file()?;
    let arguments = with_file.as_ref().unwrap_or(arguments);
    log::start(arguments.log_level);
    if arguments.exit_with_parent {
        let parent = getppid();
        set_parent_process_death_signal(Some(Signal::TERM))?;
        if getppid() != parent {
            return Err("the process that started this one is gone".into());
        }
    }
    if !arguments.sweep_rows.is_empty() {
        let sockets: Vec<_> = arguments.socket.iter().chain(&arguments.peers).cloned().collect();
        return Ok(sweeper::sweep(&sockets, &arguments.sweep_rows)?);
    }
    let (stop, raise) = UnixStream::pair()?;
    for signal in [SIGTERM, SIGINT] {
        signal_hook::low_level::pipe::register(signal, raise.try_clone()?)?;
    }
    match arguments.fabric {
        FabricKind::Shm => run_shm(arguments, stop.as_fd()),
        #[cfg(feature = "verbs")]
        FabricKind::Verbs => super::verbs::run(arguments, stop.as_fd()),
        #[cfg(not(feature = "verbs"))]
        FabricKind::Verbs => Err("--fabric verbs: this program was built without it; install libibverbs-dev, \
                                  librdmacm-dev, libclang-dev and pkg-config and build with `--features verbs`"
            .into()),
    }
}

fn run_shm(arguments: &Arguments, stop: BorrowedFd<'_>) -> Result<(), Box<dyn Error>> {
    let (mode, grounds) = choose_lines(arguments.lines)?;
    let device_bytes = arguments.device_size.unwrap_or(u64::from(DEVICE_BYTES_DEFAULT));
    let spec = RegionSpec {
        region_bytes: arguments.size()?,
        device_bytes: u32::try_from(device_bytes).map_err(|_| "--device-size: at most 1 GiB")?,
        mode,
        backing: arguments.backing(),
    };
    let region = Region::create(&spec)?;
    let mut options = ServeOptions {
        socket: arguments.socket.clone().ok_or("--fabric shm needs --socket PATH")?,
        node_id: NodeId(arguments.node_id),
        memory_nodes: arguments.memory_nodes,
        incarnation: arguments.incarnation.unwrap_or(1),
        metrics: arguments.metrics,
        call_threads: arguments.call_threads.into(),
        deaths: None,
    };
    options.check()?;
    let (plan, incarnation) = arguments.plan_for(&region, region.layout().device_bytes)?;
    options.incarnation = incarnation;
    // Before anything else, so that a region that cannot hold a pool is refused before the socket exists.
    let superblock = pool::format(&plan)?;
    options.deaths = start_sweeper(arguments, &options)?;
    let format = |region: &Region| region.write_image(0, &superblock);
    serve(region, &options, format, stop, |ready| {
        // The process that started the daemon may have closed its end of the pipe; that is no reason to stop.
        let _ = writeln!(std::io::stdout(), "{ready} ({grounds})");
        // Without a service manager there is none to tell.
        let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Ready]);
    })?;
    let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Stopping]);
    Ok(())
}

/// Starts to sweep after compute processes that die, where that is this daemon's task.
fn start_sweeper(arguments: &Arguments, options: &ServeOptions) -> std::io::Result<Option<Sender<Member>>> {
    if arguments.no_sweep || options.node_id != NodeId(0) {
        return Ok(None);
    }
    // There are more once memory nodes were added to the pool.
    if arguments.peers.len() + 1 < usize::from(options.memory_nodes) {
        tracing::info!(
            "rows of compute processes that die wait for `dm repair`: --peers would have to name the sockets of the \
             pool's other memory nodes, {} of them",
            options.memory_nodes - 1
        );
        return Ok(None);
    }
    // This program is `dm-memd`, or `dm` with a subcommand.
    let subcommand = std::env::args_os().nth(1).filter(|word| word == "memd");
    let mut program: Vec<OsString> = subcommand.into_iter().collect();
    program.extend(["--exit-with-parent".into(), "--socket".into(), options.socket.clone().into()]);
    if !arguments.peers.is_empty() {
        let peers: Vec<_> = arguments.peers.iter().map(|peer| peer.as_os_str()).collect();
        program.extend(["--peers".into(), peers.join(OsStr::new(","))]);
    }
    if let Some(level) = arguments.log_level {
        program.extend(["--log-level".into(), level.directive().into()]);
    }
    sweeper::start(program).map(Some)
}

/// The line mode, and on what grounds.
fn choose_lines(lines: Lines) -> Result<(LineMode, String), Box<dyn Error>> {
    match lines {
        Lines::Sequence => Ok((LineMode::Sequence, "as asked".to_owned())),
        Lines::Auto => {
            let litmus::Verdict { mode, litmus } = litmus::Verdict::of_this_machine();
            let grounds = litmus.map_or("no AVX-512".to_owned(), |litmus| format!("vectors: {litmus}"));
            Ok((mode, grounds))
        }
        Lines::Avx512 if !lines::vector_supported() => {
            Err("--lines avx512: this processor has no AVX-512; use --lines sequence".into())
        }
        Lines::Avx512 => match litmus::probe() {
            litmus if litmus.torn > 0 => {
                Err(format!("--lines avx512: lines tear on this machine: {litmus}; use --lines sequence").into())
            }
            litmus => Ok((LineMode::Vector, format!("vectors: {litmus}"))),
        },
    }
}
