//! Streams beside a list of entries, and edits and whole streams as bytes.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn id(ms: u64, seq: u64) -> StreamId {
    StreamId { ms, seq }
}

/// A step of a test, with ids and counts that are made to fit the stream.
#[derive(Debug, Clone)]
enum Step {
    /// Adds an entry this far behind the last one, with the fields of this number.
    Append(u64, u64, u8),
    Delete(u8),
    TrimTo(u8, bool),
    TrimFrom(u8, bool),
    Range(u8, u8),
    Deliver(u8, u8),
    Acknowledge(u8),
    RemoveConsumer(u8),
    RemoveGroup,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..3_u64, 0..300_u64, 0..6_u8).prop_map(|(ms, seq, fields)| Step::Append(ms, seq, fields)),
        3 => any::<u8>().prop_map(Step::Delete),
        1 => (any::<u8>(), any::<bool>()).prop_map(|(kept, whole)| Step::TrimTo(kept, whole)),
        1 => (any::<u8>(), any::<bool>()).prop_map(|(from, whole)| Step::TrimFrom(from, whole)),
        3 => (any::<u8>(), any::<u8>()).prop_map(|(start, end)| Step::Range(start, end)),
        3 => (any::<u8>(), 0..3_u8).prop_map(|(entry, consumer)| Step::Deliver(entry, consumer)),
        2 => any::<u8>().prop_map(Step::Acknowledge),
        1 => (0..3_u8).prop_map(Step::RemoveConsumer),
        1 => Just(Step::RemoveGroup),
    ];
    proptest::collection::vec(step, 1..120)
}

const FIELDS: [&[&[u8]]; 6] = [
    &[b"type", b"move"],
    &[b"type", b"stop"],
    &[b"type", b"move", b"x", b"-12"],
    &[b"", b""],
    &[
        b"other",
        b"0123456789012345678901234567890123456789012345678901234567890123456789",
    ],
    &[b"type", b"move", b"type", b"1000000"],
];

/// Entries by their ids, and pending ones with their consumers.
#[derive(Debug, Default)]
struct Model {
    entries: BTreeMap<StreamId, u8>,
    pending: BTreeMap<StreamId, u8>,
    last: StreamId,
}

impl Model {
    /// The id of an entry that this number chooses, or one that is none.
    fn choose(&self, number: u8) -> StreamId {
        let nth = self
            .entries
            .keys()
            .nth(usize::from(number) % (self.entries.len() + 1));
        nth.copied().unwrap_or(id(1, number.into()))
    }

