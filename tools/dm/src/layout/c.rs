//! The goldens once more, for C: `layouts/c/NAME.h` has the offset, first bit and width of every field, and a struct
//! per table; `layouts/c/check.c` has a C compiler assert that the structs are as the offsets say, and reads samples by
//! them.
//!
//! All members of structs are arrays of bytes, so that no compiler pads them, and none reads them in the order of its
//! own machine by mistake.

use super::{STRUCTURES, Structure};
use dm_core::layout::LINE_BYTES;
use dm_core::layout::fields::Field;
use std::fmt::{self, Write as _};

/// Every file: its name and its text.
pub(super) fn files() -> Vec<(String, String)> {
    let mut files: Vec<_> =
        STRUCTURES.iter().map(|structure| (format!("{}.h", structure.name), header(structure))).collect();
    files.push(("dm_layout.h".to_owned(), all()));
    files.push(("check.c".to_owned(), check()));
    files
}

const ORIGIN: &str = "Made by `dm layout bless`; do not edit.";

/// The C header of a structure.
pub fn header(structure: &Structure) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_header(structure, &mut out);
    out
}

fn write_header(structure: &Structure, out: &mut String) -> fmt::Result {
    let guard = format!("{}_H", macro_name(&["dm_layout", structure.name]));
    writeln!(out, "// {}: {}. {ORIGIN}\n", structure.name, structure.title)?;
    for line in structure.text.trim().lines() {
        writeln!(out, "// {}", line.trim())?;
    }
    writeln!(out, "\n#ifndef {guard}\n#define {guard}\n\n#include <stdint.h>")?;
    for table in tables(structure) {
        writeln!(out, "\n// {}\n", table.heading)?;
        for (name, field) in table.named() {
            let name = macro_name(&[&table.name, &name]);
            for (what, number) in [("OFFSET", field.offset), ("BIT", field.bit), ("BITS", field.bits)] {
                writeln!(out, "#define {name}_{what} {number}")?;
            }
        }
        writeln!(
            out,
            "#define {}_STRUCT_BYTES {}\n\nstruct {} {{",
            macro_name(&[&table.name]),
            table.bytes(),
            table.name
        )?;
        let mut end = 0;
        for member in table.members() {
            if member.from > end {
                writeln!(out, "    uint8_t gap_{end}[{}];", member.from - end)?;
            }
            let meaning = if member.meaning.is_empty() { String::new() } else { format!(" // {}", member.meaning) };
            writeln!(out, "    uint8_t {}[{}];{meaning}", member.name, member.to - member.from)?;
            end = member.to;
        }
        writeln!(out, "}};")?;
    }
    if !structure.constants.is_empty() {
        writeln!(out, "\n// constants\n")?;
        for (name, value, meaning) in structure.constants {
            writeln!(out, "#define {} UINT64_C({value}) // {meaning}", macro_name(&["dm", structure.name, name]))?;
        }
    }
    writeln!(out, "\n#endif")
}

/// The header that includes all others, and reads fields.
fn all() -> String {
    let mut includes = String::new();
    for structure in STRUCTURES {
        // Writing to a String cannot fail.
        let _ = writeln!(includes, "#include \"{}.h\"", structure.name);
    }
    format!("// Every remote structure. {ORIGIN}\n{}", ALL.replace("@INCLUDES@\n", &includes))
}

const ALL: &str = "
#ifndef DM_LAYOUT_H
#define DM_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

@INCLUDES@

// The number in `bits` bits, at most 64, from bit `bit` on of the little-endian word at `bytes + offset`.
static inline uint64_t dm_layout_read(const uint8_t *bytes, size_t offset, unsigned bit, unsigned bits) {
    uint64_t number = 0;
    for (unsigned at = 0; at < bits; at++) {
        const unsigned from = bit + at;
        number |= (uint64_t)(bytes[offset + from / 8] >> from % 8 & 1) << at;
    }
    return number;
}

// Copies the payload of whole lines: all but the version byte at the beginning of each. Returns its length. Offsets in
// nodes of B+-trees count payload bytes; see cache_line_versions.h.
static inline size_t dm_layout_payload(const uint8_t *lines, size_t line_bytes, uint8_t *payload) {
    size_t count = 0;
    for (size_t at = 0; at < line_bytes; at++) {
        if (at % DM_CACHE_LINE_VERSIONS_ONE_LINE_STRUCT_BYTES != 0)
            payload[count++] = lines[at];
    }
    return count;
}

#endif
";

/// The program that checks the headers.
fn check() -> String {
    let mut asserts = String::new();
    let mut reads = String::new();
    let mut count = 0;
    for structure in STRUCTURES {
        // Writing to a String cannot fail.
        let _ = write_asserts(structure, &mut asserts);
        let _ = write_reads(structure, &mut reads, &mut count);
    }
    let program =
        CHECK.replace("@ASSERTS@\n", &asserts).replace("@READS@\n", &reads).replace("@COUNT@", &count.to_string());
    format!("// Checks the headers: the asserts when it is compiled, the samples when it runs. {ORIGIN}\n{program}")
}

