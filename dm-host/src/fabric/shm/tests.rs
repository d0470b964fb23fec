use super::*;

const MODES: [LineMode; 2] = [LineMode::Vector, LineMode::Sequence];
const REGION_BYTES: u64 = 1 << 20;

fn node(mode: LineMode) -> Arc<RemoteNode> {
    let spec = RegionSpec { region_bytes: REGION_BYTES, device_bytes: 4096, mode, backing: Backing::Memfd };
    Arc::new(RemoteNode::in_process(Region::create(&spec).unwrap()))
}

fn fabric_on(node: &Arc<RemoteNode>, options: ShmOptions) -> ShmFabric {
    ShmFabric::assemble(vec![Arc::clone(node)], options).unwrap()
}

/// Posts one submit from a lane with `scratch`.
fn post(fabric: &mut ShmFabric, scratch: &mut [u8], requests: &[Request]) -> Vec<Completion> {
    let lanes = [Lane::new(LaneId(0), scratch)];
    let port = lanes[0].port();
    for request in requests {
        port.push(*request);
    }
    port.flush();
    assert_eq!(fabric.post(&lanes, 0), Posted::Completed);
    let completions = (0..requests.len()).map(|position| port.completion(position)).collect();
    port.reset();
    completions
}

fn statuses(completions: &[Completion]) -> Vec<Status> {
    completions.iter().map(|completion| completion.status).collect()
}

const N0: NodeId = NodeId(0);

#[test]
fn what_is_written_is_read_at_any_offset_and_length() {
    for mode in MODES {
        let mut fabric = fabric_on(&node(mode), ShmOptions::default());
        let base = 4096u64;
        // A model of 4 KiB of the region. After every WRITE the test compares the bytes around it, too.
        let mut model = vec![0u8; 4096];
        let mut turn = 0u8;
        for offset in (0..64).chain([120, 127, 128, 1000]) {
            for bytes in [0, 1, 7, 8, 9, 31, 63, 64, 65, 127, 128, 129, 320, 1024] {
                turn = turn.wrapping_add(1);
                let mut scratch = vec![0; 8192];
                let image: Vec<u8> = (0..bytes).map(|at| (at as u8).wrapping_mul(31) ^ turn).collect();
                scratch[3..3 + bytes].copy_from_slice(&image);
                model[offset..offset + bytes].copy_from_slice(&image);
                let requests = [
                    Request::write(Label::Tool, N0, base + offset as u64, bytes, 3),
                    Request::read(Label::Tool, N0, base, 4096, 4000),
                    Request::read(Label::Tool, N0, base + offset as u64, bytes, 1500),
                ];
                assert_eq!(statuses(&post(&mut fabric, &mut scratch, &requests)), [Status::Ok; 3]);
                assert_eq!(scratch[4000..8096], model, "{mode:?}: {bytes} bytes at {offset}");
                assert_eq!(scratch[1500..1500 + bytes], image);
                assert_eq!(scratch[1500 + bytes], 0, "{mode:?}: a READ of {bytes} bytes went too far");
                assert_eq!(scratch[1499], 0);
            }
        }
    }
}

#[test]
fn inline_payloads_come_from_the_operands() {
    for mode in MODES {
        let mut fabric = fabric_on(&node(mode), ShmOptions::default());
        let mut scratch = [0xaa; 64];
        let mut odd = Request::write_word(Label::Tool, N0, 101, u64::from_le_bytes(*b"abcdefgh"));
        odd.bytes = 11;
        odd.operands[1] = u64::from_le_bytes(*b"ijkl\0\0\0\0");
        let requests = [
            Request::write_word(Label::Unlock, N0, 256, 0x0123_4567_89ab_cdef),
            odd,
            Request::read(Label::Tool, N0, 256, 8, 0),
            Request::read(Label::Tool, N0, 100, 13, 16),
        ];
        assert_eq!(statuses(&post(&mut fabric, &mut scratch, &requests)), [Status::Ok; 4]);
        assert_eq!(scratch[..8], 0x0123_4567_89ab_cdef_u64.to_le_bytes());
        assert_eq!(&scratch[16..29], b"\0abcdefghijk\0");
        odd.bytes = INLINE_BYTES_MAX as u32 + 1;
        assert_eq!(statuses(&post(&mut fabric, &mut scratch, &[odd])), [Status::Refused]);
    }
}

