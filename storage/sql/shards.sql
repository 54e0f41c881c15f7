-- One row for each committed shard. skip_reasons, input and engine are JSON; created is UTC.
create view shards as
select
    source,
    shard,
    documents,
    empty_documents,
    skipped_rows,
    skip_reasons,
    replaced_rows,
    bytes,
    tokens,
    pieces_dropped,
    pieces_dropped_count,
    input,
    engine,
    digest,
    seconds,
    created
from _shards
order by source, shard;
