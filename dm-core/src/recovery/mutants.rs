//! Mutants: bugs that can be planted in recovery.

crate::mutants::declare_mutants! {
    164;
    /// A dead holder's lock is taken over before memory nodes have confirmed that it is fenced off.
    TAKEOVER_UNFENCED = "takeover-unfenced" => Deaths,
    /// A lease is judged by comparing the holder's count of heartbeats with the waiter's own clock.
    LEASE_BY_REMOTE_CLOCK = "lease-by-remote-clock" => Deaths,
    /// A repairer takes the lock over without a copy of the redo record in its own redo area.
    TAKEOVER_WITHOUT_COPY = "takeover-without-copy" => Deaths,
    /// A repairer frees the lock and leaves the node as it is.
    TAKEOVER_WITHOUT_REPLAY = "takeover-without-replay" => Deaths,
    /// A dead compute node's row is freed without a look at the locks that name it.
    ROW_FREED_UNSWEPT = "row-freed-unswept" => Deaths,
    /// The row of a dead compute node is freed without a look at locks that lie in leaves.
    LEAVES_UNSWEPT = "leaves-unswept" => Deaths,
    /// A lane looks once at the holder of a lock, and lets the next lane of its compute node have its turn.
    LOOKS_ONCE = "looks-once" => Deaths,
    /// A waiter looks at the row word of a lock's holder, and not at its heartbeat.
    HEARTBEAT_UNSEEN = "heartbeat-unseen" => Wide,
    /// A sweep looks at the locks of a table that it READs first, and at no others.
    ONE_WINDOW_SWEPT = "one-window-swept" => Wide,
    /// A sweep posts as many READs as a submit can have, whatever waits in the outbox: a wake may.
    SWEEP_WITHOUT_ROOM = "sweep-without-room" => Wide,
}
