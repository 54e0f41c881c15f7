-- One row for each source: how much of it is counted, what it came to, and what identifies it (identity is JSON).
create view sources as
select
    source,
    any_value(weight) as weight,
    any_value(shards_planned) as shards_planned,
    count(shard) as shards,
    count(shard) = any_value(shards_planned) as complete,
    coalesce(sum(documents), 0)::bigint as documents,
    coalesce(sum(empty_documents), 0)::bigint as empty_documents,
    coalesce(sum(skipped_rows), 0)::bigint as skipped_rows,
    coalesce(sum(replaced_rows), 0)::bigint as replaced_rows,
    coalesce(sum(bytes), 0)::bigint as bytes,
    coalesce(sum(tokens), 0)::bigint as tokens,
    any_value(identity) as identity,
    any_value(plan_hash) as plan_hash
from _sources join _weights using (source) left join _shards using (source)
group by source
order by source;
