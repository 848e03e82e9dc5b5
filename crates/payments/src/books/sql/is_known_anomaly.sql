select exists (select 1 from anomalies where operation = ?1 and reason = ?2 and detail = ?3)
