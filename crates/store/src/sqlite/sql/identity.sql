select realm, largest_time from unavez_store
