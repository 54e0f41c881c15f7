-- One row for each id of the tokenizer: the token as the tokenizer writes it, and the text it stands for (surface).
create view vocabulary as
select token_id, token, surface, kind, script
from _vocabulary
order by token_id;
