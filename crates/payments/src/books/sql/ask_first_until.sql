select max(ask_first_until) from restores
