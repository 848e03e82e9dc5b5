-- Part of every commit: no row is updated where another process has raised the epoch.
update unavez_store
set batch = ?2, largest_time = max(largest_time, ?3)
where epoch = ?1
