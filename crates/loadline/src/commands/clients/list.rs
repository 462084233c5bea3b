//! `loadline clients --list`: the drivers, and whether each is installed.

use std::process::ExitCode;

use crate::exit::Failure;
use crate::files;
use crate::plan::{Driver, DriverMode};

pub(super) fn print(drivers: &[Driver]) -> Result<ExitCode, Failure> {
    let width = |of: fn(&Driver) -> usize| drivers.iter().map(of).max().unwrap_or(0);
    let name = width(|driver| driver.name.len());
    let language = width(|driver| driver.language.len());
    let mut text = String::new();
    for driver in drivers {
        let modes: Vec<&str> = driver
            .modes
            .iter()
            .map(|mode| DriverMode::name(*mode))
            .collect();
        let resp: Vec<String> = driver
            .resp
            .iter()
            .map(|resp| format!("RESP{resp}"))
            .collect();
        let state = if driver.is_installed() {
            "installed"
        } else {
            "not installed"
        };
        text += &format!(
            "{:name$}  {:language$}  {state:13}  {}  {}\n",
            driver.name,
            driver.language,
            resp.join("+"),
            modes.join(",")
        );
    }
    files::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
