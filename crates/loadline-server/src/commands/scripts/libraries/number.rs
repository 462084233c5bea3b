//! Numbers as the C library prints them.

/// A number as `printf` prints it by `%.{digits}g`.
pub(in crate::commands::scripts) fn shown(number: f64, digits: usize) -> String {
    if number.is_nan() {
        return if number.is_sign_negative() {
            "-nan"
        } else {
            "nan"
        }
        .to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let digits = digits.max(1);
    // Most are whole, and small enough to have no exponent and no rounding.
    let is_negative_zero = number == 0.0 && number.is_sign_negative();
    if number.trunc() == number
        && number.abs() < 10_f64.powi(digits.min(15) as i32)
        && !is_negative_zero
    {
        return (number as i64).to_string();
    }
    let scientific = format!("{number:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs());
    }
    let decimals = (digits as i32 - 1 - exponent).max(0) as usize;
    trimmed(&format!("{number:.decimals$}")).to_owned()
}

/// Without zeros at the end of a fraction.
fn trimmed(text: &str) -> &str {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_by_printf() {
        for (number, digits, text) in [
            (0.0, 17, "0"),
            (-0.0, 17, "-0"),
            (1.0, 17, "1"),
            (0.1, 17, "0.10000000000000001"),
            (0.1, 14, "0.1"),
            (1e15, 14, "1e+15"),
            (123_456_789_012_345.0, 14, "1.2345678901234e+14"),
            (1e17, 17, "1e+17"),
            (1e16, 17, "10000000000000000"),
            (0.0001, 14, "0.0001"),
            (0.000_01, 14, "1e-05"),
            (-2.5e-300, 17, "-2.5e-300"),
            (f64::INFINITY, 14, "inf"),
        ] {
            assert_eq!(shown(number, digits), text, "{number} with {digits} digits");
        }
    }
}