const CHECK: &str = r#"
#include "dm_layout.h"

#include <inttypes.h>
#include <stdio.h>

@ASSERTS@

static int failed;

static void expect(const char *what, uint64_t found, uint64_t stated) {
    if (found != stated) {
        printf("%s: the bytes say %#" PRIx64 ", the golden %#" PRIx64 "\n", what, found, stated);
        failed = 1;
    }
}

int main(void) {
@READS@
    if (failed)
        return 1;
    printf("@COUNT@ values of samples are as the goldens say\n");
    return 0;
}
"#;

fn write_asserts(structure: &Structure, out: &mut String) -> fmt::Result {
    for table in tables(structure) {
        let text = |what: &str| format!("\"{}: {what}\"", table.name);
        let bytes = macro_name(&[&table.name]);
        writeln!(out, "_Static_assert(sizeof(struct {}) == {bytes}_STRUCT_BYTES, {});", table.name, text("size"))?;
        let members = table.members();
        for (name, field) in table.named() {
            let (from, to) = bytes_of(field);
            let Some(member) = members.iter().find(|member| member.from <= from && to <= member.to && from < to) else {
                continue;
            };
            let name = macro_name(&[&table.name, &name]);
            let place = format!("offsetof(struct {}, {})", table.name, member.name);
            let size = format!("sizeof(((struct {} *)0)->{})", table.name, member.name);
            // A member of its own is where the field is; a shared one has all its bits.
            let held = if member.is_shared {
                let first = format!("{name}_OFFSET * 8 + {name}_BIT");
                format!("{place} * 8 <= {first} && {first} + {name}_BITS <= ({place} + {size}) * 8")
            } else {
                format!("{place} * 8 == {name}_OFFSET * 8 + {name}_BIT && {size} * 8 == {name}_BITS")
            };
            writeln!(out, "_Static_assert({held}, {});", text(field.name))?;
        }
    }
    Ok(())
}

/// Structures whose fields have payload offsets: their bytes are not where the offset says in a sample. All of them are
/// nodes, and begin with the header.
const STRIPED: [&str; 4] = [HEADER, "btree_inner", "sherman_leaf", "chime_leaf"];
const HEADER: &str = "node_header";

