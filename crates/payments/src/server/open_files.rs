//! How many connections the process may hold at all.

/// Files that are not connections: the database and its journal, readers, logs, the listeners.
const RESERVED: usize = 64;

/// `wanted`, or less where the limit of open files is lower. Said in the log once, when the server starts.
pub(super) fn clamp(wanted: usize) -> usize {
    let Some(limit) = soft_limit() else { return wanted };
    let possible = limit.saturating_sub(RESERVED).max(1);
    if possible < wanted {
        tracing::warn!(
            wanted,
            possible,
            open_files = limit,
            "fewer connections than wanted: limit of open files"
        );
    }
    wanted.min(possible)
}

/// The soft limit that Linux states for this process. Elsewhere nothing is known, and accepting copes with errors.
fn soft_limit() -> Option<usize> {
    parse(&std::fs::read_to_string("/proc/self/limits").ok()?)
}

fn parse(limits: &str) -> Option<usize> {
    limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_is_the_first_column() {
        let check = |line: &str, expected| {
            assert_eq!(parse(&format!("Limit  Soft  Hard  Units\n{line}\n")), expected)
        };
        check("Max open files            1024                 1048576              files     ", Some(1024));
        check("Max open files            unlimited            unlimited            files     ", None);
        check("Max processes             1                    2                    processes ", None);
    }

    #[test]
    fn a_small_wish_is_granted() {
        assert_eq!(clamp(1), 1);
    }
}
