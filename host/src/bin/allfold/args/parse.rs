//! How values of the command line are read: names that the library has, and sizes.

use std::time::Duration;

use allfold::Algorithm;
use clap::builder::{PossibleValuesParser, TypedValueParser};

/// The algorithm asked for; `None`: as the plan chooses.
pub type Algo = Option<Algorithm>;

/// Reads one of `all` by its name.
pub fn named<T: Copy + Send + Sync + 'static>(
    all: &'static [T],
    name: impl Fn(&T) -> &'static str + Clone + Send + Sync + 'static,
) -> impl TypedValueParser<Value = T> {
    let names = all.iter().map(&name);
    PossibleValuesParser::new(names).try_map(move |text| {
        let found = all.iter().copied().find(|value| name(value) == text);
        found.ok_or_else(|| format!("no such name: {text}"))
    })
}

/// `auto`, or an algorithm as users write it: `one-shot`.
pub fn algorithm() -> impl TypedValueParser<Value = Algo> {
    const CHOICES: [Algo; 1 + Algorithm::ALL.len()] = {
        let mut choices = [None; 1 + Algorithm::ALL.len()];
        let mut i = 0;
        while i < Algorithm::ALL.len() {
            choices[1 + i] = Some(Algorithm::ALL[i]);
            i += 1;
        }
        choices
    };
    named(&CHOICES, |choice| choice.map_or("auto", algorithm_name))
}

/// An algorithm as users write it.
pub const fn algorithm_name(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::OneShot => "one-shot",
        Algorithm::TwoShot => "two-shot",
        Algorithm::OneShotPush => "one-shot-push",
        Algorithm::TwoShotPush => "two-shot-push",
        Algorithm::OnePass => "one-pass",
        Algorithm::Exchange => "exchange",
    }
}

/// A number of bytes: `512`, `64K`, `4M`, `1G`, with `B` or `iB` behind it if one likes.
pub fn size(text: &str) -> Result<u64, String> {
    let upper = text.to_ascii_uppercase();
    let short = upper.strip_suffix("IB").or_else(|| upper.strip_suffix('B')).unwrap_or(&upper);
    let (digits, unit) = match short.char_indices().last() {
        Some((at, 'K')) => (&short[..at], 1 << 10),
        Some((at, 'M')) => (&short[..at], 1 << 20),
        Some((at, 'G')) => (&short[..at], 1 << 30),
        _ => (short, 1),
    };
    let number: u64 =
        digits.parse().map_err(|_| "a size is a whole number, then K, M or G: 512, 64K, 4M".to_owned())?;
    number.checked_mul(unit).ok_or_else(|| "more bytes than there are addresses".to_owned())
}

/// A time in seconds: `10`, `0.5`.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| "a time is a number of seconds: 10, 0.5".to_owned())?;
    Duration::try_from_secs_f64(number).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("1K", 1024),
            ("64k", 65_536),
            ("64KB", 65_536),
            ("4M", 4 << 20),
            ("4MiB", 4 << 20),
            ("2G", 2 << 30),
            ("7B", 7),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "K", "1.5M", "-1", "4T", "iB", "4 K", "17179869184G", "1KK", "µ"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_seconds_and_parts_of_them() {
        assert_eq!(seconds("10"), Ok(Duration::from_secs(10)));
        assert_eq!(seconds("0.25"), Ok(Duration::from_millis(250)));
        assert_eq!(seconds("0"), Ok(Duration::ZERO));
        for text in ["", "-1", "s", "1s", "inf", "NaN", "1e300"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
