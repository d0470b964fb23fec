//! Dumps of indexes whose memory was damaged.

use super::*;
use crate::kinds::is_radix;
use crate::tool::with_tool;
use dm_core::layout::checksum::of_record;
use dm_core::operation::{Operation, OperationKind};
use dm_core::registry::KINDS;
use dm_core::remote::superblock::PoolPlan;
use dm_core::verbs::{NodeId, Space};
use dm_host::assembly::Spending;
use dm_host::compute_node::{ComputeNode, Membership};
use dm_host::fabric::shm::ShmOptions;
use dm_host::memory_node::RemoteNode;
use dm_host::pool::{Pool, format, pool_id};
use dm_host::region::{Backing, LineMode, Region, RegionSpec};
use dm_sim::rng::Rng;
use std::collections::BTreeMap;
use std::ops::Range;
use std::slice;
use std::sync::Arc;

const REGION_BYTES: u64 = 1 << 20;
const NAME: &str = "it";

/// A pool of one memory node within this process, and a compute node.
struct Small {
    memory: Arc<RemoteNode>,
    node: ComputeNode,
    heap: Range<u64>,
}

impl Small {
    fn new() -> Self {
        let (region_bytes, device_bytes, mode) = (REGION_BYTES, 4096, LineMode::Sequence);
        let spec = RegionSpec { region_bytes, device_bytes, mode, backing: Backing::Memfd };
        let region = Region::create(&spec).expect("a MiB of memory");
        let plan = PoolPlan {
            pool_id: pool_id("small").expect("a name"),
            pool_incarnation: 1,
            node: NodeId(0),
            nodes: 1,
            region_bytes,
            chunk_bytes: 64 << 10,
            lock_count: 128,
            device_bytes: u64::from(device_bytes),
            redo_row_bytes: 0,
            index_count: 15,
        };
        region.write_image(0, &format(&plan).expect("a plan that fits")).expect("it is inside");
        let memory = Arc::new(RemoteNode::in_process(region));
        let pool = Pool::of(vec![("here".into(), Arc::clone(&memory))], ShmOptions::default()).expect("a pool");
        let heap = pool.geometry()[0].heap..REGION_BYTES;
        let node = Arc::new(pool).join(1, Membership::default()).expect("a row");
        Self { memory, node, heap }
    }

    fn peek(&self, place: Range<u64>) -> Vec<u8> {
        let mut bytes = vec![0; (place.end - place.start) as usize];
        self.memory.region().area(Space::Host).read(place.start, &mut bytes).expect("it is inside");
        bytes
    }

    fn poke(&self, offset: u64, bytes: &[u8]) {
        self.memory.region().write_image(offset, bytes).expect("it is inside");
    }

    /// A command's view of the index: each joins anew. A row has an index with a log once.
    fn with_tool<R>(&self, run: impl FnOnce(&mut Tool<'_, '_, '_, '_>) -> Result<R, Failure>) -> Result<R, Failure> {
        let node = self.node.pool().join(1, Membership::default()).map_err(Failure::run)?;
        with_tool(&node, NAME, run)
    }

    fn root_offset(&self) -> u64 {
        let (entry, _) = self.node.pool().find_index(NAME).expect("it is there");
        entry.root_offset(&self.node.pool().geometry()[0])
    }

    /// The records of a dump that succeeded, and had nothing else to say.
    fn dump(&self, walks: bool) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, Failure> {
        let mut bytes = Vec::new();
        self.with_tool(|tool| {
            let census = if walks { Some(walked(tool)?) } else { None };
            write_dump(slice::from_mut(tool), &mut bytes, Path::new("it"), census.map(|census| census.records))?;
            census.as_ref().and_then(left).map_or(Ok(()), |left| Err(Failure::Run(left)))
        })?;
        let mut reader = Reader::new(&*bytes, Path::new("it"))?;
        let mut records = BTreeMap::new();
        while let Some((key, value)) = reader.next()? {
            records.insert(key.to_vec(), value.to_vec());
        }
        Ok(records)
    }
}

const RECORDS: u64 = 1500;

/// Inserts records with keys all over and in runs, deletes some.
fn fill(tool: &mut Tool<'_, '_, '_, '_>) -> Result<(), Failure> {
    let mut rng = Rng::new(1);
    for n in 0..RECORDS {
        let key = if n % 3 == 0 { rng.bits() } else { 0x0102_0304_0000_0000 + n };
        tool.arguments(&key.to_be_bytes(), Some(&n.to_le_bytes())).map_err(Failure::Run)?;
        tool.execute(Operation::point(OperationKind::Upsert)).map_err(Failure::run)?;
        if n % 10 == 4 {
            tool.execute(Operation::point(OperationKind::Delete)).map_err(Failure::run)?;
        }
    }
    Ok(())
}

