-- One row for each source and id that occurs in it, with rank, share and cumulative share within that source.
create view tokens_by_source as
select
    source,
    token_id,
    token,
    surface,
    kind,
    script,
    count,
    row_number() over most_frequent_first as rank,
    count / sum(count) over (partition by source) as share,
    sum(count) over most_frequent_first / sum(count) over (partition by source) as cumulative_share
from _counts left join _vocabulary using (token_id)
window most_frequent_first as (partition by source order by count desc, token_id rows unbounded preceding)
order by source, rank;
