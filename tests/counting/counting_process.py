"""A count as a process of its own, for tests that kill it: ``counting_process.py TOKENIZER CACHE CORPUS_JSON``.

Ends as ``trimbed count`` does: 0, 1, 130, or an error's exit code with its message on stderr. There it also says when
signals are taken care of, and when no longer: before and after, they meet Python itself.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from trimbed.cli.count import termination_as_interrupt
from trimbed.counting.config import CorpusConfig
from trimbed.counting.counter import CorpusCounter
from trimbed.counting.progress import ProgressDisplay
from trimbed.errors import TrimbedError

BEGAN = "signals are handled from here"
ENDED = "signals are no longer handled"


def main(tokenizer: str, cache: str, corpus: str) -> int:
    counter = CorpusCounter(Path(tokenizer), CorpusConfig.model_validate(json.loads(corpus)), cache)
    try:
        with termination_as_interrupt(), ProgressDisplay() as display:
            print(BEGAN, file=sys.stderr, flush=True)
            result = counter.run(display.event, planned=display.planned)
    except KeyboardInterrupt:
        return 130
    except TrimbedError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    print(ENDED, file=sys.stderr, flush=True)
    for failed in result.failed:
        print(f"not counted: {failed.shard.key}: {failed.failure}", file=sys.stderr)
    print(json.dumps({"new": result.new, "present": result.present, "missing": result.missing}), flush=True)
    return result.exit_code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