    /// The edits that a step makes, after the model was changed by it.
    fn edits(&mut self, step: &Step, stream: &Stream) -> Vec<StreamEdit<'static>> {
        let limits = BlockLimits {
            bytes: 200,
            entries: 5,
        };
        match *step {
            Step::Append(ms, seq, number) => {
                let last = self.last;
                let next = if ms == 0 {
                    id(last.ms, last.seq + 1 + seq)
                } else {
                    id(last.ms + ms, seq)
                };
                let fields = FIELDS[usize::from(number)];
                self.entries.insert(next, number);
                self.last = next;
                vec![StreamEdit::Append {
                    id: next,
                    begins_block: stream.begins_block(fields, limits),
                    fields: StreamWords::Lent(fields),
                }]
            }
            Step::Delete(number) => {
                let gone = self.choose(number);
                self.entries.remove(&gone);
                vec![StreamEdit::Delete(vec![gone])]
            }
            Step::TrimTo(kept, whole) => self.trim(stream, Keep::Last(u64::from(kept) % 20), whole),
            Step::TrimFrom(number, whole) => {
                let from = self.choose(number);
                self.trim(stream, Keep::From(from), whole)
            }
            Step::Range(..) => vec![],
            _ => self.group_edits(step),
        }
    }

    /// The same for steps of a group.
    fn group_edits(&mut self, step: &Step) -> Vec<StreamEdit<'static>> {
        const NAMES: [&[u8]; 3] = [b"a", b"b", b"c"];
        match *step {
            Step::Deliver(entry, number) => {
                let (entry, consumer) = (self.choose(entry), NAMES[usize::from(number)]);
                self.pending.insert(entry, number);
                let (group, last_id) = (&b"g"[..], entry);
                vec![
                    StreamEdit::SetGroup {
                        group,
                        last_id,
                        entries_read: Some(7),
                    },
                    StreamEdit::See {
                        group,
                        consumer,
                        seen_ms: 3,
                    },
                    StreamEdit::Deliver {
                        group,
                        consumer,
                        delivered_ms: 5,
                        entries: vec![(entry, 2)],
                    },
                ]
            }
            Step::Acknowledge(entry) => {
                let entry = self.choose(entry);
                self.pending.remove(&entry);
                vec![StreamEdit::Acknowledge {
                    group: b"g",
                    ids: vec![entry],
                }]
            }
            Step::RemoveConsumer(number) => {
                self.pending.retain(|_, consumer| *consumer != number);
                let consumer = NAMES[usize::from(number)];
                vec![StreamEdit::RemoveConsumer {
                    group: b"g",
                    consumer,
                }]
            }
            Step::RemoveGroup => {
                self.pending.clear();
                vec![StreamEdit::RemoveGroup(b"g")]
            }
            _ => unreachable!("the caller has looked"),
        }
    }

    /// Trims both, and checks how many entries go.
    fn trim(&mut self, stream: &Stream, keep: Keep, whole: bool) -> Vec<StreamEdit<'static>> {
        let Trim {
            blocks,
            marked,
            entries,
        } = stream.plan_trim(keep, whole, None);
        let wanted = match keep {
            Keep::Last(count) => (self.entries.len() as u64).saturating_sub(count),
            Keep::From(from) => self.entries.range(..from).count() as u64,
        };
        assert!(
            entries <= wanted && (whole || entries == wanted),
            "{entries} of {wanted}"
        );
        for _ in 0..entries {
            self.entries.pop_first();
        }
        vec![StreamEdit::Trim { blocks, marked }]
    }
}

/// An edit as it is read from its own bytes, which are sound only as a whole.
fn perform_read(stream: &mut Stream, edit: &StreamEdit<'_>) {
    let mut bytes = vec![];
    edit.encode(&mut bytes);
    let read = StreamEdit::decode(&bytes).expect("it was written");
    assert_eq!(&read, edit);
    stream.perform(&read);
}

fn stored(stream: &Stream) -> Option<Stream> {
    let mut parts: Vec<Vec<u8>> = vec![];
    elements(stream, |part| parts.push(part.to_vec()));
    Stream::from_elements(parts.iter().map(Vec::as_slice))
}

fn held_bytes(stream: &Stream) -> usize {
    stream.blocks.iter().map(Block::held_bytes).sum()
}

