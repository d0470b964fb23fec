//! What commands that work by hand share: a pool named on the command line, one lane, text for keys and values.

use crate::failure::Failure;
use crate::keys;
use crate::pool::{FabricName, Memory, RdmaArguments};
use dm_core::index::Index;
use dm_core::lane::Lane;
use dm_core::membership::lease::LeaseConfig;
use dm_core::operation::{Cause, Census, OpError, Operation, Outcome, Part};
use dm_core::verbs::LaneId;
use dm_host::assembly::Spending;
use dm_host::compute_node::{ComputeNode, Membership};
use dm_host::fabric::any::AnyFabric;
use dm_host::keeper::terms_here;
use dm_host::kinds::{AnyIndex, IndexParameters};
use dm_host::pool::{Pool, PoolError};
use dm_host::solo::block_on;
use std::fmt::Write as _;
use std::path::PathBuf;

/// A pool, by the control sockets or addresses of its memory nodes.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PoolArguments {
    /// All memory nodes of the pool: control sockets, or addresses with --fabric verbs
    #[arg(long, value_delimiter = ',', required = true, value_name = "SOCKET,...")]
    pub pool: Vec<PathBuf>,

    /// How memory nodes are reached
    #[arg(long, value_enum, default_value = "shm")]
    pub fabric: FabricName,

    #[command(flatten)]
    pub rdma: RdmaArguments,

    #[command(flatten)]
    lease: LeaseArguments,
}

impl PoolArguments {
    /// Connects.
    pub(crate) fn connect(&self) -> Result<Memory, Failure> {
        // Errors of the command line are reported first.
        self.lease.terms()?;
        Memory::connect(self.fabric, &self.pool, &self.rdma)
    }

    /// Joins as a compute node with one lane.
    pub(crate) fn join(&self, memory: &Memory) -> Result<ComputeNode, Failure> {
        memory.pool.join(1, Membership { terms: self.lease.terms()?, ..Membership::default() }).map_err(Failure::run)
    }

    /// The lease of compute nodes.
    pub(crate) fn terms(&self) -> Result<LeaseConfig, Failure> {
        self.lease.terms()
    }
}

/// How long a compute node may be without a heartbeat before others take it for dead.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct LeaseArguments {
    /// How long a compute node may be without a heartbeat before others take it for dead, in ms: the same for all of a
    /// pool
    /// [default: 10000 in a virtual machine, else 2000]
    #[arg(long, value_name = "MS")]
    lease_ms: Option<u64>,
}

/// A shorter lease mistakes every pause of a thread for a death, in ms.
const LEASE_MS_MIN: u64 = 100;

impl LeaseArguments {
    /// In the engine's words.
    pub fn terms(self) -> Result<LeaseConfig, Failure> {
        if self.lease_ms.is_some() { self.terms_or(0) } else { Ok(terms_here()) }
    }

    /// The same, with another default.
    pub fn terms_or(self, default_ms: u64) -> Result<LeaseConfig, Failure> {
        let ms = self.lease_ms.unwrap_or(default_ms);
        if ms < LEASE_MS_MIN {
            return Err(Failure::Usage(format!("--lease-ms {ms}: at least {LEASE_MS_MIN}")));
        }
        let ns = ms.checked_mul(1_000_000).ok_or_else(|| Failure::Usage(format!("--lease-ms {ms}: too large")))?;
        LeaseConfig::of(ns).map_err(|error| Failure::Usage(format!("--lease-ms {ms}: {error}")))
    }
}

/// Records of a page.
pub(crate) const PAGE_RECORDS: usize = 1000;

/// Why a walk through an index did not come to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WalkError {
    /// The index is damaged, or was changed meanwhile: what and where.
    #[error("{0}")]
    Damaged(String),
    /// It says nothing of the index.
    #[error("{0}")]
    Failed(String),
}

impl WalkError {
    fn of(error: OpError) -> Self {
        let is_damage = match error.cause {
            // Another status is of a pointer to where no memory is.
            Cause::Verb(error) => !error.effect_unknown(),
            Cause::Corrupt { .. } | Cause::Retries { .. } => true,
            _ => false,
        };
        // Not the whole error: that nothing was changed goes without saying.
        let what = error.cause.to_string();
        if is_damage { Self::Damaged(what) } else { Self::Failed(what) }
    }
}

