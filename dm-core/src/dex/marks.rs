//! Marks: DEX counts what the rooms below it declare.

crate::marks::declare_marks! {}
