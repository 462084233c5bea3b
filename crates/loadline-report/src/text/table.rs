//! Tables whose columns are aligned over all groups, and that fit the page.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::page::{Page, Style};
use super::style_of;
use crate::clean::{columns, plain, shortened};
use crate::document::{Cell, Column, Row, Table};

/// The first column is not cut below this, nor below what keeps different names different, nor wider than the second.
const NAME: (usize, usize) = (12, 40);
/// A word of a name up to this long is not cut.
const WORD: usize = 20;
/// A head that is wider than its cells is cut to this.
const HEAD: usize = 15;
/// A name that does not fit its column takes up to this many lines, each but the first indented.
const NAME_LINES: usize = 3;
const NAME_INDENT: &str = "  ";
/// A phrase up to this long is not broken.
const PHRASE: usize = 30;

/// The widths of the columns that are shown, by their place in the table.
struct Layout {
    shown: Vec<(usize, usize)>,
    gap: usize,
}

pub(super) fn draw(page: &mut Page, table: &Table) {
    let layout = Layout::fit(table, page.width());
    let heads: Vec<Cell> = table
        .columns
        .iter()
        .map(|column| column.head.as_str().into())
        .collect();
    let name = heads.first().map(|head| plain(&head.text));
    let header = layout.pieces(&table.columns, &heads, name.as_deref().unwrap_or_default());
    page.line(
        Style::Dim,
        &header.into_iter().map(|piece| piece.1).collect::<String>(),
    );
    for (index, group) in table.groups.iter().enumerate() {
        if !group.title.is_empty() {
            if index > 0 {
                page.gap();
            }
            page.wrapped(Style::Bold, "", "  ", &plain(&group.title));
        }
        for row in &group.rows {
            let (first, rest) = layout.name(row);
            page.styled(&layout.pieces(&table.columns, &row.cells, &first));
            for line in rest {
                page.line(Style::Plain, &line);
            }
            beneath(page, &layout, table, row);
        }
    }
}

/// The cells that have no room, and what must be known about the row.
fn beneath(page: &mut Page, layout: &Layout, table: &Table, row: &Row) {
    let has_room = |place: &usize| layout.shown.iter().any(|(shown, _)| shown == place);
    let cells = table.columns.iter().zip(&row.cells).enumerate();
    let left = cells.filter(|(place, (_, cell))| !has_room(place) && !cell.text.is_empty());
    let left: Vec<String> = left
        .map(|(_, (column, cell))| {
            let text = if column.right {
                format!("{} {}", column.head, cell.text)
            } else {
                cell.text.clone()
            };
            let text = plain(&text).into_owned();
            if columns(&text) > PHRASE {
                text
            } else {
                Page::unbroken(&text)
            }
        })
        .collect();
    if !left.is_empty() {
        page.wrapped(Style::Dim, "  ", "    ", &left.join(", "));
    }
    for note in &row.notes {
        let style = style_of(note.tone);
        let first = if style == Style::Dim { "  " } else { "  ! " };
        page.wrapped(style, first, "    ", &plain(&note.text));
    }
}

impl Layout {
    /// The widest layout that fits: first the gaps shrink, then the names; then columns leave the
    /// table.
    fn fit(table: &Table, width: usize) -> Self {
        let natural: Vec<usize> = (0..table.columns.len())
            .map(|place| natural_width(table, place))
            .collect();
        let mut shown: Vec<usize> = (0..table.columns.len()).collect();
        let least_name = distinct_width(table, natural.first().copied().unwrap_or(0));
        loop {
            for gap in [2, 1] {
                let rest: usize = shown
                    .iter()
                    .skip(1)
                    .map(|place| natural[*place] + gap)
                    .sum();
                let name = natural.first().copied().unwrap_or(0);
                let least = if gap == 1 { least_name } else { name };
                if rest + least <= width {
                    let name = name.min(width - rest);
                    let widths = shown.iter().map(|place| (*place, natural[*place]));
                    let mut widths: Vec<(usize, usize)> = widths.collect();
                    if let Some(first) = widths.first_mut() {
                        first.1 = name;
                    }
                    return Self { shown: widths, gap };
                }
            }
            let droppable = shown.iter().filter(|place| table.columns[**place].drop > 0);
            match droppable.max_by_key(|place| table.columns[**place].drop) {
                Some(place) => {
                    let place = *place;
                    shown.retain(|other| *other != place);
                }
                None => return Self::squeezed(&shown, &natural, width),
            }
        }
    }