/// An index opened on one lane.
pub(crate) struct Tool<'a, 'i, 's, 'm> {
    /// The index.
    pub index: AnyIndex<'a, 'i, 's>,
    /// The only lane.
    pub lane: &'a Lane<'m>,
    /// Its fabric.
    pub fabric: &'a mut AnyFabric,
    /// Sizes.
    pub parameters: IndexParameters,
    pool: &'a Pool,
    name: &'a str,
}

impl Tool<'_, '_, '_, '_> {
    /// Runs an operation whose arguments are in the scratch.
    pub(crate) fn execute(&mut self, operation: Operation) -> Result<Outcome, OpError> {
        let result = block_on(self.fabric, self.lane, self.index.execute(self.lane, operation));
        if self.lane.in_doubt() {
            // Its own error would say less than the operation's.
            let _ = block_on(self.fabric, self.lane, self.index.settle(self.lane));
        }
        result
    }

    /// Walks the index, which checks it, and returns what is in it. An index without a root must not have lost one.
    pub(crate) fn walk(&mut self) -> Result<Census, WalkError> {
        let census = block_on(self.fabric, self.lane, self.index.validate(self.lane)).map_err(WalkError::of)?;
        if census.levels == 0 {
            let failed = |error: PoolError| WalkError::Failed(error.to_string());
            let (entry, parameters) = self.pool.find_index(self.name).map_err(failed)?;
            if let Some(lost) = self.pool.lost_root(&entry, &parameters).map_err(failed)? {
                return Err(WalkError::Damaged(lost.to_string()));
            }
        }
        Ok(census)
    }

    /// [`Tool::walk`] for commands that do not tell damage from other failures.
    pub(crate) fn census(&mut self) -> Result<Census, Failure> {
        self.walk().map_err(Failure::run)
    }

    /// Puts a key and, for writes, a value into the scratch. `Err` names what has a length that is not allowed.
    pub(crate) fn arguments(&self, key: &[u8], value: Option<&[u8]>) -> Result<(), String> {
        let plan = self.index.plan();
        let wrong = |what: &str, bytes: usize, most: usize| {
            let up_to = if plan.has_lengths() { "up to " } else { "" };
            format!("{what} of {bytes} bytes: this index has {what}s of {up_to}{most}")
        };
        self.lane.port().with(|scratch| {
            if !plan.put(scratch, Part::Key, key) {
                return Err(wrong("key", key.len(), plan.key_bytes));
            }
            match value {
                Some(value) if !plan.put(scratch, Part::Value, value) => {
                    Err(wrong("value", value.len(), plan.value_bytes))
                }
                _ => Ok(()),
            }
        })
    }

    /// The least key there is.
    pub(crate) fn least_key(&self) -> Vec<u8> {
        if self.index.plan().has_lengths() { Vec::new() } else { vec![0; self.index.plan().key_bytes] }
    }

    /// A key or a value, as people write it: see [`parse`]; where they have any length, see [`parse_item`].
    pub(crate) fn parse(&self, text: &str, part: Part) -> Result<Vec<u8>, String> {
        let plan = self.index.plan();
        let what = if part == Part::Key { "key" } else { "value" };
        if plan.has_lengths() { parse_item(text, what) } else { parse(text, plan.range(part).len(), what) }
    }

    /// The reverse of [`Tool::parse`].
    pub(crate) fn show(&self, bytes: &[u8]) -> String {
        if self.index.plan().has_lengths() { show_item(bytes) } else { show(bytes) }
    }

    /// Moves the cursor behind the last of the first `records` records of the page.
    pub(crate) fn go_on(&self, records: usize) {
        let plan = self.index.plan();
        self.lane.port().with(|scratch| {
            if let Some((key, _)) = plan.records(scratch, records).last() {
                let key = key.to_vec();
                // It was a key.
                let _ = plan.put(scratch, Part::Key, &key);
            }
        });
    }

