//! The folder of everything a run throws away. Alone in its process, since there is one such folder per process.

use std::fs;

use unavez_lab::Workshop;

#[test]
fn what_is_left_behind_goes_with_the_workshop() {
    let before = tempfile::env::temp_dir();
    let workshop = Workshop::open().expect("the first of this process");
    let root = tempfile::env::temp_dir();
    assert!(root.starts_with(&before) && root != before, "{}", root.display());
    // As by a thread that was cut off.
    let left = tempfile::tempdir().expect("a folder").keep();
    fs::write(left.join("unavez.db"), "left").expect("written");
    assert!(left.starts_with(&root));

    let second = Workshop::open().expect_err("one per process");
    assert!(second.to_string().contains(&root.display().to_string()), "{second}");
    workshop.clear().expect("removed");
    assert!(!root.exists());
}
