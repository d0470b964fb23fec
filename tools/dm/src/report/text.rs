//! Sizes, counts and tables as text for people.

use comfy_table::{Cell, CellAlignment, Table};

/// A rule under the header, blanks between the columns, and nothing else.
const PRESET: &str = "     --            ";

/// A number of bytes as people read it: `512 B`, `1.5 KiB`, `15.5 GiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1_024 {
        return format!("{bytes} B");
    }
    let power = (bytes.ilog2() / 10) as usize;
    format!("{:.1} {}", bytes as f64 / (1_u64 << (10 * power)) as f64, UNITS[power - 1])
}

/// `1 lane`, `2 lanes`.
pub(crate) fn counted(count: impl Into<u64>, noun: &str) -> String {
    counted_as(count, noun, &format!("{noun}s"))
}

/// `1 index`, `2 indexes`.
pub(crate) fn counted_as(count: impl Into<u64>, one: &str, many: &str) -> String {
    let count = count.into();
    format!("{count} {}", if count == 1 { one } else { many })
}

pub(crate) fn table_of(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(PRESET).set_header(header.iter().copied());
    table
}

/// Adds a row whose columns from `numbers` on are aligned to the right.
pub(crate) fn push_row(table: &mut Table, cells: Vec<String>, numbers: usize) {
    let aligned = |(column, cell): (usize, String)| {
        let alignment = if column < numbers { CellAlignment::Left } else { CellAlignment::Right };
        Cell::new(cell).set_alignment(alignment)
    };
    table.add_row(cells.into_iter().enumerate().map(aligned));
}

pub(crate) fn push_table(text: &mut String, table: &Table) {
    for line in table.lines() {
        // The padding of the first column would set every line in by one.
        let line = line.strip_prefix(' ').unwrap_or(&line);
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_a_plural() {
        let texts = [counted(0_u32, "lane"), counted(1_u32, "lane"), counted_as(1_u64, "index", "indexes")];
        assert_eq!(texts, ["0 lanes", "1 lane", "1 index"]);
        assert_eq!(counted_as(2_u64, "index", "indexes"), "2 indexes");
    }

    #[test]
    fn sizes_are_read_in_binary_units() {
        let sizes = [0, 1_023, 1_024, 1_536, (1 << 20) - 1, 1 << 20, 1 << 40, u64::MAX].map(size);
        assert_eq!(sizes, ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1024.0 KiB", "1.0 MiB", "1.0 TiB", "16.0 EiB"]);
    }
}