proptest! {
    #[test]
    fn stream_behaves_like_a_list_of_entries(steps in steps()) {
        let (mut stream, mut model) = (Stream::new(), Model::default());
        let mut added = 0;
        for step in &steps {
            for edit in model.edits(step, &stream) {
                perform_read(&mut stream, &edit);
            }
            added += u64::from(matches!(step, Step::Append(..)));
            prop_assert_eq!(stream.len(), model.entries.len() as u64);
            prop_assert_eq!((stream.last_id(), stream.entries_added()), (model.last, added));
            let (first, last) = (model.entries.first_key_value(), model.entries.last_key_value());
            prop_assert_eq!(stream.first_id(), first.map_or(StreamId::MIN, |(id, _)| *id));
            prop_assert_eq!(stream.last_entry_id(), last.map(|(id, _)| *id));
            prop_assert_eq!(stream.held, held_bytes(&stream));
            if let Step::Range(start, end) = step {
                let (start, end) = (model.choose(*start), model.choose(*end));
                let entries: Vec<_> = stream.range(start, end).map(|entry| {
                    (entry.id, entry.pairs().flat_map(|(field, value)| [field, value]).collect::<Vec<_>>())
                }).collect();
                let wanted = model.entries.iter().filter(|(id, _)| (start..=end).contains(id));
                let wanted: Vec<_> = wanted.map(|(id, number)| (*id, FIELDS[usize::from(*number)].to_vec())).collect();
                prop_assert_eq!(&entries, &wanted);
                let mut back: Vec<_> = stream.range_back(start, end).map(|entry| entry.id).collect();
                back.reverse();
                prop_assert_eq!(back, wanted.iter().map(|(id, _)| *id).collect::<Vec<_>>());
                prop_assert_eq!(stream.get(start).is_some(), model.entries.contains_key(&start));
            }
            let pending = stream.group(b"g").map(|group| {
                let each = group.consumers().flat_map(|(name, consumer)| {
                    consumer.pending().iter().map(move |id| (*id, name[0] - b'a'))
                });
                let each: BTreeMap<_, _> = each.collect();
                let all = group.pending().iter();
                assert!(all.map(|(id, pending)| (*id, pending.consumer()[0] - b'a')).eq(each.clone()));
                each
            });
            prop_assert_eq!(pending.unwrap_or_default(), model.pending.clone());
        }
        prop_assert_eq!(stored(&stream), Some(stream.clone()));
        let copy = stream.clone();
        prop_assert_eq!(copy.held, held_bytes(&copy));
    }

    /// Damaged bytes are none, or those of another stream.
    #[test]
    fn damaged_parts_are_no_reason_to_panic(
        steps in steps(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<bool>(),
    ) {
        let (mut stream, mut model) = (Stream::new(), Model::default());
        for step in &steps {
            for edit in model.edits(step, &stream) {
                stream.perform(&edit);
                let mut bytes = vec![];
                edit.encode(&mut bytes);
                let at = at.index(bytes.len());
                bytes[at] = byte;
                if let Some(edit) = StreamEdit::decode(&bytes) {
                    stream.clone().perform(&edit);
                }
            }
        }
        let mut parts: Vec<Vec<u8>> = vec![];
        elements(&stream, |part| parts.push(part.to_vec()));
        let part = at.index(parts.len());
        let at = at.index(parts[part].len());
        if cut {
            parts[part].truncate(at);
        } else {
            parts[part][at] = byte;
        }
        if let Some(mut read) = Stream::from_elements(parts.iter().map(Vec::as_slice)) {
            let entries = read.range(StreamId::MIN, StreamId::MAX).count() as u64;
            prop_assert_eq!(entries, read.len());
            let Trim { blocks, marked, .. } = read.plan_trim(Keep::Last(1), false, None);
            read.perform(&StreamEdit::Trim { blocks, marked });
            read.perform(&StreamEdit::Delete(read.last_entry_id().into_iter().collect()));
            prop_assert_eq!(read.held, held_bytes(&read));
        }
    }
}

/// Entries with the same fields share their names.
#[test]
fn entry_takes_few_bytes_besides_its_values() {
    let mut stream = Stream::new();
    let limits = BlockLimits {
        bytes: 4_096,
        entries: 100,
    };
    for number in 0..1_000_u64 {
        let value = format!("{number:06}");
        let fields = [
            &b"temperature"[..],
            value.as_bytes(),
            b"pressure",
            value.as_bytes(),
        ];
        stream.perform(&StreamEdit::Append {
            id: id(1_700_000_000_000 + number, 0),
            begins_block: stream.begins_block(&fields, limits),
            fields: StreamWords::Lent(&fields),
        });
    }
    assert_eq!(stream.blocks().len(), 10);
    let each = stream.memory_bytes() / 1_000;
    // Two values of seven bytes with their lengths, and a header of three.
    assert!((17..22).contains(&each), "{each} bytes per entry");
}
