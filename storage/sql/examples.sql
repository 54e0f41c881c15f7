-- The most frequent tokens.
select rank, token_id, surface, count, cumulative_share from tokens limit 20;
-- How many tokens cover 99.9% of the corpus?
select count(*) + 1 as tokens_needed from tokens where cumulative_share < 0.999;
-- What never occurs, by script?
select script, count(*) as never_seen from tokens where count = 0 group by script order by never_seen desc;
-- What a corpus costs in tokens.
select source, bytes / tokens as bytes_per_token, tokens / documents as tokens_per_document from sources;
-- Tokens that one source needs far more than the whole corpus does.
select surface, s.share, t.share as overall from tokens_by_source s join tokens t using (token_id, surface)
order by s.share / t.share desc limit 20;
