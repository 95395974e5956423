//! What this machine is: its GPUs, or why there are none, and its CPU.

use std::time::{SystemTime, UNIX_EPOCH};

use allfold::cuda::Device;

/// The GPUs that can be used, or in one line why there are none.
pub fn gpus() -> Result<Vec<Device>, String> {
    match Device::all() {
        Ok(devices) if devices.is_empty() => Err("the CUDA driver finds no GPU".to_owned()),
        Ok(devices) => Ok(devices),
        Err(error) => Err(error.to_string()),
    }
}

/// The CPU's name, as the kernel gives it.
pub fn cpu() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or("CPU", |(_, name)| name.trim()).to_owned()
}

/// The GPUs of a list, equal names counted: `2 x NVIDIA H200`.
pub fn names<'a>(devices: impl IntoIterator<Item = &'a Device>) -> String {
    let mut counted: Vec<(&str, usize)> = Vec::new();
    for device in devices {
        match counted.iter_mut().find(|(name, _)| *name == device.name) {
            Some((_, count)) => *count += 1,
            None => counted.push((&device.name, 1)),
        }
    }
    let words =
        counted.into_iter().map(|(name, count)| if count == 1 { name.to_owned() } else { format!("{count} x {name}") });
    words.collect::<Vec<_>>().join(", ")
}

/// Seconds since 1970, and nothing worse where the clock is before that.
fn unix_time() -> std::time::Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// A number that differs from run to run.
pub fn fresh_seed() -> u64 {
    unix_time().as_nanos() as u64
}

/// Now, as `2026-11-29T18:38:00Z`.
pub fn date() -> String {
    date_of(unix_time().as_secs())
}

/// Civil date and time of seconds since 1970, UTC.
fn date_of(seconds: u64) -> String {
    let (mut day, second) = (seconds / 86_400, seconds % 86_400);
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let mut month = 1;
    for days in [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if day < days {
            break;
        }
        day -= days;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}T{:02}:{:02}:{:02}Z", day + 1, second / 3600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_civil() {
        assert_eq!(date_of(0), "1970-01-01T00:00:00Z");
        assert_eq!(date_of(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(date_of(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(date_of(1_796_083_199), "2026-11-30T23:59:59Z");
        assert_eq!(date_of(1_798_761_600), "2027-01-01T00:00:00Z");
    }
}
