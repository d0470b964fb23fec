//! The row of a compute node.

use super::values::{error, hex, value};
use super::{Sample, Structure};
use dm_core::remote::address::Address;
use dm_core::remote::lock_word::RowId;
use dm_core::remote::row::{Joiner, Member, Row, RowState, RowWord};
use dm_core::verbs::NodeId;
use zerocopy::IntoBytes;

pub(super) const MEMBER: Member = Member { row: RowId(9), incarnation: 2, nonce: 0xabc_def1 };

pub(super) const ROW: Structure = Structure {
    name: "row",
    title: "compute-node row: one compute node of the pool",
    text: "Two lines; those of memory node 0 count, row 0 is nobody. All zero is a free row that nobody ever joined. The\n\
           row word is changed by CAS only; the compute node WRITEs the rest. While the incarnation of the rest is not\n\
           that of the word, or the token does not end in its nonce, the rest is of an earlier life and means nothing.",
    tables: &[("row", Row::FIELDS), ("row word", RowWord::FIELDS)],
    constants: &[
        ("INCARNATION_MAX", dm_core::remote::row::INCARNATION_MAX as u64, "a row that has seen it is used up"),
        ("ROW_COUNT_MAX", dm_core::remote::row::ROW_COUNT_MAX as u64, "rows there can be"),
    ],
    samples: || {
        let joiner = Joiner { token: 0x1234_5678_9abc_def1, lanes: 8, memory_nodes: 2, host: "cn-3.example" };
        let mut row = Row::of(MEMBER, &joiner);
        row.heartbeat = 77.into();
        row.epoch = 5.into();
        row.lease_us = 2_000_000.into();
        row.ring = Address::new(NodeId(1), 0x80_0000, 0).to_bits().into();
        let mut fencing = row;
        fencing.word = MEMBER.word().with_state(RowState::Fencing).0.into();
        let mut left = row;
        left.word = MEMBER.word().with_state(RowState::Free).0.into();
        let mut joining = row;
        joining.word = Member { incarnation: 3, nonce: 1, ..MEMBER }.word().0.into();
        let life = |state| {
            [
                ("state", state),
                ("incarnation", "2"),
                ("heartbeat", "77"),
                ("epoch", "5"),
                ("lanes", "8"),
                ("memory nodes", "2"),
                ("token", "0x123456789abcdef1"),
                ("lease", "2000000 us"),
                ("redo chunks", "null, null, null, null"),
                ("ring", "1:0x800000.0"),
                ("host", "cn-3.example"),
            ]
        };
        vec![
            Sample::new("live, after 77 heartbeats", row.as_bytes(), &life("live")),
            Sample::new("the same compute node being fenced off", fencing.as_bytes(), &life("fencing")),
            Sample::new("the same row after it left", left.as_bytes(), &[("state", "free"), ("incarnation", "2")]),
            Sample::new(
                "the next compute node has claimed the row and not yet written the rest",
                joining.as_bytes(),
                &[("state", "live"), ("incarnation", "3")],
            ),
        ]
    },
    decode: |bytes| {
        let Some(row) = Row::from_prefix(bytes) else { return error(&"too short") };
        let view = match row.decode() {
            Ok(view) => view,
            Err(what) => return error(&what),
        };
        let mut values = vec![value("state", &view.state.name()), value("incarnation", &view.incarnation)];
        if let Some(life) = view.life {
            let redo: Vec<String> = life.redo.iter().map(|bits| Address::from_bits(*bits).to_string()).collect();
            values.extend([
                value("heartbeat", &life.heartbeat),
                value("epoch", &life.epoch),
                value("lanes", &life.lanes),
                value("memory nodes", &life.memory_nodes),
                hex("token", life.token),
                match life.lease_ns {
                    Some(ns) => value("lease", &format_args!("{} us", ns / 1000)),
                    None => value("lease", &"not said"),
                },
                value("redo chunks", &redo.join(", ")),
                value("ring", &Address::from_bits(life.ring)),
                value("host", &life.host),
            ]);
        }
        values
    },
};
