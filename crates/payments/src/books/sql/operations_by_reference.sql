-- For a person with a number from the acquirer's pages; no index is kept for that.
select operation from operations where reference = ?1 order by id