#[test]
fn atomics_return_the_old_word_and_change_it_as_they_say() {
    for mode in MODES {
        let mut fabric = fabric_on(&node(mode), ShmOptions::default());
        let requests = [
            Request::cas(Label::Lock, N0, 64, 0, 5),
            Request::cas(Label::Lock, N0, 64, 0, 6),
            Request::fetch_add(Label::Tool, N0, 64, u64::MAX),
            Request::masked_cas(Label::Lock, N0, 64, [0x0004, 0xff00, 0x000f, 0x0f00]),
            Request::masked_cas(Label::Lock, N0, 64, [0x0005, 0, 0x000f, u64::MAX]),
            Request::cas(Label::Lock, N0, 64, 0, 0),
            Request::cas(Label::Lock, N0, 64, 0, 1).in_space(Space::Device),
        ];
        let completions = post(&mut fabric, &mut [], &requests);
        let values: Vec<u64> = completions.iter().map(|completion| completion.value).collect();
        assert_eq!(values, [0, 5, 5, 4, 0x0f04, 0x0f04, 0], "{mode:?}");
        assert_eq!(statuses(&completions), [Status::Ok; 7]);
    }
}

#[test]
fn what_is_not_offered_is_unsupported_and_changes_nothing() {
    let node = node(LineMode::Sequence);
    let mut fabric = fabric_on(&node, ShmOptions { masked_atomics: false, device: false, ..ShmOptions::default() });
    let offered = Fabric::capabilities(&fabric);
    assert_eq!((offered.masked_atomics, offered.device_bytes), (false, 0));
    for request in [
        Request::masked_cas(Label::Lock, N0, 64, [0, 1, u64::MAX, u64::MAX]),
        Request::write_word(Label::Unlock, N0, 0, 1).in_space(Space::Device),
        Request::rpc(Label::Tool, N0, [0; 4]),
    ] {
        assert_eq!(statuses(&post(&mut fabric, &mut [], &[request])), [Status::Unsupported]);
    }
    let mut scratch = [1; 8];
    post(&mut fabric, &mut scratch, &[Request::read(Label::Tool, N0, 64, 8, 0)]);
    assert_eq!(scratch, [0; 8]);
}

#[test]
fn outside_is_refused_however_the_sum_overflows() {
    for mode in MODES {
        let mut fabric = fabric_on(&node(mode), ShmOptions::default());
        let mut scratch = [0; 128];
        let device = |request: Request| request.in_space(Space::Device);
        for request in [
            Request::read(Label::Tool, N0, REGION_BYTES, 1, 0),
            Request::read(Label::Tool, N0, REGION_BYTES - 63, 64, 0),
            Request::read(Label::Tool, N0, u64::MAX, 1, 0),
            Request::read(Label::Tool, N0, u64::MAX - 7, 8, 0),
            Request::read(Label::Tool, N0, 0, 64, 65),
            Request::read(Label::Tool, N0, 0, u32::MAX as usize, u32::MAX as usize),
            Request::write(Label::Tool, N0, REGION_BYTES - 1, 2, 0),
            Request::write(Label::Tool, N0, 0, 8, 1000),
            Request::write_word(Label::Tool, N0, REGION_BYTES - 4, 1),
            Request::write_word(Label::Tool, N0, u64::MAX - 3, 1),
            device(Request::read(Label::Tool, N0, 4096, 1, 0)),
            device(Request::write_word(Label::Tool, N0, 4092, 1)),
            Request::cas(Label::Lock, N0, 4, 0, 1),
            Request::cas(Label::Lock, N0, REGION_BYTES, 0, 1),
            Request::fetch_add(Label::Lock, N0, u64::MAX - 7, 1),
            Request::masked_cas(Label::Lock, N0, 65, [0; 4]),
            Request::read(Label::Tool, NodeId(1), 0, 8, 0),
            Request::read(Label::Tool, NodeId(u16::MAX), 0, 8, 0),
        ] {
            let completions = post(&mut fabric, &mut scratch, &[request]);
            assert_eq!(statuses(&completions), [Status::Refused], "{mode:?}: {request:?}");
        }
        let last = Request::read(Label::Tool, N0, REGION_BYTES - 64, 64, 64);
        assert_eq!(statuses(&post(&mut fabric, &mut scratch, &[last])), [Status::Ok]);
    }
}

#[test]
fn a_chain_stops_at_its_first_failure() {
    let mut fabric = fabric_on(&node(LineMode::Sequence), ShmOptions::default());
    let requests = [
        Request::write_word(Label::Tool, N0, 64, 1),
        Request::read(Label::Tool, N0, u64::MAX, 1, 0),
        Request::write_word(Label::Unlock, N0, 64, 2),
        Request::pause(5),
    ];
    let completions = post(&mut fabric, &mut [], &requests);
    assert_eq!(statuses(&completions), [Status::Ok, Status::Refused, Status::Flushed, Status::Ok]);
    let old = post(&mut fabric, &mut [], &[Request::fetch_add(Label::Tool, N0, 64, 0)]);
    assert_eq!(old[0].value, 1);
}

