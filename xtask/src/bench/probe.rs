//! What a process uses, and how fast the disk is, as the kernel tells it.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::failure::Failure;

/// What one process has used since it began, and what it holds now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Bytes it caused to be written to the device.
    pub(crate) written_bytes: u64,
    /// Processor time, its own and the kernel's for it.
    pub(crate) cpu: Duration,
    pub(crate) resident_bytes: u64,
}

impl Usage {
    pub(crate) fn of(process: u32) -> Result<Self, Failure> {
        let read = |name: &str| {
            let path = Path::new("/proc").join(process.to_string()).join(name);
            std::fs::read_to_string(&path).map_err(|error| Failure::file("read", &path, &error))
        };
        Self::parse(&read("io")?, &read("stat")?, &read("status")?)
            .ok_or_else(|| Failure::lacking(format!("/proc/{process} is not as expected")))
    }

    fn parse(io: &str, stat: &str, status: &str) -> Option<Self> {
        Some(Self {
            written_bytes: field(io, "write_bytes:")?,
            cpu: processor_time(stat)?,
            resident_bytes: field(status, "VmRSS:")? * 1024,
        })
    }

    /// What was used in between; what is held is taken as it is now.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            written_bytes: self.written_bytes.saturating_sub(before.written_bytes),
            cpu: self.cpu.saturating_sub(before.cpu),
            resident_bytes: self.resident_bytes,
        }
    }
}

fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

/// Fields 14 and 15 of `/proc/PID/stat`, in ticks of 10 ms: Linux shows 100 a second whatever it counts in itself.
/// Counted from behind the name, which is in parentheses and may hold anything.
fn processor_time(stat: &str) -> Option<Duration> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = behind_name.split_whitespace().collect();
    let ticks = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(Duration::from_millis(ticks * 10))
}

/// The median time of an fsync of one page in this folder: what a durable commit cannot be faster than alone.
pub(crate) fn fsync_time(folder: &Path) -> Result<Duration, Failure> {
    const TIMES: usize = 201;
    let path = folder.join("fsync-probe");
    let failure = |error| Failure::file("write", &path, &error);
    let mut file = File::create(&path).map_err(failure)?;
    let mut times = Vec::with_capacity(TIMES);
    for _ in 0..TIMES {
        file.write_all(&[0; 4096]).map_err(failure)?;
        let began = Instant::now();
        file.sync_data().map_err(failure)?;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    std::fs::remove_file(&path).map_err(failure)?;
    Ok(times[TIMES / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    const IO: &str = "rchar: 1\nwchar: 2\nread_bytes: 3\nwrite_bytes: 40960\ncancelled_write_bytes: 0\n";
    const STAT: &str = "7 (a (b) c) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 5 0 100 1000 200\n";
    const STATUS: &str = "Name:\tunavez\nVmRSS:\t    2048 kB\n";

    #[test]
    fn the_kernels_figures_are_read() {
        let usage = Usage::parse(IO, STAT, STATUS).unwrap();
        let expected =
            Usage { written_bytes: 40_960, cpu: Duration::from_secs(3), resident_bytes: 2_097_152 };
        assert_eq!(usage, expected);
        assert_eq!(Usage::parse(IO, "7 (cut", STATUS), None);
    }

    #[test]
    fn use_between_two_looks_is_the_difference() {
        let before = Usage { written_bytes: 960, cpu: Duration::from_secs(1), resident_bytes: 1 };
        let used = Usage::parse(IO, STAT, STATUS).unwrap().since(&before);
        assert_eq!(
            used,
            Usage { written_bytes: 40_000, cpu: Duration::from_secs(2), resident_bytes: 2_097_152 }
        );
    }

    #[test]
    fn this_very_process_can_be_read_where_there_is_proc() {
        if Path::new("/proc/self/io").exists() {
            assert!(Usage::of(std::process::id()).unwrap().resident_bytes > 0);
        }
    }

    #[test]
    fn the_disk_is_probed_and_left_clean() {
        let folder = tempfile::tempdir().unwrap();
        assert!(fsync_time(folder.path()).unwrap() > Duration::ZERO);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