    /// Calls `visit` with every record from the first on, in pages of one scan each: each record as of some instant
    /// of the walk. Keys that do not ascend are damage, and end it: from them the next page would go back, or skip records.
    pub(crate) fn each(&mut self, mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), Failure>) -> Result<u64, Failure> {
        // Its own copy of the reference: the plan is borrowed from the index, not from the tool.
        let index = self.index;
        let plan = index.plan();
        self.arguments(&self.least_key(), None).map_err(Failure::Run)?;
        let mut operation = Operation::scan(PAGE_RECORDS as u32);
        let mut count = 0;
        let mut last: Option<Vec<u8>> = None;
        loop {
            let outcome = self.execute(operation).map_err(Failure::run)?;
            let Outcome::Page { records, more } = outcome else { return Ok(count) };
            self.lane.port().with(|scratch| {
                plan.records(scratch, records as usize).try_for_each(|(key, value)| {
                    if let Some(last) = last.as_deref().filter(|last| key <= *last) {
                        let (key, last) = (self.show(key), self.show(last));
                        return Err(Failure::Run(format!("the index is damaged: key {key} comes behind key {last}")));
                    }
                    let held = last.get_or_insert_default();
                    held.clear();
                    held.extend_from_slice(key);
                    visit(key, value)
                })
            })?;
            self.go_on(records as usize);
            count += u64::from(records);
            operation.after = true;
            if !more {
                return Ok(count);
            }
        }
    }
}

/// Opens index `name` on one lane of `node`.
pub(crate) fn with_tool<R>(
    node: &ComputeNode,
    name: &str,
    run: impl FnOnce(&mut Tool<'_, '_, '_, '_>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let (entry, parameters) = node.pool().find_index(name).map_err(Failure::run)?;
    node.pool().check_root(&entry, &parameters).map_err(Failure::run)?;
    let mut fabric = node.pool().fabric().map_err(Failure::run)?;
    let spending = Spending { page_records: PAGE_RECORDS, ..Spending::default() };
    node.with_index(&entry, &parameters, &spending, |index| {
        let mut scratch = vec![0; index.plan().total_bytes];
        let lane = Lane::new(LaneId(0), &mut scratch);
        let pool = node.pool();
        run(&mut Tool { index, lane: &lane, fabric: &mut fabric, parameters, pool, name })
    })
    .map_err(Failure::run)?
}

/// A key or a value, as people write it, into a slot of `bytes` bytes: `u64:123` is eight bytes, most significant
/// first, then zeros; `hex:0a0b..` all bytes of the slot; anything else text, in the encoding of [`keys`].
pub(crate) fn parse(text: &str, bytes: usize, what: &str) -> Result<Vec<u8>, String> {
    let mut slot = vec![0; bytes];
    if let Some(number) = text.strip_prefix("u64:") {
        let number: u64 = number.parse().map_err(|_| format!("{what} {text:?}: u64: wants a number of 64 bits"))?;
        slot[..8].copy_from_slice(&number.to_be_bytes());
    } else if let Some(digits) = text.strip_prefix("hex:") {
        if digits.len() != 2 * bytes || !digits.is_ascii() {
            return Err(format!("{what} {text:?}: hex: wants {} digits, for {bytes} bytes", 2 * bytes));
        }
        for (at, byte) in slot.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16)
                .map_err(|_| format!("{what} {text:?}: not a hexadecimal digit"))?;
        }
    } else {
        let most = text_bytes_max(bytes);
        if text.len() > most {
            return Err(format!("{what} of {} bytes: slots of {bytes} bytes hold up to {most}", text.len()));
        }
        slot[..text.len()].copy_from_slice(text.as_bytes());
        if bytes <= 256 {
            slot[bytes - 1] = text.len() as u8;
        } else {
            slot[bytes - 2..].copy_from_slice(&(text.len() as u16).to_be_bytes());
        }
    }
    Ok(slot)
}

