-- Documents kept for verification, of each source those with the smallest hash of (source, shard, row).
create view samples as
select source, shard, "row", strlen(text) as bytes, text
from _samples
order by source, "order", shard, "row";
