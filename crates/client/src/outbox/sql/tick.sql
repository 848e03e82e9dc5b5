-- Moves the clock on, never back, and says what time it is.
update unavez_outbox set latest_us = max(latest_us, ?1) where one = 1 returning latest_us;
