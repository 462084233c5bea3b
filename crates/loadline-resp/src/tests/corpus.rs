//! Replies of every kind, written out as on the wire.

use crate::{Attributed, Reply};

/// Complete replies and what they mean.
pub(super) fn replies() -> Vec<(&'static [u8], Reply<'static>)> {
    let mut all = strings();
    all.extend(scalars());
    all.extend(aggregates());
    all.extend(attributes());
    all
}

fn strings() -> Vec<(&'static [u8], Reply<'static>)> {
    vec![
        (b"+OK\r\n", Reply::Simple(b"OK")),
        (b"+\r\n", Reply::Simple(b"")),
        (
            b"+PONG and more than eight bytes\r\n",
            Reply::Simple(b"PONG and more than eight bytes"),
        ),
        (b"+a\rb\r\n", Reply::Simple(b"a\rb")),
        (b"+\r\r\n", Reply::Simple(b"\r")),
        (
            b"-ERR unknown command\r\n",
            Reply::Error(b"ERR unknown command"),
        ),
        (b"-\r\n", Reply::Error(b"")),
        (b"$0\r\n\r\n", Reply::Bulk(b"")),
        (b"$1\r\nx\r\n", Reply::Bulk(b"x")),
        (b"$2\r\n\r\n\r\n", Reply::Bulk(b"\r\n")),
        (b"$5\r\nhello\r\n", Reply::Bulk(b"hello")),
        (b"$6\r\n\0\xff\r\n+O\r\n", Reply::Bulk(b"\0\xff\r\n+O")),
        (b"$12\r\ntwelve bytes\r\n", Reply::Bulk(b"twelve bytes")),
        (
            b"!21\r\nSYNTAX invalid syntax\r\n",
            Reply::BlobError(b"SYNTAX invalid syntax"),
        ),
        (b"!0\r\n\r\n", Reply::BlobError(b"")),
        (
            b"!11\r\nERR a\r\nb\r\nc\r\n",
            Reply::BlobError(b"ERR a\r\nb\r\nc"),
        ),
        (
            b"=15\r\ntxt:Some string\r\n",
            Reply::Verbatim {
                format: *b"txt",
                text: b"Some string",
            },
        ),
        (
            b"=4\r\nmkd:\r\n",
            Reply::Verbatim {
                format: *b"mkd",
                text: b"",
            },
        ),
    ]
}

fn scalars() -> Vec<(&'static [u8], Reply<'static>)> {
    vec![
        (b":0\r\n", Reply::Integer(0)),
        (b":1\r\n", Reply::Integer(1)),
        (b":-1\r\n", Reply::Integer(-1)),
        (b":+7\r\n", Reply::Integer(7)),
        (b":007\r\n", Reply::Integer(7)),
        (b":1234567890\r\n", Reply::Integer(1_234_567_890)),
        (b":9223372036854775807\r\n", Reply::Integer(i64::MAX)),
        (b":-9223372036854775808\r\n", Reply::Integer(i64::MIN)),
        (b"_\r\n", Reply::Null),
        (b"$-1\r\n", Reply::Null),
        (b"*-1\r\n", Reply::Null),
        (b"#t\r\n", Reply::Boolean(true)),
        (b"#f\r\n", Reply::Boolean(false)),
        (b",1.23\r\n", Reply::Double(1.23)),
        (b",10\r\n", Reply::Double(10.0)),
        (b",-1.5e-7\r\n", Reply::Double(-1.5e-7)),
        (b",1E+10\r\n", Reply::Double(1e10)),
        (b",inf\r\n", Reply::Double(f64::INFINITY)),
        (b",-inf\r\n", Reply::Double(f64::NEG_INFINITY)),
        (b",nan\r\n", Reply::Double(f64::NAN)),
        (
            b"(3492890328409238509324850943850943825024385\r\n",
            Reply::BigNumber(b"3492890328409238509324850943850943825024385"),
        ),
        (b"(-1\r\n", Reply::BigNumber(b"-1")),
    ]
}

fn aggregates() -> Vec<(&'static [u8], Reply<'static>)> {
    let message = || {
        vec![
            Reply::Bulk(b"message"),
            Reply::Bulk(b"ch"),
            Reply::Bulk(b"hi"),
        ]
    };
    vec![
        (b"*0\r\n", Reply::Array(vec![])),
        (b"%0\r\n", Reply::Map(vec![])),
        (b"~0\r\n", Reply::Set(vec![])),
        (b">0\r\n", Reply::Push(vec![])),
        (b"*1\r\n*0\r\n", Reply::Array(vec![Reply::Array(vec![])])),
        (
            b"*3\r\n:1\r\n$-1\r\n+c\r\n",
            Reply::Array(vec![Reply::Integer(1), Reply::Null, Reply::Simple(b"c")]),
        ),
        (
            b"*2\r\n*2\r\n:1\r\n:2\r\n*1\r\n-ERR x\r\n",
            Reply::Array(vec![
                Reply::Array(vec![Reply::Integer(1), Reply::Integer(2)]),
                Reply::Array(vec![Reply::Error(b"ERR x")]),
            ]),
        ),
        (
            b"*1\r\n!5\r\nERR x\r\n",
            Reply::Array(vec![Reply::BlobError(b"ERR x")]),
        ),
        (
            b"*2\r\n:1\r\n*-1\r\n",
            Reply::Array(vec![Reply::Integer(1), Reply::Null]),
        ),
        (
            b"%2\r\n+first\r\n:1\r\n$6\r\nsecond\r\n*1\r\n#t\r\n",
            Reply::Map(vec![
                (Reply::Simple(b"first"), Reply::Integer(1)),
                (
                    Reply::Bulk(b"second"),
                    Reply::Array(vec![Reply::Boolean(true)]),
                ),
            ]),
        ),
        (
            b"%1\r\n%0\r\n%0\r\n",
            Reply::Map(vec![(Reply::Map(vec![]), Reply::Map(vec![]))]),
        ),
        (
            b"~2\r\n+a\r\n+a\r\n",
            Reply::Set(vec![Reply::Simple(b"a"), Reply::Simple(b"a")]),
        ),
        (
            b">3\r\n$7\r\nmessage\r\n$2\r\nch\r\n$2\r\nhi\r\n",
            Reply::Push(message()),
        ),
        (
            b"*1\r\n>1\r\n+x\r\n",
            Reply::Array(vec![Reply::Push(vec![Reply::Simple(b"x")])]),
        ),
        (b"*1\r\n*1\r\n*1\r\n_\r\n", nested(Reply::Null, 3)),
        (b"*2\r\n=5\r\ntxt:a\r\n,nan\r\n", {
            Reply::Array(vec![
                Reply::Verbatim {
                    format: *b"txt",
                    text: b"a",
                },
                Reply::Double(f64::NAN),
            ])
        }),
    ]
}

