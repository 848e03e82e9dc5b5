select realm from unavez_store
