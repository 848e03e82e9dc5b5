select exists (select 1 from charges where id = ?1) or exists (select 1 from operations where id = ?1)
