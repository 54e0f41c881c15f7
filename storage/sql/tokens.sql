-- One row for each id of the tokenizer: its count over all sources and by source, weighted (each source times its
-- weight), rank (1 is the most frequent, ties by id; null if it never occurs), share of the corpus, cumulative share.
create view tokens as
with summed as (
    select
        token_id,
        sum(count)::bigint as count,
        sum(count * weight order by source) as weighted,
        map(list(source order by source), list(count order by source)) as by_source
    from _counts join _weights using (source)
    group by token_id
),
ranked as (
    select
        token_id,
        row_number() over most_frequent_first as rank,
        weighted / sum(weighted) over () as share,
        sum(weighted) over most_frequent_first / sum(weighted) over () as cumulative_share
    from summed
    where weighted > 0
    window most_frequent_first as (order by weighted desc, token_id rows unbounded preceding)
)
select
    token_id,
    token,
    surface,
    kind,
    script,
    coalesce(count, 0) as count,
    coalesce(weighted, 0) as weighted,
    by_source,
    rank,
    coalesce(share, 0) as share,
    cumulative_share
from _vocabulary
    full join summed using (token_id)
    left join ranked using (token_id)
order by rank nulls last, token_id;
