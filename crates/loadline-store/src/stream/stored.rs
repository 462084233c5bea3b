//! Whole streams as elements of a collection in the log, and back.
//!
//! `docs/store-format.md` draws the bytes.

use super::Stream;
use super::block::Block;
use super::edit::{StreamEdit, count, known};
use super::id::{Bits, put_bytes, put_id, put_number};

const HEAD: u8 = 0;
const BLOCK: u8 = 1;
const GROUP: u8 = 2;
const CONSUMER: u8 = 3;

/// Shows the elements that a stream is stored as to `push`.
pub(crate) fn elements(stream: &Stream, mut push: impl FnMut(&[u8])) {
    let mut element = vec![HEAD];
    put_id(&mut element, stream.last_id);
    put_id(&mut element, stream.max_deleted_id);
    put_number(&mut element, stream.entries_added);
    push(&element);
    for block in &stream.blocks {
        element.clear();
        element.push(BLOCK);
        put_id(&mut element, block.id);
        element.extend_from_slice(block.bytes());
        push(&element);
    }
    for (name, group) in stream.groups() {
        element.clear();
        element.push(GROUP);
        put_bytes(&mut element, name);
        put_id(&mut element, group.last_id);
        put_number(&mut element, known(group.entries_read));
        push(&element);
        for (name, consumer) in group.consumers() {
            element.clear();
            element.push(CONSUMER);
            put_bytes(&mut element, name);
            put_number(&mut element, consumer.seen_ms);
            for id in consumer.pending() {
                let Some(pending) = group.pending().get(id) else {
                    continue;
                };
                put_id(&mut element, *id);
                put_number(&mut element, pending.delivered_ms);
                put_number(&mut element, pending.deliveries);
            }
            push(&element);
        }
    }
}

impl Stream {
    /// The stream that is stored as these elements; `None` where they are none.
    pub(crate) fn from_elements<'b>(elements: impl Iterator<Item = &'b [u8]>) -> Option<Self> {
        let mut stream = Self::new();
        let mut group: Option<&[u8]> = None;
        let mut is_first = true;
        for element in elements {
            let mut rest = Bits(element);
            let kind = rest.byte()?;
            (is_first == (kind == HEAD)).then_some(())?;
            is_first = false;
            match kind {
                HEAD => {
                    stream.last_id = rest.id()?;
                    stream.max_deleted_id = rest.id()?;
                    stream.entries_added = rest.number()?;
                }
                BLOCK => {
                    let block = Block::from_parts(rest.id()?, rest.0)?;
                    stream.length += u64::from(block.live);
                    stream.held += block.held_bytes();
                    stream.blocks.push_back(block);
                    continue;
                }
                GROUP => {
                    let name = rest.bytes()?;
                    group = Some(name);
                    stream.perform(&StreamEdit::SetGroup {
                        group: name,
                        last_id: rest.id()?,
                        entries_read: count(rest.number()?),
                    });
                }
                CONSUMER => stream.add_consumer(group?, &mut rest)?,
                _ => return None,
            }
            rest.is_at_end().then_some(())?;
        }
        stream.find_first();
        (!is_first).then_some(stream)
    }

    fn add_consumer(&mut self, group: &[u8], rest: &mut Bits<'_>) -> Option<()> {
        let consumer = rest.bytes()?;
        let seen_ms = rest.number()?;
        self.perform(&StreamEdit::See {
            group,
            consumer,
            seen_ms,
        });
        while !rest.is_at_end() {
            let (id, delivered_ms, deliveries) = (rest.id()?, rest.number()?, rest.number()?);
            self.change_group(group, |group| {
                group.deliver(consumer, id, delivered_ms, deliveries);
            });
        }
        Some(())
    }
}
