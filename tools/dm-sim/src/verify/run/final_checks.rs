//! The checks at the end of a history, when all is quiet.

use super::answering::AnsweringFabric;
use super::stage::{Stage, nothing_failed, summary};
use crate::check::{Answer, Call, OpId};
use crate::compute_node::ComputeNode;
use crate::direct::DirectFabric;
use crate::driver::LaneAt;
use crate::run::{Alone, Run, block_on};
use crate::verify::accounting::{Account, Chunk, Node, account};
use crate::verify::clocks::{self, Clocks};
use crate::verify::coding::{Coding, GARBAGE};
use crate::verify::damage::LATE_NS;
use crate::verify::faults::{FaultKind, InjectedFaults};
use crate::verify::load::{Ended, start};
use crate::verify::report::{Finding, History};
use crate::verify::subject::{AfterDeath, HeldLock};
use crate::verify::tolerance::{Circumstances, Excuses, Failed};
use crate::verify::wide::WideOption;
use dm_core::index::PART_KEPT_US;
use dm_core::lane::Lane;
use dm_core::marks::Mark;
use dm_core::membership::lease::Lease;
use dm_core::memory::orphans::CollectedOrphans;
use dm_core::operation::{Cause, Census, OpError};
use dm_core::remote::catalog::IndexSet;
use dm_core::remote::lock_word::RowId;

/// Turns of all live compute nodes that an orphan collection may take. It looks at some chunks each turn, and the pools of long
/// histories have thousands.
const ORPHAN_COLLECTION_TURNS_MAX: u32 = 4_000;

