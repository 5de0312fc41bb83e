"""Which text the scripted policy answers: task by its opening, plan by the slot, turn by its number."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tokenizers import Tokenizer

from envfarm_cli.failure import BadInput

REQUEST_ID = re.compile(r"\.s(?P<slot>\d+)\.a\d+\.t(?P<turn>\d+)$")
END_OF_TURN = "<|im_end|>"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is said in one task."""

    opening: str
    plans: list[list[str]]
    """Each the texts of one whole attempt; slots take them in turn."""


class Script:
    """All plans, and the tokenizer of the model that scores them."""

    def __init__(self, plans: dict[str, Plan], tokenizer: Tokenizer):
        self._plans = plans
        self._tokenizer = tokenizer
        end = tokenizer.token_to_id(END_OF_TURN)
        if end is None:
            raise BadInput(f"the tokenizer has no {END_OF_TURN}")
        self._end: int = end

    @classmethod
    def load(cls, script: Path, tokenizer: Path) -> Self:
        """BadInput when one of the files cannot be read."""
        try:
            value = json.loads(script.read_text())
            plans = {task: Plan(**plan) for task, plan in value["tasks"].items()}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BadInput(f"{script} is not a script: {error}") from error
        if not tokenizer.is_file():
            raise BadInput(f"there is no tokenizer at {tokenizer}")
        return cls(plans, Tokenizer.from_file(str(tokenizer)))

    def answer(self, request_id: str, prompt: list[int]) -> list[int] | None:
        """Token ids of the scripted turn, its end included; None when the id is not a rollout's.

        Slot s plays plan s, modulo their number. After its last text a plan repeats it. Raises BadInput when the prompt belongs to no task of the script.
        """
        match = REQUEST_ID.search(request_id)
        if match is None:
            return None
        plan = self._plan_of(prompt)
        texts = plan.plans[int(match["slot"]) % len(plan.plans)]
        text = texts[min(int(match["turn"]), len(texts) - 1)]
        return [*self._tokenizer.encode(text, add_special_tokens=False).ids, self._end]

    def _plan_of(self, prompt: list[int]) -> Plan:
        # Group ids number the tasks of a job without naming them; the opening does name one.
        text = self._tokenizer.decode(prompt, skip_special_tokens=False)
        for plan in self._plans.values():
            if plan.opening in text:
                return plan
        raise BadInput("the prompt holds the opening of no task of the script")