fn attributes() -> Vec<(&'static [u8], Reply<'static>)> {
    let ttl = || vec![(Reply::Simple(b"ttl"), Reply::Integer(3600))];
    let about = |attributes, reply| Reply::Attribute(Box::new(Attributed { attributes, reply }));
    vec![
        (
            b"|1\r\n+ttl\r\n:3600\r\n$1\r\nv\r\n",
            about(ttl(), Reply::Bulk(b"v")),
        ),
        (b"|0\r\n+OK\r\n", about(vec![], Reply::Simple(b"OK"))),
        (
            b"|0\r\n|0\r\n_\r\n",
            about(vec![], about(vec![], Reply::Null)),
        ),
        (
            b"|1\r\n+ttl\r\n:3600\r\n-ERR no\r\n",
            about(ttl(), Reply::Error(b"ERR no")),
        ),
        (
            b"|1\r\n-ERR key\r\n_\r\n:1\r\n",
            about(
                vec![(Reply::Error(b"ERR key"), Reply::Null)],
                Reply::Integer(1),
            ),
        ),
        (
            b"|1\r\n+ttl\r\n:3600\r\n*1\r\n_\r\n",
            about(ttl(), nested(Reply::Null, 1)),
        ),
        (
            b"|1\r\n+ttl\r\n:3600\r\n>1\r\n+x\r\n",
            about(ttl(), Reply::Push(vec![Reply::Simple(b"x")])),
        ),
        (
            b"*2\r\n:1\r\n|1\r\n+ttl\r\n:3600\r\n:2\r\n",
            Reply::Array(vec![Reply::Integer(1), about(ttl(), Reply::Integer(2))]),
        ),
        (
            b"|1\r\n|0\r\n+k\r\n|0\r\n+v\r\n|0\r\n!3\r\nERR\r\n",
            about(
                vec![(
                    about(vec![], Reply::Simple(b"k")),
                    about(vec![], Reply::Simple(b"v")),
                )],
                about(vec![], Reply::BlobError(b"ERR")),
            ),
        ),
    ]
}

fn nested(innermost: Reply<'static>, levels: usize) -> Reply<'static> {
    (0..levels).fold(innermost, |reply, _| Reply::Array(vec![reply]))
}

/// Bytes that are refused, whose framing is right or wrong.
pub(super) fn refused() -> Vec<&'static [u8]> {
    vec![
        b"x\r\n",
        b"\r\n",
        b"\n",
        b" +OK\r\n",
        b"+OK\n",
        b"-ERR\n",
        b"$1\n",
        // Eight bytes and more, as the skipper's short cuts need.
        b"$-1\r\r\n+OK\r\n",
        b"$1\r\r\nx\r\n+OK\r\n",
        b"$1\nx\r\n+OK\r\n",
        b"$01\r\nx\r\n+OK\r\n",
        b"$-1\n$-1\n$-1\n",
        b"$-5\r\n",
        b"$-0\r\n",
        b"$+1\r\n",
        b"$01\r\n",
        b"$\r\n",
        b"$1 \r\n",
        b"$a\r\n",
        b"$1\r\nxy\r\n",
        b"$1\r\nx\rz",
        b"$1\r\nx\n",
        b"*-2\r\n",
        b"*a\r\n",
        b"%-1\r\n",
        b"~-1\r\n",
        b">-1\r\n",
        b"|-1\r\n",
        b"!-1\r\n",
        b"=-1\r\n",
        b"$?\r\n",
        b"*?\r\n",
        b"%?\r\n",
        b"~?\r\n",
        b">?\r\n",
        b";4\r\n",
        b".\r\n",
        b":\r\n",
        b":a\r\n",
        b":1.5\r\n",
        b":9223372036854775808\r\n",
        b",\r\n",
        b",1,5\r\n",
        b",infinity\r\n",
        b"(\r\n",
        b"(1e5\r\n",
        b"#\r\n",
        b"#true\r\n",
        b"_x\r\n",
        b"=3\r\ntxt\r\n",
        b"=5\r\ntxt;x\r\n",
        b"*1\r\nx",
        b"*2\r\n:1\r\n$-5\r\n",
        b"$18446744073709551616\r\n",
        b"$18446744073709551615\r\n",
        b"*99999999999\r\n",
        b"%9223372036854775808\r\n",
        b"|0\r\nx",
        b"$111111111111111111111111111111",
    ]
}
