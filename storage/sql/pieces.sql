-- One row for each source and distinct piece (kept if the corpus was counted with keep_pieces). text is null where the
-- piece isn't valid UTF-8; initial: it begins a segment, for tokenizers that treat that otherwise.
create view pieces as
select
    source,
    piece,
    try(decode(piece)) as text,
    initial,
    sum(count)::bigint as count
from _pieces
group by source, piece, initial;