/// The values of samples that are numbers and named as a field. Of a node, C reads the header, from its first line.
fn write_reads(structure: &Structure, out: &mut String, count: &mut usize) -> fmt::Result {
    let is_striped = STRIPED.contains(&structure.name);
    let shown = if is_striped { STRUCTURES.iter().find(|other| other.name == HEADER) } else { Some(structure) };
    for sample in (structure.samples)() {
        let mut stored = sample.bytes;
        let mut bytes = stored.clone();
        if is_striped {
            stored.truncate(LINE_BYTES);
            bytes = stored.iter().skip(1).copied().collect();
        }
        let mut reads = String::new();
        for table in shown.into_iter().flat_map(tables) {
            for (name, field) in table.named() {
                let stated = sample.values.iter().find(|(name, _)| name == field.name);
                let Some(number) = stated.and_then(|(_, value)| number(value)) else { continue };
                // The number is big-endian, or in another table's field of this name.
                if read(&bytes, field) != Some(number) {
                    continue;
                }
                let name = macro_name(&[&table.name, &name]);
                writeln!(
                    reads,
                    "        expect(\"{}, {}: {}\", dm_layout_read(bytes, {name}_OFFSET, {name}_BIT, {name}_BITS), \
                     UINT64_C({number:#x}));",
                    structure.name,
                    sample.title.replace('"', "'"),
                    field.name
                )?;
                *count += 1;
            }
        }
        if reads.is_empty() {
            continue;
        }
        writeln!(out, "    {{\n        static const uint8_t {}[] = {{", if is_striped { "stored" } else { "bytes" })?;
        for line in stored.chunks(16) {
            let line: Vec<_> = line.iter().map(|byte| format!("{byte:#04x}")).collect();
            writeln!(out, "            {},", line.join(", "))?;
        }
        let payload =
            "        uint8_t bytes[sizeof stored];\n        dm_layout_payload(stored, sizeof stored, bytes);\n";
        writeln!(out, "        }};\n{}{reads}    }}", if is_striped { payload } else { "" })?;
    }
    Ok(())
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The number in a field of a structure that begins with `bytes`.
fn read(bytes: &[u8], field: &Field) -> Option<u64> {
    if !(1..=64).contains(&field.bits) {
        return None;
    }
    (0..field.bits).try_fold(0, |number, at| {
        let bit = field.bit + at;
        let byte = bytes.get(field.offset + bit / 8)?;
        Some(number | u64::from(byte >> (bit % 8) & 1) << at)
    })
}

/// A table, as a struct.
struct Struct {
    /// Name of the struct; in capitals, the beginning of all names of the table.
    name: String,
    heading: &'static str,
    fields: &'static [Field],
}

/// A member of a struct, by its bytes.
struct Member {
    from: usize,
    to: usize,
    name: String,
    meaning: &'static str,
    /// Several fields have bits of it, or one that does not fill it.
    is_shared: bool,
}

impl Struct {
    fn bytes(&self) -> usize {
        self.fields.iter().map(|field| bytes_of(field).1).max().unwrap_or(0)
    }

    /// Fields by name. Those whose name another one has before them have their first byte in the name.
    fn named(&self) -> Vec<(String, &'static Field)> {
        let mut named: Vec<(String, &'static Field)> = Vec::new();
        for field in self.fields {
            let mut name = identifier(field.name);
            if named.iter().any(|(other, _)| *other == name) {
                name = format!("{name}_{}", bytes_of(field).0);
            }
            named.push((name, field));
        }
        named
    }

    /// Members in ascending order, without overlap. Fields that have bytes in common are one member.
    fn members(&self) -> Vec<Member> {
        let mut fields = self.named();
        fields.retain(|(_, field)| field.bits > 0);
        fields.sort_by_key(|(_, field)| bytes_of(field));
        let mut members: Vec<Member> = Vec::new();
        for (name, field) in fields {
            let (from, to) = bytes_of(field);
            match members.last_mut() {
                Some(last) if from < last.to => {
                    last.to = last.to.max(to);
                    last.is_shared = true;
                }
                _ => {
                    let is_shared = field.bit % 8 != 0 || field.bits % 8 != 0;
                    members.push(Member { from, to, name, meaning: field.meaning, is_shared });
                }
            }
        }
        for member in members.iter_mut().filter(|member| member.is_shared) {
            (member.name, member.meaning) = (format!("bits_{}", member.from), "");
        }
        members
    }
}

/// The first byte of a field, and the first one behind it.
fn bytes_of(field: &Field) -> (usize, usize) {
    (field.offset + field.bit / 8, field.offset + (field.bit + field.bits).div_ceil(8))
}

fn tables(structure: &Structure) -> Vec<Struct> {
    let name = |heading: &str| {
        let short = heading.split([',', ';']).next().unwrap_or_default();
        let own = identifier(structure.name);
        if short == "fields" || short == own { format!("dm_{own}") } else { format!("dm_{own}_{}", identifier(short)) }
    };
    structure.tables.iter().map(|&(heading, fields)| Struct { name: name(heading), heading, fields }).collect()
}

/// Lower case, with one underscore for whatever else than letters and digits lies between two of them.
fn identifier(text: &str) -> String {
    let words: Vec<_> = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    words.join("_").to_ascii_lowercase()
}

fn macro_name(parts: &[&str]) -> String {
    identifier(&parts.join(" ")).to_ascii_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_name_is_defined_twice() {
        let mut names = BTreeSet::new();
        for (file, text) in files() {
            for line in text.lines() {
                let mut words = line.split_whitespace();
                if let (Some("#define" | "struct"), Some(name)) = (words.next(), words.next()) {
                    assert!(names.insert(name.to_owned()), "{file}: {name}");
                }
            }
        }
        assert!(names.len() > 500, "{}", names.len());
    }

    #[test]
    fn every_number_of_a_sample_is_in_a_field_of_its_name() {
        for structure in STRUCTURES.iter().filter(|structure| !STRIPED.contains(&structure.name)) {
            for sample in (structure.samples)() {
                for (name, stated) in &sample.values {
                    let fields = structure.tables.iter().flat_map(|(_, fields)| *fields);
                    let found: Vec<_> = fields
                        .filter(|field| field.name == name)
                        .filter_map(|field| Some((field.bits, read(&sample.bytes, field)?)))
                        // As it is, and big-endian.
                        .flat_map(|(bits, found)| [found, found.swap_bytes() >> (64 - bits)])
                        .collect();
                    let Some(number) = number(stated) else { continue };
                    let what = format!("{}, {}: {name}", structure.name, sample.title);
                    assert!(found.is_empty() || found.contains(&number), "{what}: {number:#x}, found {found:#x?}");
                }
            }
        }
    }

    #[test]
    fn fields_with_common_bytes_are_one_member() {
        static FIELDS: &[Field] = &[
            Field::bytes(0, 2, "alone", ""),
            Field::bits(2, 0, 3, "low", ""),
            Field::bits(2, 3, 13, "high", ""),
            Field::bytes(8, 1, "behind a gap", ""),
        ];
        let table = Struct { name: "t".to_owned(), heading: "", fields: FIELDS };
        let members: Vec<_> = table.members().into_iter().map(|member| (member.name, member.from, member.to)).collect();
        let expected = [("alone", 0, 2), ("bits_2", 2, 4), ("behind_a_gap", 8, 9)];
        assert_eq!(members, expected.map(|(name, from, to)| (name.to_owned(), from, to)));
        assert_eq!(read(&[0, 0, 0b1010_1101, 1], &FIELDS[2]), Some(0b11_0101));
    }
}
