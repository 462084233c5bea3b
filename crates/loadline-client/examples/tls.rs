//! An encrypted connection. Without a file, the certificates of the system are trusted.
//!
//! ```sh
//! cargo run -p loadline-client --example tls --features tls -- rediss://localhost:6380 ca.pem
//! ```

#![expect(clippy::print_stdout, reason = "an example shows its results")]

use std::path::Path;

use loadline_client::commands::{get, set};
use loadline_client::{Client, Error, Tls};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1);
    let authority = std::env::args().nth(2);
    let url = url.as_deref().unwrap_or("rediss://localhost:6380");
    run(url, authority.as_deref().map(Path::new))
}

/// Writes and reads a value. The certificate of the server must be signed by this authority.
pub(crate) fn run(url: &str, authority: Option<&Path>) -> Result<(), Error> {
    let mut builder = Client::builder().url(url)?;
    if let Some(file) = authority {
        let certificate = CertificateDer::from_pem_file(file)
            .map_err(|error| Error::Tls(format!("{}: {error}", file.display())))?;
        builder = builder.tls(Tls::trusting([certificate])?);
    }
    let mut connection = builder.build().blocking()?;
    connection.run(set("example:secret", "end to end"))?;
    let secret: String = connection.run(get("example:secret"))?;
    println!("secret: {secret}");
    Ok(())
}