/// A key of an index with keys of any length. Most share a beginning of 55 bytes or more, so that an entry leads to their
/// layer: to many records, to a few, or to one that is left after the deletes. Some go on for several layers.
fn long_key(n: u64) -> Vec<u8> {
    let group = match n % 4 {
        0 => 0,
        1 => n % 64,
        2 => n % 512,
        _ => n,
    };
    let deep = if n.is_multiple_of(5) { "deep".repeat(30) } else { String::new() };
    format!("{group:04}/{:52}{deep}{n}", "shared").into_bytes()
}

/// Inserts records with long keys and short keys, with values in their entries and elsewhere, and deletes some.
fn fill_any_length(tool: &mut Tool<'_, '_, '_, '_>) -> Result<(), Failure> {
    for n in 0..RECORDS {
        let (key, value) = (long_key(n), n.to_string().repeat(1 + n as usize % 6));
        tool.arguments(&key, Some(value.as_bytes())).map_err(Failure::Run)?;
        tool.execute(Operation::point(OperationKind::Insert)).map_err(Failure::run)?;
        if n % 10 == 4 {
            tool.execute(Operation::point(OperationKind::Delete)).map_err(Failure::run)?;
        }
    }
    Ok(())
}

fn any_length_kinds() -> impl Iterator<Item = IndexParameters> {
    let lengths = AnyLength { key_bytes_max: 250, value_bytes_max: 100 };
    KINDS.iter().map(move |&kind| IndexParameters::with_any_length(kind, lengths).expect("a kind of this program"))
}

fn kinds() -> impl Iterator<Item = IndexParameters> {
    KINDS.iter().map(|&kind| IndexParameters::with_sizes(kind, 8, 8).expect("a kind of this program"))
}

/// The same indexes with checksums of records.
fn checksummed_kinds() -> impl Iterator<Item = IndexParameters> {
    kinds().chain(any_length_kinds()).map(IndexParameters::with_checksums)
}

/// Damaged bytes for each kind of index, one at a time: `DM_DAMAGED_BYTES`, or 150. As many with keys and values of any length, and
/// as many of each with checksums.
fn damaged_bytes() -> u32 {
    std::env::var("DM_DAMAGED_BYTES").map_or(150, |text| text.parse().expect("a number of bytes"))
}

/// Damages an index of many records, one byte at a time, and dumps it.
fn damage(parameters: &IndexParameters) {
    let any_length = parameters.any_length.is_some();
    let small = Small::new();
    small.node.create_index(NAME, parameters).expect("a new name");
    with_tool(&small.node, NAME, if any_length { fill_any_length } else { fill }).expect("it has room");
    let right = small.dump(true).expect("nothing is damaged");
    assert_eq!(right.len() as u64, RECORDS - RECORDS / 10);
    // With the chunk table: a dump that fails may leave chunks of its compute node behind, and a full pool tells nothing.
    let all = small.peek(0..REGION_BYTES);
    let before = &all[small.heap.start as usize..];
    let end = before.iter().rposition(|&byte| byte != 0).expect("nodes");
    let begin = before.iter().position(|&byte| byte != 0).expect("nodes");
    let is_dolphin = parameters.kind() == IndexKind::Dolphin && !any_length;
    let mut rng = Rng::new(7);
    let [mut told, mut unharmed, mut one, mut mark, mut others] = [0; 5];
    for _ in 0..damaged_bytes() {
        let (at, change) = loop {
            let at = begin + rng.below((end - begin) as u32 + 1) as usize;
            // Lines that were never written belong to no node.
            if before[at & !63..][..64].iter().any(|&byte| byte != 0) {
                break (at, 1 + rng.below(255) as u8);
            }
        };
        small.poke(small.heap.start + at as u64, &[before[at] ^ change]);
        match small.dump(true) {
            Err(_) => told += 1,
            Ok(found) if found == right => unharmed += 1,
            Ok(found) => {
                let missing = right.iter().filter(|(key, value)| found.get(*key) != Some(*value)).count();
                let new: Vec<_> = found.iter().filter(|(key, value)| right.get(*key) != Some(*value)).collect();
                *(match (missing, new.as_slice()) {
                    // Of an entry that is not in use; or a value of Dolphin that was the leaf's word for "absent", or is it now.
                    (0, [(_, value)]) if value.iter().all(|&byte| byte == 0) => &mut mark,
                    (1, []) | (0, [_]) if is_dolphin => &mut mark,
                    (1, [_]) => &mut one,
                    _ => &mut others,
                }) += 1;
            }
        }
        small.poke(0, &all);
    }
    assert_eq!(small.dump(true).expect("the damage is gone"), right);
    let kind = parameters.kind().name();
    let kind = if any_length { format!("any length over {kind}") } else { kind.to_owned() };
    let kind = if parameters.checksums { format!("{kind} with checksums") } else { kind };
    println!(
        "{kind}: {told} told, {unharmed} unharmed, {mark} with one entry less or more, {one} with another entry, {others} with others"
    );
    assert!(told > 0 && others == 0, "{kind}");
    let every_record_has_one = parameters.records_have_checksums();
    assert!(one + mark == 0 || !every_record_has_one, "{kind}");
    assert!(mark == 0 || !any_length, "{kind}: no slot is zero");
}

