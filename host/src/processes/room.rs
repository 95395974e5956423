//! Whether this host has room for all workspaces. Where it has not, the kernel would not say so but end a process.

use std::fs;
use std::path::Path;

use crate::error::{Error, Result};

/// Refuses workspaces of all ranks that this host, or this process's control group, has no room for.
///
/// # Errors
/// [`Error::TooLittleMemory`].
pub(crate) fn check_room(needed_bytes: u64) -> Result<()> {
    // Where the kernel does not say, nothing is known to be too much.
    let of_host = fs::read_to_string("/proc/meminfo").ok().and_then(|text| of_host(&text));
    let group = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let available = of_host.into_iter().chain(of_groups(Path::new("/sys/fs/cgroup"), &group)).min();
    match available {
        Some(available_bytes) if available_bytes < needed_bytes => {
            Err(Error::TooLittleMemory { needed_bytes, available_bytes })
        }
        Some(_) | None => Ok(()),
    }
}

/// What `/proc/meminfo` says can be taken without swapping.
fn of_host(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1 << 10)
}

/// What is left in the control group (of version 2) that `/proc/self/cgroup` names, and in each group around it that has a limit.
fn of_groups(root: &Path, group: &str) -> Vec<u64> {
    let Some(path) = group.lines().find_map(|line| line.strip_prefix("0::/")) else { return Vec::new() };
    root.join(path).ancestors().take_while(|folder| folder.starts_with(root)).filter_map(left_in).collect()
}

fn left_in(folder: &Path) -> Option<u64> {
    let number = |file: &str| fs::read_to_string(folder.join(file)).ok()?.trim().parse::<u64>().ok();
    let (most, current) = (number("memory.max")?, number("memory.current")?);
    // Pages of files that nobody uses go first when there is need.
    let stat = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
    let idle = stat.lines().find_map(|line| line.strip_prefix("inactive_file ")?.parse::<u64>().ok());
    Some(most.saturating_sub(current.saturating_sub(idle.unwrap_or(0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b104_memory_that_there_is_not_is_refused() {
        check_room(1 << 20).expect("a megabyte");
        let error = check_room(1 << 60).expect_err("nobody has so much");
        assert!(matches!(error, Error::TooLittleMemory { needed_bytes, .. } if needed_bytes == 1 << 60), "{error}");
        assert_eq!(of_host("MemTotal:  9 kB\nMemAvailable:   24105 kB\n"), Some(24105 << 10));
        assert_eq!(of_host("MemTotal:  9 kB\n"), None);
    }

    #[test]
    fn every_group_around_the_process_counts_that_has_a_limit() {
        let root = std::env::temp_dir().join(format!("allfold-groups-{}", std::process::id()));
        let inner = root.join("outer/none/inner");
        fs::create_dir_all(&inner).expect("a folder");
        let write = |folder: &Path, file: &str, text: &str| fs::write(folder.join(file), text).expect("a file");
        for (folder, most, current) in [("outer", "5000\n", "3000\n"), ("outer/none/inner", "4000\n", "3500\n")] {
            write(&root.join(folder), "memory.max", most);
            write(&root.join(folder), "memory.current", current);
        }
        write(&root.join("outer/none"), "memory.max", "max\n");
        write(&root.join("outer/none"), "memory.current", "1\n");
        write(&inner, "memory.stat", "anon 7\ninactive_file 100\nfile 9\n");
        let left = of_groups(&root, "3:cpu:/elsewhere\n0::/outer/none/inner\n");
        fs::remove_dir_all(&root).expect("it is there");
        assert_eq!(left, [600, 2000]);
        assert_eq!(of_groups(&root, "3:memory:/elsewhere\n"), [0; 0]);
    }
}
