//! The parts of the documentation that the readers on tokio and the readers for one thread share.

/// A shared part by its name.
macro_rules! text {
    (stream_reader) => {
        "Reads a stream from one position on (`XREAD`): each entry once and in order, however often the
connection breaks. See [`streams`](crate::streams).

Needs a server that counts the entries of a stream: Redis 7.0 or later."
    };
    (open_stream) => {
        "Connects and resolves the start position. The stream need not exist yet.

# Errors
Fails if the single connection attempt fails; [`Error::Server`] if the key holds another type."
    };
    (last_id) => {
        "Returns the id of the last entry that was handed out, for a later [`Start::After`]; before the first
entry, the start position."
    };
    (group_reader) => {
        "Reads a stream as one consumer of a group (`XREADGROUP`). See [`streams`](crate::streams).

An entry belongs to the consumer that received it until it is acknowledged. A reader begins with the entries
that its consumer has from before, and looks for them again whenever a connection broke during a read. During
its life it hands out each entry once. Entries that were not acknowledged are handed out once more by the next
reader of this consumer.

The server keeps the position of a group, and this reader does not watch it: entries that are trimmed before
any consumer received them are missing without an event. `StreamReader` counts them."
    };
    (open_group) => {
        "Connects as a consumer of an existing group.

# Errors
Fails if the single connection attempt fails. A missing group is an error of [`GroupReader::next`]."
    };
    (create_group) => {
        "Connects, and creates the group with this start, and the stream, if they do not exist. A group that is
lost later is created again after the last entry that this reader received.

# Errors
Fails if the single connection attempt fails, or if the group cannot be created."
    };
    (next_errors) => {
        "# Errors
Fails after an outage that lasts longer than the response timeout, and for an error reply, such as `NOGROUP`. The
reader continues at the same position, so it can be called again."
    };
    (ack) => {
        "Acknowledges entries. A second acknowledgement does no harm, so it is sent again if the connection broke
before the reply.

# Errors
The reason why the server may not have received it."
    };
    (unacknowledged) => {
        "Returns the number of entries that this reader has read, also ahead of its caller, and that are not
acknowledged."
    };
}
pub(crate) use text;