/// Of several hundred indexes with one wrong byte each, one was dumped with other records, and the program reported
/// success. A key had moved elsewhere and sent the next page there, and a node that could not be reached was not
/// missed.
///
/// Damage within one entry of a leaf of many records cannot be detected: see the beginning of the file. All other
/// damage has to be reported. With keys of any length, an entry may lead to many records, and is missed if it is lost.
#[test]
fn a_dump_of_a_damaged_index_fails_or_is_right_but_for_one_entry() {
    kinds().chain(any_length_kinds()).for_each(|parameters| damage(&parameters));
}

/// With checksums of records all damage has to be reported. Once a mark that an entry is in use could change: the dump lacked a
/// record, or had one that was deleted.
#[test]
fn a_dump_of_a_damaged_index_with_checksums_fails_or_is_right() {
    checksummed_kinds().for_each(|parameters| damage(&parameters));
}

/// Records of an index of which every bit is changed.
const FEW: u64 = 5;

/// Every bit of the lines that have records of a small index with checksums changes once: a dump fails, or has all records. Once, a
/// bit that said whether an entry was in use lost a record, or brought a deleted one back. DEX has the leaves of Sherman.
#[test]
fn a_bit_that_changes_in_an_index_with_checksums_is_told_or_harmless() {
    let kinds = kinds().filter(|parameters| parameters.kind() != IndexKind::Dex);
    for parameters in kinds.map(IndexParameters::with_checksums) {
        let small = Small::new();
        small.node.create_index(NAME, &parameters).expect("a new name");
        // The first one is of zeros.
        let record =
            |n: u64| (if n == 0 { [0; 8] } else { (0x0102_0304_0000_0000 + n).to_be_bytes() }, (3 * n).to_le_bytes());
        with_tool(&small.node, NAME, |tool| {
            for (key, value) in (0..FEW).map(record) {
                tool.arguments(&key, Some(&value)).map_err(Failure::Run)?;
                tool.execute(Operation::point(OperationKind::Insert)).map_err(Failure::run)?;
            }
            tool.execute(Operation::point(OperationKind::Delete)).map_err(Failure::run)
        })
        .expect("it has room");
        let right = small.dump(true).expect("nothing is damaged");
        assert_eq!(right.len() as u64, FEW - 1);
        let before = small.peek(small.heap.clone());
        // What its keys have in common, or a checksum.
        let parts = (0..FEW).map(record).flat_map(|(key, value)| [key[..4].to_vec(), of_record(&key, &value).to_vec()]);
        let parts: Vec<_> = parts.filter(|part| *part != [0; 4]).collect();
        let has_part = |line: &[u8]| parts.iter().any(|part| line.windows(4).any(|bytes| bytes == part));
        let [mut told, mut unharmed] = [0; 2];
        for (line, _) in before.chunks(64).enumerate().filter(|(_, line)| has_part(line)) {
            for (at, bit) in (line * 64..(line + 1) * 64).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
                small.poke(small.heap.start + at as u64, &[before[at] ^ 1 << bit]);
                match small.dump(true) {
                    Err(_) => told += 1,
                    Ok(found) => {
                        assert_eq!(found, right, "{parameters}: bit {bit} of {at:#x}");
                        unharmed += 1;
                    }
                }
                small.poke(small.heap.start, &before);
            }
        }
        println!("{}: {told} told, {unharmed} unharmed", parameters.kind().name());
        assert!(told > 0);
    }
}