#[test]
fn a_memory_node_that_is_down_says_so() {
    let node = node(LineMode::Sequence);
    let mut fabric = fabric_on(&node, ShmOptions::default());
    node.mark_down();
    let requests = [Request::fetch_add(Label::Tool, N0, 64, 1), Request::write_word(Label::Tool, N0, 0, 1)];
    assert_eq!(statuses(&post(&mut fabric, &mut [], &requests)), [Status::NodeDown; 2]);
}

#[test]
fn every_assumption_has_a_ground() {
    for mode in MODES {
        let guarantees = fabric_on(&node(mode), ShmOptions::default()).guarantees();
        assert!(guarantees.missing(Assumptions::all()).is_empty());
        assert_eq!(guarantees.asserted.contains(Assumptions::LINE_ATOMIC), mode == LineMode::Vector);
    }
}

#[test]
fn a_write_takes_time() {
    for mode in MODES {
        let turn_ns = measured_write_turn_ns(mode);
        assert!((2..5_000).contains(&turn_ns), "{mode:?}: {turn_ns} ns");
    }
}

#[test]
fn atomics_of_several_threads_add_up() {
    for mode in MODES {
        let node = node(mode);
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let node = &node;
                scope.spawn(move || {
                    let mut fabric = fabric_on(node, ShmOptions::default());
                    for _ in 0..5_000 {
                        let requests = [
                            Request::fetch_add(Label::Tool, N0, 64, 1),
                            // Bytes of the thread's own next to the counter, even in the counter's word.
                            Request::masked_cas(
                                Label::Tool,
                                N0,
                                72,
                                [0, 1 << (16 * thread), 0, 0xffff << (16 * thread)],
                            ),
                        ];
                        post(&mut fabric, &mut [], &requests);
                    }
                });
            }
        });
        let mut fabric = fabric_on(&node, ShmOptions::default());
        let reads = [Request::fetch_add(Label::Tool, N0, 64, 0), Request::fetch_add(Label::Tool, N0, 72, 0)];
        let completions = post(&mut fabric, &mut [], &reads);
        assert_eq!((completions[0].value, completions[1].value), (20_000, 0x0001_0001_0001_0001), "{mode:?}");
    }
}

#[test]
fn a_write_of_some_bytes_of_a_word_loses_no_atomic_on_the_others() {
    for mode in MODES {
        let node = node(mode);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut fabric = fabric_on(&node, ShmOptions::default());
                for _ in 0..20_000 {
                    post(&mut fabric, &mut [], &[Request::fetch_add(Label::Tool, N0, 64, 1)]);
                }
            });
            let mut fabric = fabric_on(&node, ShmOptions::default());
            for turn in 0..20_000u32 {
                let mut scratch = turn.to_le_bytes();
                post(&mut fabric, &mut scratch, &[Request::write(Label::Tool, N0, 68, 4, 0)]);
            }
        });
        let mut fabric = fabric_on(&node, ShmOptions::default());
        let word = post(&mut fabric, &mut [], &[Request::fetch_add(Label::Tool, N0, 64, 0)])[0].value;
        assert_eq!((word as u32, (word >> 32) as u32), (20_000, 19_999), "{mode:?}");
    }
}

#[test]
fn a_line_whose_writer_died_is_stuck_until_released() {
    let node = node(LineMode::Sequence);
    let region = node.region();
    let slot = region.claim_writer(77).unwrap();
    // The writer dies between locking and releasing line 5: it has noted the line and locked it.
    let layout = *region.layout();
    let sequences = region.area(Space::Host).sequences_for_test().unwrap();
    sequences.die_in(slot, 5, *b"the rest");
    let mut fabric = fabric_on(&node, ShmOptions::default());
    let mut scratch = [0; 64];
    let read = [Request::read(Label::Leaf, N0, 5 * 64, 64, 0)];
    assert_eq!(statuses(&post(&mut fabric, &mut scratch, &read)), [Status::Flushed]);
    assert_eq!(region.release_dead_writers(78), 0);
    assert_eq!(region.release_dead_writers(77), 1);
    assert_eq!(statuses(&post(&mut fabric, &mut scratch, &read)), [Status::Ok]);
    assert_eq!(scratch[8..16], *b"the rest", "a line lands whole or not at all");
    assert_eq!(region.claim_writer(1).unwrap(), slot, "the slot is free again ({layout:?})");
}