/// A key or a value of any length, as people write it: `u64:123` is eight bytes, most significant first, `hex:0a0b..` any
/// bytes, anything else text.
pub(crate) fn parse_item(text: &str, what: &str) -> Result<Vec<u8>, String> {
    if let Some(number) = text.strip_prefix("u64:") {
        let number: u64 = number.parse().map_err(|_| format!("{what} {text:?}: u64: wants a number of 64 bits"))?;
        return Ok(number.to_be_bytes().to_vec());
    }
    let Some(digits) = text.strip_prefix("hex:") else { return Ok(text.as_bytes().to_vec()) };
    if digits.len() % 2 != 0 || !digits.is_ascii() {
        return Err(format!("{what} {text:?}: hex: wants two digits a byte"));
    }
    let byte = |at: usize| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16);
    let bytes: Result<_, _> = (0..digits.len() / 2).map(byte).collect();
    bytes.map_err(|_| format!("{what} {text:?}: not a hexadecimal digit"))
}

/// The reverse of [`parse_item`].
pub(crate) fn show_item(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok("") => "\"\"".to_owned(),
        Ok(text) if plain(text) => quoted(text),
        _ => hex(bytes),
    }
}

/// Text that fits into a slot: its length takes the last byte, or two if one is too small.
fn text_bytes_max(bytes: usize) -> usize {
    if bytes <= 256 { bytes - 1 } else { bytes - 2 }
}

/// The reverse of [`parse`]: text if it is text, else a number if it is one, else hexadecimal digits.
pub(crate) fn show(slot: &[u8]) -> String {
    let text = if slot.len() <= 256 {
        keys::decode(slot)
    } else {
        let (held, length) = slot.split_at(slot.len() - 2);
        let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
        held.split_at_checked(length).filter(|(_, rest)| rest.iter().all(|&byte| byte == 0)).map(|(text, _)| text)
    };
    if let Some(text) = text.and_then(|text| std::str::from_utf8(text).ok())
        && !text.is_empty()
        && plain(text)
    {
        return quoted(text);
    }
    if let Some((number, rest)) = slot.split_first_chunk::<8>()
        && rest.iter().all(|&byte| byte == 0)
    {
        return format!("u64:{}", u64::from_be_bytes(*number));
    }
    hex(slot)
}

/// Whether text can be typed as it is.
fn plain(text: &str) -> bool {
    !text.starts_with("u64:") && !text.starts_with("hex:") && text.chars().all(|letter| !letter.is_control())
}

fn quoted(text: &str) -> String {
    if text.contains([' ', '"', '\\']) { format!("{text:?}") } else { text.to_owned() }
}

fn hex(bytes: &[u8]) -> String {
    let mut digits = String::from("hex:");
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_can_be_typed_again() {
        for bytes in [8, 16, 64, 300] {
            let texts = ["a", "hello w", "u64:7", "say \"hi", "ü"];
            for text in texts {
                let slot = parse(text, bytes, "key").unwrap();
                let shown = show(&slot);
                let words = crate::commands::shell::words(&shown).unwrap();
                assert_eq!(words.len(), 1, "{shown}");
                assert_eq!(parse(&words[0], bytes, "key").unwrap(), slot, "{text} {shown}");
            }
            let slot: Vec<u8> = (0..bytes).map(|at| at as u8 ^ 0xa5).collect();
            assert_eq!(parse(&show(&slot), bytes, "key").unwrap(), slot);
        }
    }

    #[test]
    fn items_that_are_shown_can_be_typed_again() {
        for item in [&b""[..], b"a", b"u64:7", b"say \"hi", "ü x".as_bytes(), b"\xff\0", b"\n", &[7; 200]] {
            let words = crate::commands::shell::words(&show_item(item)).unwrap();
            assert_eq!(words.len(), 1, "{item:?}");
            assert_eq!(parse_item(&words[0], "key").unwrap(), item);
        }
        assert_eq!(parse_item("u64:258", "key").unwrap(), [0, 0, 0, 0, 0, 0, 1, 2]);
        assert!(parse_item("hex:0", "key").is_err() && parse_item("hex:zz", "key").is_err());
    }

    #[test]
    fn what_does_not_fit_is_refused_with_its_limit() {
        assert_eq!(parse("12345678", 8, "key").unwrap_err(), "key of 8 bytes: slots of 8 bytes hold up to 7");
        assert!(parse("u64:x", 8, "key").is_err());
        assert!(parse("hex:00", 8, "key").is_err());
        assert!(parse("hex:zz00000000000000", 8, "key").is_err());
    }
}