/// A root word that was overwritten made an index look empty. A dump of it had no records and succeeded, and the next
/// insert would have begun a new tree.
#[test]
fn an_index_that_lost_its_root_is_not_empty() {
    for parameters in kinds() {
        let small = Small::new();
        small.node.create_index(NAME, &parameters).expect("a new name");
        assert_eq!(small.dump(true).expect("it is new").len(), 0);
        with_tool(&small.node, NAME, fill).expect("it has room");
        let root = small.root_offset();
        small.poke(root, &[0; 8]);
        let pool = Arc::clone(small.node.pool());
        let (entry, _) = pool.find_index(NAME).expect("it is there");
        if is_radix(&parameters) {
            // Its compute node is in the pool: it may be in the middle of a bulk load.
            assert_eq!(pool.lost_root(&entry, &parameters).expect("it can be READ"), None);
            let Small { memory, node, heap } = small;
            drop(node);
            let node = pool.join(1, Membership::default()).expect("a row");
            let small = Small { memory, node, heap };
            let error = small.dump(true).expect_err("there are records").to_string();
            assert!(error.contains("root word is 0") && error.contains("bulk load"), "{error}");
            small.dump(false).expect("it is open to all");
        } else {
            for walks in [false, true] {
                let error = small.dump(walks).expect_err("there is a root").to_string();
                assert!(error.contains("root word is 0") && error.contains("overwritten"), "{error}");
            }
        }
    }
}

/// A compute node that dies before it has set the root word leaves an empty index.
#[test]
fn an_index_that_never_had_a_root_is_empty() {
    for parameters in kinds() {
        let small = Small::new();
        let entry = small.node.create_index(NAME, &parameters).expect("a new name");
        // A bulk load that is not finished.
        with_tool(&small.node, NAME, |tool| {
            for n in 0..RECORDS {
                tool.arguments(&n.to_be_bytes(), Some(&n.to_le_bytes())).map_err(Failure::Run)?;
                block_on(tool.fabric, tool.lane, tool.index.bulk_append(tool.lane)).map_err(Failure::run)?;
            }
            Ok(())
        })
        .expect("it has room");
        assert!(small.peek(small.heap.clone()).iter().any(|&byte| byte != 0), "nodes were written");
        assert_eq!(small.dump(true).expect("nothing is lost").len(), 0);
        // A first leaf that was written, and no root word.
        let (small, entry) = if is_radix(&parameters) {
            (small, entry)
        } else {
            let small = Small::new();
            let entry = small.node.create_index(NAME, &parameters).expect("a new name");
            // The creation of a DEX makes all leaves, and the nodes above them, before the root word.
            if parameters.kind() != IndexKind::Dex {
                small
                    .with_tool(|tool| {
                        tool.arguments(&[7; 8], Some(&[7; 8])).map_err(Failure::Run)?;
                        tool.execute(Operation::point(OperationKind::Insert)).map_err(Failure::run)?;
                        tool.execute(Operation::point(OperationKind::Delete)).map_err(Failure::run)
                    })
                    .expect("it has room");
                small.poke(small.root_offset(), &[0; 8]);
            }
            (small, entry)
        };
        assert_eq!(small.dump(true).expect("nothing is lost").len(), 0);
        // And it can be used.
        let open = small.node.with_index(&entry, &parameters, &Spending::default(), |_| ());
        open.expect("it opens");
        small.with_tool(fill).expect("it has room");
        assert_eq!(small.dump(true).expect("nothing is damaged").len() as u64, RECORDS - RECORDS / 10);
    }
}

/// In an index that is in use only the scan can report damage. A page that ended with a key that is too high left
/// records out.
#[test]
fn a_key_that_does_not_ascend_ends_a_dump_without_a_walk() {
    let small = Small::new();
    small.node.create_index(NAME, &kinds().next().expect("a kind")).expect("a new name");
    with_tool(&small.node, NAME, fill).expect("it has room");
    let right = small.dump(false).expect("nothing is damaged");
    let before = small.peek(small.heap.clone());
    let mut told = 0;
    for key in right.keys().step_by(50) {
        let Some(at) = before.windows(key.len()).position(|bytes| bytes == key) else { continue };
        small.poke(small.heap.start + at as u64, &[0xff]);
        told += usize::from(small.dump(false).is_err_and(|error| error.to_string().contains("comes behind key")));
        small.poke(small.heap.start, &before);
    }
    assert!(told > 0, "keys that do not ascend were dumped");
}