    /// Cuts the rightmost columns if even those that stay are too wide.
    fn squeezed(shown: &[usize], natural: &[usize], width: usize) -> Self {
        let mut room = width;
        let mut widths = Vec::new();
        for (index, place) in shown.iter().enumerate() {
            let wanted = if index == 0 {
                natural[*place].min(NAME.0)
            } else {
                natural[*place]
            };
            let wanted = wanted.min(room.saturating_sub(usize::from(index > 0)));
            room = room.saturating_sub(wanted + usize::from(index > 0));
            if wanted > 0 {
                widths.push((*place, wanted));
            }
        }
        Self {
            shown: widths,
            gap: 1,
        }
    }

    /// The name of a row as lines of the width of its column.
    fn name(&self, row: &Row) -> (String, Vec<String>) {
        let text = row.cells.first().map(|cell| plain(&cell.text));
        let indent = if row.is_part { NAME_INDENT } else { "" };
        let width = self.shown.first().map_or(0, |(_, width)| *width);
        let mut lines = vec![indent.to_owned()];
        for word in text.iter().flat_map(|text| text.split(' ')) {
            let is_last = lines.len() == NAME_LINES;
            let line = lines.last_mut().expect("it begins with one");
            let is_empty = line.trim().is_empty();
            let gap = usize::from(!is_empty);
            if !is_empty && !is_last && columns(line) + gap + columns(word) > width {
                lines.push(format!("{indent}{NAME_INDENT}{word}"));
                continue;
            }
            if !is_empty {
                line.push(' ');
            }
            line.push_str(word);
        }
        let mut lines = lines.into_iter();
        let first = lines.next().unwrap_or_default();
        let rest = lines.map(|line| shortened(&line, width).into_owned());
        (first, rest.collect())
    }

    fn pieces(&self, heads: &[Column], cells: &[Cell], name: &str) -> Vec<(Style, String)> {
        let mut pieces = Vec::new();
        for (index, (place, width)) in self.shown.iter().enumerate() {
            let Some(cell) = cells.get(*place) else {
                continue;
            };
            let text = if index == 0 {
                Cow::Borrowed(name)
            } else {
                plain(&cell.text)
            };
            let text = shortened(&text, *width);
            let blank = " ".repeat(width.saturating_sub(columns(&text)));
            if index > 0 {
                pieces.push((Style::Plain, " ".repeat(self.gap)));
            }
            let style = style_of(cell.tone);
            if heads[*place].right {
                pieces.push((Style::Plain, blank));
                pieces.push((style, text.into_owned()));
            } else {
                pieces.push((style, text.into_owned()));
                pieces.push((Style::Plain, blank));
            }
        }
        // Blanks at the end of a line are of no piece.
        while pieces.last().is_some_and(|piece| piece.1.trim().is_empty()) {
            pieces.pop();
        }
        pieces
    }
}

/// The least width of the first column, up to `natural`, at which no word is cut and names that differ are still different.
fn distinct_width(table: &Table, natural: usize) -> usize {
    let rows = table.groups.iter().flat_map(|group| &group.rows);
    let names = rows.filter_map(|row| Some(plain(&row.cells.first()?.text)));
    let names: BTreeSet<_> = names.collect();
    let is_distinct = |width: &usize| {
        let cut: BTreeSet<_> = names.iter().map(|name| shortened(name, *width)).collect();
        cut.len() == names.len()
    };
    let words = names.iter().flat_map(|name| name.split(' ').enumerate());
    let words = words.map(|(place, word)| {
        let indent = if place > 0 { NAME_INDENT.len() } else { 0 };
        columns(word) + indent
    });
    let longest = words.filter(|width| *width <= WORD).max().unwrap_or(0);
    let least = natural.min(NAME.0.max(longest));
    (least..natural).find(is_distinct).unwrap_or(natural)
}

fn natural_width(table: &Table, place: usize) -> usize {
    let rows = table.groups.iter().flat_map(|group| &group.rows);
    let cells = rows.filter_map(|row| {
        let part = if row.is_part && place == 0 { 2 } else { 0 };
        Some(columns(&plain(&row.cells.get(place)?.text)) + part)
    });
    let widest = cells.max().unwrap_or(0);
    let head = columns(&plain(&table.columns[place].head));
    let width = widest.max(head.min(HEAD));
    if place == 0 {
        // As wide as the shortest cut, so that short names do not crowd their figures.
        width.min(NAME.1)
    } else {
        width
    }
}
