//! Columns of text as wide as what is in them.

/// Where a column's text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
}

/// A table of so many columns.
pub(super) struct Table<const COLUMNS: usize> {
    align: [Align; COLUMNS],
    rows: Vec<[String; COLUMNS]>,
}

impl<const COLUMNS: usize> Table<COLUMNS> {
    /// A table with these headings and no rows.
    pub(super) fn new(columns: &[(&str, Align); COLUMNS]) -> Self {
        Self { align: columns.map(|(_, align)| align), rows: vec![columns.map(|(name, _)| name.to_owned())] }
    }

    /// Adds a row.
    pub(super) fn row(&mut self, cells: [String; COLUMNS]) {
        self.rows.push(cells);
    }

    /// The headings and the rows, each as a line.
    pub(super) fn lines(&self) -> Vec<String> {
        let widths: Vec<usize> = (0..COLUMNS)
            .map(|column| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default())
            .collect();
        let line = |row: &[String; COLUMNS]| {
            let cells = row.iter().zip(&widths).zip(self.align).map(|((cell, width), align)| match align {
                Align::Left => format!("{cell:<width$}"),
                Align::Right => format!("{cell:>width$}"),
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        self.rows.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_longest_cell() {
        let mut table = Table::new(&[("NAME", Align::Left), ("N", Align::Right), ("FILE", Align::Left)]);
        table.row(["a-name-longer-than-others".into(), "1".into(), "x".into()]);
        table.row(["é".into(), "100".into(), "y".into()]);
        assert_eq!(
            table.lines(),
            [
                "NAME                         N  FILE",
                "a-name-longer-than-others    1  x",
                "é                          100  y",
            ]
        );
    }
}