/// A node that the scan did not reach was not missed.
#[test]
fn a_dump_of_fewer_records_than_the_walk_counted_fails() {
    for parameters in kinds() {
        let small = Small::new();
        small.node.create_index(NAME, &parameters).expect("a new name");
        with_tool(&small.node, NAME, fill).expect("it has room");
        let dumped = small.with_tool(|tool| {
            let wanted = walked(tool)?.records + 1;
            write_dump(slice::from_mut(tool), &mut Vec::new(), Path::new("it"), Some(wanted))
        });
        let error = dumped.expect_err("a record is missing").to_string();
        assert!(error.contains("a scan found"), "{error}");
    }
}

/// A dump of `kind` with so many records: keys ascend, each value is its key's number.
fn dump_of(parameters: &IndexParameters, records: u64) -> Vec<u8> {
    let mut bytes = header(parameters).to_vec();
    for n in 0..records {
        bytes.push(1);
        bytes.extend(n.to_be_bytes());
        bytes.extend(n.to_le_bytes());
    }
    bytes.push(0);
    bytes.extend(records.to_le_bytes());
    let crc = CRC.checksum(&bytes);
    bytes.extend(crc.to_le_bytes());
    bytes
}

/// A dump that a program wrote whose links had no checksums.
#[test]
fn a_dump_of_an_earlier_format_of_items_is_read() {
    for parameters in any_length_kinds() {
        let small = Small::new();
        small.node.create_index(NAME, &parameters).expect("a new name");
        with_tool(&small.node, NAME, fill_any_length).expect("it has room");
        let mut dump = Vec::new();
        small.with_tool(|tool| write_dump(slice::from_mut(tool), &mut dump, Path::new("it"), None)).expect("a dump");
        let sealed = |mut dump: Vec<u8>, version: u8| {
            let (at, end) = (HEADER_BYTES - 8 + 2, dump.len() - 4);
            assert_eq!(dump[at], 2, "where the version is");
            dump[at] = version;
            let crc = CRC.checksum(&dump[..end]);
            dump[end..].copy_from_slice(&crc.to_le_bytes());
            dump
        };
        let found = small.dump(true).expect("nothing is damaged");
        assert_eq!(check_dump(&*sealed(dump.clone(), 1)), Ok(found.len() as u64));
        assert_eq!(check_dump(&*sealed(dump.clone(), 2)), Ok(found.len() as u64));
        let newer = check_dump(&*sealed(dump, 3)).expect_err("a format of the future");
        assert!(newer.contains("in format 3; this program reads and writes format 2"), "{newer}");
    }
}

/// Puts a dump with four lanes.
fn put_with_four(small: &Small, dump: &[u8]) -> Result<u64, Failure> {
    let node = small.node.pool().join(4, Membership::default()).map_err(Failure::run)?;
    with_tools(&node, NAME, 4, |tools| {
        tools.first_mut().map_or(Ok(()), Tool::take_all_keys)?;
        let mut reader = Reader::new(dump, Path::new("it"))?;
        put::put(tools, &mut reader, &ProgressBar::hidden())?;
        Ok(reader.count)
    })
}

/// A file that was sound when it was checked may have changed when it is read again. A lane may find no memory. Neither must
/// look like a load of all records.
#[test]
fn several_lanes_put_all_records_or_the_load_fails() {
    for parameters in kinds() {
        let kind = parameters.kind().name();
        let small = Small::new();
        small.node.create_index(NAME, &parameters).expect("a new name");
        let right = dump_of(&parameters, 3000);
        let mut damaged = right.clone();
        // The marker of a record in the third part.
        damaged[HEADER_BYTES + 17 * 2500] = 7;
        let error = put_with_four(&small, &damaged).expect_err("it is damaged").to_string();
        assert!(error.contains("damaged: byte 0x07 where record 2500 begins"), "{kind}: {error}");
        // What it has put is right.
        let number = |key: &[u8]| u64::from_be_bytes(key.try_into().expect("8 bytes")).to_le_bytes().to_vec();
        let found = small.dump(true).expect("nothing is damaged");
        assert!(found.iter().all(|(key, value)| *value == number(key)), "{kind}");
        // As many as end with a part, too.
        for records in [2048, 3000] {
            let put = put_with_four(&small, &dump_of(&parameters, records)).expect("nothing is damaged");
            assert_eq!(put, records, "{kind}");
        }
        let found = small.dump(true).expect("nothing is damaged");
        assert!(found.len() == 3000 && found.iter().all(|(key, value)| *value == number(key)), "{kind}");
        let error = put_with_four(&small, &dump_of(&parameters, 100_000)).expect_err("a MiB of memory").to_string();
        assert!(!error.contains("damaged"), "{kind}: {error}");
    }
}
