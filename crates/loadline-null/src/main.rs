//! `null-server`: listens on a free port of loopback, prints the address, and answers until its standard input ends, so
//! that it never outlives the process that started it.

use std::io::{self, Write};

use loadline_null::{Listener, Reads, serve};

fn main() -> io::Result<()> {
    let listener = Listener::loopback()?;
    let address = listener.address().ok_or(io::ErrorKind::AddrNotAvailable)?;
    let mut out = io::stdout();
    writeln!(out, "{address}")?;
    out.flush()?;
    serve(&listener, io::stdin(), &Reads::Ok)
}