impl Stage<'_> {
    /// Checks the end, when all is quiet: no lane has a lock record, every key can be read, the structure is sound, and
    /// the memory is accounted for.
    pub(super) fn afterwards(&mut self, lanes: &[&[Lane<'_>]], history: &mut History, now_ns: u64) {
        let mut alive = self.alive(&history.injected);
        if alive.is_empty() {
            // Leases were short, and the last two fenced each other.
            return;
        }
        for &node in &alive {
            for (number, lane) in (0..).zip(lanes[node]) {
                if lane.in_doubt() {
                    let at = LaneAt::new(node as u16, number);
                    self.findings
                        .push(Finding::InDoubt(format!("lane {at} has lock records {:?}", lane.lock_records())));
                }
            }
        }
        let has_owners = self.opened[0].has_owners();
        if has_owners && (self.was_full || self.setup.draw.wide.has(WideOption::SmallPool)) {
            let Some(reader) = self.with_a_log(lanes, &alive, &history.injected) else { return };
            alive.swap(0, reader);
        }
        if has_owners {
            // They end recoveries that they have begun, too.
            self.leave(lanes, &alive, history.injected.down.is_some());
        }
        if has_owners && self.setup.subject.after_death() == AfterDeath::Bounded {
            self.let_kept_ranges_lapse(lanes, &alive);
        }
        if has_owners && let Some(clocks) = self.setup.clocks(&self.opened, now_ns) {
            self.take_entries_of_the_dead(lanes, &alive, &history.injected, (now_ns, clocks));
        }
        if self.setup.subject.after_death() == AfterDeath::Recovered && history.injected.down.is_none() {
            self.sweep(lanes, &alive, history, now_ns);
        }
        let mut complete = false;
        if self.opened[0].forwards_steps() {
            // Entries name memory. The first compute node takes them all, and flushes them; the others have left.
            let (index, lane) = (self.opened[alive[0]], &lanes[alive[0]][0]);
            let mut fabric = DirectFabric::over(self.setup.config, self.world.memories_mut());
            // Before the walk: it mends merges that were cut short only in parts that this compute node owns.
            let parts = block_on(lane, &mut fabric, index.parts(lane)).ok().and_then(|run| run.result.ok());
            for part in 0..parts.unwrap_or(0) {
                let _ = block_on(lane, &mut fabric, index.take_part(lane, part));
            }
            let _ = block_on(lane, &mut fabric, index.validate(lane));
            for &node in &alive[1..] {
                // It READs which compute node owns them.
                let _ = block_on(&lanes[node][0], &mut fabric, self.opened[node].keep_parts(&lanes[node][0]));
            }
        }
        // A dead row that is not swept would hold the epochs back.
        let swept = self.setup.subject.after_death() == AfterDeath::Recovered || history.injected.dead.is_empty();
        if swept && history.injected.down.is_none() {
            // A collection hides places that had two uses before it, so the memory is accounted for before it, too.
            if self.findings.is_empty() {
                let _ = self.account(lanes, &alive, false);
            }
            complete = self.collect_orphans(lanes, &alive);
        }
        // Those that have left still know of free memory.
        let everyone = alive.clone();
        if has_owners {
            alive.truncate(1);
        }
        let mut dead_hold = self.look_at_locks(&alive, &history.injected);
        if has_owners && self.setup.subject.after_death() == AfterDeath::Bounded {
            // Nobody takes over what they owned.
            dead_hold += history.injected.dead.len();
        }
        // Otherwise reads would wait for locks that are never released.
        if !self.findings.is_empty() {
            return;
        }
        self.count_half_splits(lanes, &alive, history);
        let found = self.read_all(lanes, &alive, history, (now_ns, 1));
        if self.setup.draw.wide.has(WideOption::LastScan) {
            self.scan_all(lanes, &alive, history);
        }
        // The checks below cannot judge what a dead holder left half done.
        if dead_hold == 0 && history.injected.down.is_none() {
            self.validate(lanes, &alive, history, found);
            self.add_up(lanes, &everyone, complete, history);
        }
    }

    /// Checks the end of a history in which bytes of memory nodes changed: that no operation took much longer than its
    /// deadline, and that a walk and a scan of everything end.
    pub(super) fn after_damage(&mut self, lanes: &[&[Lane<'_>]], history: &mut History) {
        for (number, operation) in (0..).zip(history.record.operations()) {
            let Some((_, end)) = operation.answer else { continue };
            if end.now_ns - operation.invoked.now_ns > self.setup.draw.deadline_ns + LATE_NS {
                self.findings.push(Finding::Late(history.record.line(OpId(number))));
            }
        }
        let alive = self.alive(&history.injected);
        let coding = self.setup.coding;
        let mut fabric = DirectFabric::over(self.setup.config, self.world.memories_mut());
        history.injected.down.iter().for_each(|node| fabric.set_down(*node));
        // A lane that waits for another one of its compute node, which damage keeps from settling, would wait until its
        // deadline.
        let mut wrong: Vec<String> = Vec::new();
        let mut note = |what: &str, end: Result<(), Alone>| match end {
            Ok(()) | Err(Alone::Parked { .. }) => {}
            Err(alone) => wrong.push(format!("{what}: {alone}")),
        };
        let mut goes_back: Option<(u64, u64)> = None;
        for &node in &alive {
            let (index, lane) = (self.opened[node], &lanes[node][0]);
            note("settling", block_on(lane, &mut fabric, index.settle(lane)).map(drop));
            note("a walk", block_on(lane, &mut fabric, index.validate(lane)).map(drop));
            let (mut key, mut after) = (0, false);
            // Damage may give a reader keys that nobody has inserted, but never lower ones. From bytes that are no key at
            // all the judge cannot go on.
            for page in 0.. {
                let call = Call::Scan { after, high: None, limit: index.plan().page_records() as u32, down: false };
                let run =
                    block_on(lane, &mut fabric, start(index, lane, coding, key, call, self.setup.draw.deadline_ns));
                match run.map(|run| run.result) {
                    Ok(Ended::Page(records, true)) if page < u64::from(self.setup.draw.keys) => {
                        let last = records
                            .last()
                            .map(|(last, _)| *last)
                            .filter(|last| *last <= coding.key_max().min(GARBAGE - 1));
                        let Some(last) = last else { break };
                        if after && last <= key {
                            goes_back.get_or_insert((key, last));
                            break;
                        }
                        (key, after) = (last, true);
                    }
                    Ok(_) => break,
                    Err(alone) => {
                        note("a scan", Err(alone));
                        break;
                    }
                }
            }
            let _ = block_on(lane, &mut fabric, index.settle(lane));
        }
        let goes_back = goes_back.map(|(from, to)| format!("a scan goes back from key {from} to key {to}"));
        self.findings.extend(wrong.into_iter().chain(goes_back).map(Finding::Structure));
    }

    /// Which of `alive` has a log, or finds room for one: it can read the keys of all others. `None`: those that had one are dead,
    /// and the pool is full.
    fn with_a_log(&mut self, lanes: &[&[Lane<'_>]], alive: &[usize], injected: &InjectedFaults) -> Option<usize> {
        let mut fabric = DirectFabric::over(self.setup.config, self.world.memories_mut());
        injected.down.iter().for_each(|node| fabric.set_down(*node));
        alive.iter().position(|&node| {
            let (index, lane) = (self.opened[node], &lanes[node][0]);
            let _ = block_on(lane, &mut fabric, index.settle(lane));
            let opened = block_on(lane, &mut fabric, index.parts(lane)).map(|run| run.result);
            !matches!(opened, Ok(Err(OpError { cause: Cause::PoolFull, .. })))
        })
    }

    /// Compute nodes that live give up what was asked for, and then all but the first one what they own. `excused`: a memory node
    /// is down.
    fn leave(&mut self, lanes: &[&[Lane<'_>]], alive: &[usize], excused: bool) {
        let mut fabric = DirectFabric::over(self.setup.config, self.world.memories_mut());
        for leaves in [false, true] {
            for &node in alive.iter().skip(usize::from(leaves)) {
                let (index, lane) = (self.opened[node], &lanes[node][0]);
                for lane in lanes[node] {
                    let _ = block_on(lane, &mut fabric, index.settle(lane));
                }
                if !leaves && self.setup.draw.wide.has(WideOption::Moves) {
                    // A part may be kept for a compute node whose first operation was dropped while it opened the index.
                    let _ = block_on(lane, &mut fabric, index.parts(lane));
                }
                let gives = if leaves { index.leave(lane) } else { index.keep_parts(lane) };
                match block_on(lane, &mut fabric, gives).map(|run| run.result) {
                    Ok(Ok(())) => {}
                    _ if excused => {}
                    other => self.findings.push(Finding::Structure(format!("compute node {node} leaves: {other:?}"))),
                }
            }
        }
    }

    /// One compute node looks at the owner of every key, and time passes: where nobody is recovered, a range that is kept for
    /// another compute node is taken by anybody only after a while.
    fn let_kept_ranges_lapse(&mut self, lanes: &[&[Lane<'_>]], alive: &[usize]) {
        let (index, lane, coding) = (self.opened[alive[0]], &lanes[alive[0]][0], self.setup.coding);
        let mut fabric = DirectFabric::over(self.setup.config, self.world.memories_mut());
        for key in 0..u64::from(self.setup.draw.keys) {
            let doing = start(index, lane, coding, key, Call::Get, self.setup.draw.deadline_ns);
            let _ = block_on(lane, &mut fabric, doing);
            let _ = block_on(lane, &mut fabric, index.settle(lane));
        }
        clocks::show(clocks::now_us() + PART_KEPT_US);
    }

    /// Time passes, and one compute node takes the entries of those that have died: no sweep frees a row that an entry names.
    fn take_entries_of_the_dead(
        &mut self,
        lanes: &[&[Lane<'_>]],
        alive: &[usize],
        injected: &InjectedFaults,
        (mut now_ns, mut clocks): (u64, Clocks<'_>),
    ) {
        let wronged = |node: &&usize| self.opened[**node].lease().is_some_and(Lease::is_fenced);
        if let Some(node) = alive.iter().find(wronged) {
            self.findings.push(Finding::Structure(format!("compute node {node} was fenced, and its heartbeats came")));
        }
        let Some(lease) = self.opened[alive[0]].lease().filter(|_| !injected.dead.is_empty()) else { return };
        let (index, lane, coding) = (self.opened[alive[0]], &lanes[alive[0]][0], self.setup.coding);
        let mut fabric = DirectFabric::over(self.setup.config, self.world.memories_mut());
        let parts = block_on(lane, &mut fabric, index.parts(lane)).ok().and_then(|run| run.result.ok()).unwrap_or(0);
        let limit = index.plan().page_records() as u32;
        // Once to look at an owner, and once to look whether a heartbeat has come. A scan looks at one owner after the other.
        let last = 1 + parts;
        for pass in 0..=last {
            clocks.tick(now_ns, self.world.memories_mut(), &injected.dead);
            let mut fabric = DirectFabric::over(self.setup.config, self.world.memories_mut());
            injected.down.iter().for_each(|node| fabric.set_down(*node));
            let mut run = |coding, key, call| {
                let doing = start(index, lane, coding, key, call, self.setup.draw.deadline_ns);
                let ended = block_on(lane, &mut fabric, doing).map(|run| run.result);
                let _ = block_on(lane, &mut fabric, index.settle(lane));
                ended
            };
            // Those in the middle are for entries that have no keys.
            for key in (0..u64::from(self.setup.draw.keys)).filter(|_| pass < 2 || pass == last) {
                let got = run(coding, key, Call::Get);
                if let (true, None, Ok(Ended::Failed(error))) = (pass == last, injected.down, got) {
                    self.findings.push(Finding::Structure(format!("nobody can take key {key} over: {error}")));
                }
            }
            // Where keys are far apart, or all at an edge, an entry may have none. A scan of everything meets it: one from the
            // least bytes to the first record, and one behind that.
            let first = run(Coding::shifted(0), 0, Call::Scan { after: false, high: None, limit: 1, down: false });
            let mut is_all = matches!(first, Ok(Ended::Page(..)));
            let (mut key, mut after) = (0, false);
            for _ in 0..=self.setup.draw.keys {
                let page = run(coding, key, Call::Scan { after, high: None, limit, down: false });
                is_all &= matches!(page, Ok(Ended::Page(..)));
                let Ok(Ended::Page(records, true)) = page else { break };
                (key, after) = records.last().map_or((key, after), |(last, _)| (*last, true));
            }
            if index.forwards_steps() {
                // Layers lie behind the root layer, and some parts have none.
                for part in 0..parts {
                    let taken = block_on(lane, &mut fabric, index.take_part(lane, part)).map(|run| run.result);
                    is_all &= matches!(taken, Ok(Ok(())));
                    let _ = block_on(lane, &mut fabric, index.settle(lane));
                }
            }
            now_ns += lease.config().lease_ns() / 2;
            if is_all && pass > 0 {
                break;
            }
        }
    }

    /// Sweeps the rows of dead compute nodes. Nothing that they had begun takes effect after that.
    fn sweep(&mut self, lanes: &[&[Lane<'_>]], alive: &[usize], history: &mut History, now_ns: u64) {
        let Some(&node) = alive.first() else { return };
        let rows: Vec<(ComputeNode, RowId)> =
            history.injected.dead.iter().map(|dead| (*dead, self.world.row_of(*dead))).collect();
        // The row of the others is another one's.
        let rows: Vec<_> = rows.into_iter().filter(|(dead, row)| self.world.tenant(*row) == Some(*dead)).collect();
        for (dead, row) in rows {
            let (index, lane) = (self.opened[node], &lanes[node][0]);
            let mut fabric = DirectFabric::over(self.setup.config, self.world.memories_mut());
            let swept = block_on(lane, &mut fabric, index.sweep(lane, row, IndexSet::default())).map(|run| run.result);
            // A scan of an index without a leaf meets no entry, and one that has no key of the history stays the dead's.
            let mut is_without_leaves =
                || matches!(self.walk(lane, node), Ok(Run { result: Ok(Census { leaves: 0, .. }), .. }));
            match swept {
                Ok(Ok(swept)) if swept.row_free || index.has_owners() && is_without_leaves() => {
                    history.record.close_all_of(dead, now_ns);
                }
                other => self.findings.push(Finding::Structure(format!("sweeping row {}: {other:?}", row.0))),
            }
            if !lane.lock_records().is_empty() {
                let kept = format!("sweeping row {} left lock records {:?}", row.0, lane.lock_records());
                self.findings.push(Finding::InDoubt(kept));
            }
        }
    }

    /// Every live compute node collects orphans. Places that one of them collects are in limbo until all of them have
    /// made turns. Returns whether all that can be used again is.
    fn collect_orphans(&mut self, lanes: &[&[Lane<'_>]], alive: &[usize]) -> bool {
        let tenants = alive.iter().map(|&node| (self.world.row_of(ComputeNode(node as u16)), node)).collect();
        let compute_nodes = (self.opened.as_slice(), lanes, tenants);
        let mut fabric = AnsweringFabric::new(self.setup.config, self.world.memories_mut(), compute_nodes);
        for &node in alive {
            for lane in lanes[node] {
                // An operation whose request failed holds the epochs back until its lane is used again.
                let _ = block_on(lane, &mut fabric, self.opened[node].settle(lane));
            }
        }
        // Twice: the first collection ends what began before all was quiet; the second one takes everything.
        let mut left: Vec<(usize, bool)> = alive.iter().map(|&node| (node, false)).collect();
        let (mut turns, mut complete) = (0, true);
        while !left.is_empty() {
            let mut still = Vec::new();
            for (node, everything) in left {
                let (index, lane) = (self.opened[node], &lanes[node][0]);
                // If a free list has no room, the remaining places stay where they are.
                let is_over = |collected_orphans: CollectedOrphans| {
                    collected_orphans.is_complete() || !collected_orphans.waits && !self.setup.subject.never_leaks()
                };
                match block_on(lane, &mut fabric, index.collect_orphans(lane)).map(|run| run.result) {
                    Ok(Ok(collected_orphans)) if is_over(collected_orphans) && everything => {
                        complete &= collected_orphans.is_complete();
                    }
                    Ok(Ok(collected_orphans)) if is_over(collected_orphans) => {
                        index.demand_collection();
                        still.push((node, true));
                    }
                    Ok(Ok(_)) if turns < ORPHAN_COLLECTION_TURNS_MAX => still.push((node, everything)),
                    // It opens the index to walk through entries, and has no room for its log: the others wait for it.
                    Ok(Err(OpError { cause: Cause::PoolFull, .. }))
                        if index.forwards_steps() && self.setup.draw.wide.has(WideOption::SmallPool) =>
                    {
                        return false;
                    }
                    other => {
                        self.findings
                            .push(Finding::Structure(format!("compute node {node} collects orphans: {other:?}")));
                    }
                }
            }
            left = still;
            turns += 1;
            for &node in alive {
                let (index, lane) = (self.opened[node], &lanes[node][0]);
                if index.has_epochs() {
                    let _ = block_on(lane, &mut fabric, index.turn(lane));
                }
                // A pool of places that is asked for some gives up the closed ones. A pool that is not asked for long
                // gives up everything.
                index.for_each_ready(&mut |_| {});
            }
        }
        complete
    }

    /// What excuses failures now that all is quiet.
    fn excused(&self, history: &History) -> (Excuses, Circumstances) {
        (self.excuses(), Circumstances::now(self.setup.subject, self.world, &history.injected))
    }

    /// Compute nodes that are not dead.
    fn alive(&self, injected: &InjectedFaults) -> Vec<usize> {
        let dead = |node: &usize| injected.dead.iter().any(|dead| usize::from(dead.0) == *node);
        (0..self.opened.len()).filter(|node| !dead(node)).collect()
    }

    /// Checks which locks are held. Counts locks of dead compute nodes if survivors may leave them held. Any other held
    /// lock is a finding.
    fn look_at_locks(&mut self, alive: &[usize], injected: &InjectedFaults) -> usize {
        let local = alive.iter().map(|&node| self.opened[node].locks_held()).sum();
        let mut held = self.setup.subject.remote_locks_held(self.world.memories());
        held.retain(|lock| Some(lock.node) != injected.down);
        let tenant = |lock: &HeldLock| self.world.tenant(lock.row);
        let of_the_dead = |lock: &HeldLock| tenant(lock).is_some_and(|tenant| injected.dead.contains(&tenant));
        let excused = match self.setup.subject.after_death() {
            AfterDeath::Bounded => held.iter().filter(|lock| of_the_dead(lock)).count(),
            AfterDeath::Recovered => 0,
        };
        let remote = held.len() - excused;
        if local + remote > 0 {
            self.findings.push(Finding::LocksHeld { local, remote });
        }
        excused
    }

    /// Reads every key so often, from that time on. Compute nodes take turns, since their caches differ. Returns how many gets found
    /// one.
    fn read_all(
        &mut self,
        lanes: &[&[Lane<'_>]],
        alive: &[usize],
        history: &mut History,
        (mut now_ns, times): (u64, u64),
    ) -> u64 {
        let coding = self.setup.coding;
        let excused = self.excused(history);
        let mut fabric = DirectFabric::over(self.setup.config, self.world.memories_mut());
        history.injected.down.iter().for_each(|node| fabric.set_down(*node));
        let mut found = 0;
        for key in (0..times * u64::from(self.setup.draw.keys)).map(|get| get / times) {
            let node = alive[key as usize % alive.len()];
            let (index, lane) = (self.opened[node], &lanes[node][0]);
            now_ns += 1;
            let operation = history.record.invoke(LaneAt::new(node as u16, 0), now_ns, key, Call::Get);
            let run =
                block_on(lane, &mut fabric, start(index, lane, coding, key, Call::Get, self.setup.draw.deadline_ns));
            match run.map(|run| run.result) {
                Ok(Ended::Point(answer)) => {
                    found += u64::from(matches!(answer, Answer::Found(_)));
                    history.record.respond(operation, now_ns, answer);
                }
                Ok(Ended::Failed(error)) => {
                    history.record.respond(operation, now_ns, Answer::Failed(error.effect));
                    self.findings.extend(judge_failed(history, operation, error, excused));
                }
                Ok(other) => unreachable!("a get ends with {other:?}"),
                Err(alone) => self.findings.push(Finding::Structure(format!("get of key {key}: {alone}"))),
            }
            // The operation may have failed, or its side effects may be unfinished. A lock on a memory node that is
            // down need not be released.
            if lane.is_unsettled() {
                let _ = block_on(lane, &mut fabric, index.settle(lane));
            }
        }
        found
    }

    /// Scans everything, page by page. Compute nodes take turns.
    fn scan_all(&mut self, lanes: &[&[Lane<'_>]], alive: &[usize], history: &mut History) {
        let coding = self.setup.coding;
        let excused = self.excused(history);
        let mut fabric = DirectFabric::over(self.setup.config, self.world.memories_mut());
        history.injected.down.iter().for_each(|node| fabric.set_down(*node));
        let (mut key, mut after) = (0, false);
        // Every page but the last one has a record.
        for page in 0..=self.setup.draw.keys as usize {
            let node = alive[page % alive.len()];
            let (index, lane) = (self.opened[node], &lanes[node][0]);
            let call = Call::Scan { after, high: None, limit: index.plan().page_records() as u32, down: false };
            let now_ns = history.record.now_ns() + 1;
            let operation = history.record.invoke(LaneAt::new(node as u16, 0), now_ns, key, call);
            let run = block_on(lane, &mut fabric, start(index, lane, coding, key, call, self.setup.draw.deadline_ns));
            let mut more = false;
            match run.map(|run| run.result) {
                Ok(Ended::Page(records, there_is_more)) => {
                    more = there_is_more;
                    (key, after) = records.last().map_or((key, after), |(last, _)| (*last, true));
                    history.record.respond_page(operation, now_ns, records, there_is_more);
                }
                Ok(Ended::Failed(error)) => {
                    history.record.respond(operation, now_ns, Answer::Failed(error.effect));
                    self.findings.extend(judge_failed(history, operation, error, excused));
                }
                Ok(other) => unreachable!("a scan ends with {other:?}"),
                Err(alone) => self.findings.push(Finding::Structure(format!("scan from key {key}: {alone}"))),
            }
            if lane.is_unsettled() {
                let _ = block_on(lane, &mut fabric, index.settle(lane));
            }
            if !more {
                history.met[WideOption::LastScan as usize] += 1;
                return;
            }
        }
        self.findings.push(Finding::Structure("a scan of everything does not end".to_owned()));
    }

    /// Half-splits that operations may leave though nothing went wrong. `None`: any number. A lane that has split a leaf, and
    /// finds no memory for the node above, leaves to others to tell that node; its own change is made.
    fn half_splits_max(&self, lanes: &[&[Lane<'_>]]) -> Option<u64> {
        (!self.setup.draw.wide.has(WideOption::SmallPool)).then(|| marked(lanes, Mark::FROZEN_STAYED))
    }

    /// Counts half-splits before anybody reads: readers finish those that they meet. Not where operations have deadlines, or where
    /// lanes look after slow holders of locks: they leave to others to tell a parent whose lock they do not get.
    fn count_half_splits(&mut self, lanes: &[&[Lane<'_>]], alive: &[usize], history: &History) {
        let waits = self.setup.subject.after_death() == AfterDeath::Bounded && self.setup.draw.deadline_ns == 0;
        let Some(&last) = alive.last().filter(|_| waits && is_undisturbed(history)) else { return };
        let mut fabric = DirectFabric::over(self.setup.config, self.world.memories_mut());
        let walk = block_on(&lanes[last][0], &mut fabric, self.opened[last].validate(&lanes[last][0]));
        if let Ok(Ok(census)) = walk.map(|run| run.result)
            && self.half_splits_max(lanes).is_some_and(|most| census.half_splits > most)
        {
            self.findings.push(Finding::Structure(format!("nothing went wrong, and operations left {census:?}")));
        }
    }

    /// Walks the index, as compute node `node`.
    fn walk(&mut self, lane: &Lane<'_>, node: usize) -> Result<Run<Result<Census, OpError>>, Alone> {
        let mut fabric = DirectFabric::over(self.setup.config, self.world.memories_mut());
        block_on(lane, &mut fabric, self.opened[node].validate(lane))
    }

    fn validate(&mut self, lanes: &[&[Lane<'_>]], alive: &[usize], history: &mut History, found: u64) {
        let undisturbed = is_undisturbed(history);
        let half_splits_max = self.half_splits_max(lanes);
        let Some(&last) = alive.last() else { return };
        let mut walked = self.walk(&lanes[last][0], last);
        if let Ok(Run { result: Ok(census), .. }) = &walked
            && undisturbed
            && half_splits_max.is_some_and(|most| census.half_splits > most)
        {
            // A get that comes by a cached parent drops that parent from the cache, and does not tell it. The next get of the key
            // READs the parent, and tells it. A get of another key between the two would bring the parent into the cache again.
            let now_ns = history.record.now_ns() + 1;
            self.read_all(lanes, alive, history, (now_ns, 2));
            walked = self.walk(&lanes[last][0], last);
        }
        match walked {
            Err(alone) => self.findings.push(Finding::Structure(alone.to_string())),
            Ok(run) => match run.result.and_then(Census::at_rest) {
                Err(error) => self.findings.push(Finding::Structure(error.to_string())),
                Ok(census) if census.records != found => {
                    self.findings.push(Finding::Records { counted: census.records, found });
                }
                Ok(census) if census.left_layers > self.left_layers_max(lanes, history) => {
                    self.findings.push(Finding::Structure(format!("no crash left so many layers: {census:?}")));
                }
                // An operation links the leaf that it split off, and replaces the node that it froze, before it ends. Only
                // small nodes below that one may stay frozen: the next operation that changes them replaces them.
                Ok(census) if undisturbed && half_splits_max.is_some_and(|most| census.half_splits > most) => {
                    self.findings.push(Finding::Structure(format!("nothing went wrong, and there are {census:?}")));
                }
                Ok(census) if undisturbed => {
                    let what = self.setup.subject.unaccounted(&census, marked(lanes, Mark::EMPTIED_STAYS));
                    self.findings.extend(
                        what.map(|what| Finding::Structure(format!("nothing went wrong, and there are {what}"))),
                    );
                }
                Ok(_) => {}
            },
        }
    }

    /// Layers without a link that may be left: one for each lane of a compute node that died, one for each lane that cannot be
    /// settled, and those that a lane has counted.
    fn left_layers_max(&self, lanes: &[&[Lane<'_>]], history: &History) -> u64 {
        let alive = self.alive(&history.injected);
        let gone = (0..lanes.len()).filter(|node| !alive.contains(node)).map(|node| lanes[node].len() as u64);
        let lost = |lane: &Lane<'_>| u64::from(lane.marked(Mark::LAYER_LOST)) + u64::from(lane.is_unsettled());
        gone.sum::<u64>() + lanes.iter().copied().flatten().map(lost).sum::<u64>()
    }

    /// Accounts for the memory as it is now, if that is possible. Until all keys have been read once more, the
    /// structure need not be `complete`: readers finish half-done changes.
    fn account(&mut self, lanes: &[&[Lane<'_>]], alive: &[usize], complete: bool) -> Option<Account> {
        let holdings = match self.setup.subject.holdings(self.world.memories())? {
            Err(_) if !complete => return None,
            Err(what) => {
                self.findings.push(Finding::Structure(what));
                return None;
            }
            Ok(holdings) => holdings,
        };
        let mut ready: Vec<Node> = Vec::new();
        for &node in alive {
            self.opened[node].for_each_ready(&mut |place| ready.push(place));
            // A stocked node has the size of the nodes of its chunk.
            for lane in lanes[node] {
                lane.for_each_stocked(&mut |_, fresh| {
                    let (node, offset) = (fresh.address.node(), fresh.address.offset());
                    let home = |chunk: &&Chunk| {
                        chunk.node == node && (chunk.offset..chunk.offset + chunk.bytes).contains(&offset)
                    };
                    let bytes = holdings.chunks.iter().find(home).map_or(0, |chunk| chunk.node_bytes);
                    ready.push(Node { node, offset, bytes });
                });
            }
        }
        let retired_bytes = alive.iter().map(|&node| self.opened[node].retired_bytes()).sum();
        let account = account(&holdings, &ready, retired_bytes);
        account.map_err(|what| self.findings.push(Finding::Memory(what))).ok()
    }

    /// Accounts for the memory. `complete`: orphan collections have found all that they look for, and had room for it.
    fn add_up(&mut self, lanes: &[&[Lane<'_>]], alive: &[usize], complete: bool, history: &mut History) {
        match self.account(lanes, alive, true) {
            None => {}
            Some(account) => {
                let collected_orphans = self.setup.subject.after_death() == AfterDeath::Recovered;
                let disturbs = |kind: FaultKind| history.injected.counts[kind as usize] > 0;
                let is_harmless = |kind| match kind {
                    FaultKind::Crash => collected_orphans,
                    // Old copies of inner nodes mislead, and lose nothing.
                    FaultKind::StaleCache => true,
                    _ => false,
                };
                let undisturbed = nothing_failed(history)
                    && FaultKind::ALL.into_iter().all(|kind| !disturbs(kind) || is_harmless(kind));
                if account.leaked > 0 && self.setup.subject.never_leaks() && undisturbed {
                    let but: Vec<&str> =
                        FaultKind::ALL.into_iter().filter(|&kind| disturbs(kind)).map(FaultKind::name).collect();
                    let but = if but.is_empty() { String::new() } else { format!(" but {}", but.join(" and ")) };
                    self.findings.push(Finding::Memory(format!("nothing{but} went wrong, and {account}")));
                }
                // Where lists are short, a place is lost only if one had no room. Collections give places up again, and of the
                // dead they leave what has no room.
                let left: u64 = alive.iter().map(|&node| self.opened[node].left_places()).sum();
                let leaked_nodes = account.leaked.saturating_sub(account.leaked_pieces);
                let knows = !collected_orphans || complete && !disturbs(FaultKind::Crash);
                if undisturbed && knows && leaked_nodes > left {
                    let what = format!("nothing went wrong, lists had no room for {left} places, and {account}");
                    self.findings.push(Finding::Memory(what));
                }
                // While no node dies, no block is lost unless a lane has marked that. After a collection of everything
                // no block is lost at all.
                let nobody_died = !disturbs(FaultKind::Crash) && !disturbs(FaultKind::NodeDeath);
                let told = |mark| lanes.iter().copied().flatten().any(|lane| lane.marked(mark) > 0);
                let forgotten = told(Mark::BLOCK_LOST) || told(Mark::BLOCK_LEFT);
                // Where one that collects cannot open the index, nobody collects everything: not even what its own collection has
                // closed before it failed.
                let may_not_open = self.opened[0].forwards_steps() && self.setup.draw.wide.has(WideOption::SmallPool);
                let collected =
                    collected_orphans && self.setup.subject.collects_all() && history.injected.down.is_none();
                if account.leaked_pieces > 0
                    && !may_not_open
                    && (self.setup.subject.holds_all_blocks() && nobody_died && !forgotten || collected)
                {
                    let what = format!("{} pieces are lost: {account}", account.leaked_pieces);
                    self.findings.push(Finding::Memory(what));
                }
                history.memory = Some(account);
            }
        }
    }
}

/// Whether nothing went wrong that may have left anything half done.
fn is_undisturbed(history: &History) -> bool {
    nothing_failed(history) && history.injected.counts.iter().all(|count| *count == 0)
}

/// How often lanes have counted this.
fn marked(lanes: &[&[Lane<'_>]], mark: Mark) -> u64 {
    lanes.iter().copied().flatten().map(|lane| u64::from(lane.marked(mark))).sum()
}

/// A read at the end failed. Returns a finding unless the faults excuse that.
fn judge_failed(
    history: &mut History,
    operation: OpId,
    error: OpError,
    (excuses, circumstances): (Excuses, Circumstances),
) -> Option<Finding> {
    let failed = Failed { operation: Some(operation), error, circumstances };
    if failed.is_tolerable(&history.injected, excuses) {
        history.failed.push(summary(&error));
        return None;
    }
    let line = Some(history.record.line(operation));
    Some(Finding::Failed { line, failed })
}
