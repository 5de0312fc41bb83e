"""An ordinary docstring is no configuration."""

raise SystemExit("whoever imports this has lost")

"""!
scenario: depot
tags: [shared]
"""


def check(x):
    assert x.effects["scales"]["result"] == x.effects["scales"]["golden"]


def test_one(x, judge):
    """!
    query: How heavy is P-1?
    user_context: You own P-1.
    init:
      scales:
        sources: [{name: more.md, snippets: [Never guess.]}]
        limits: {grams: 900}
        since: 2025-10-01
    tags: [own, "category:user"]
    """
    check(x)


def test_two(x, judge):
    """!
    query: How heavy is P-2?
    max_user_sim_turns: 3
    tags: [skip]
    """
    assert judge.text_yesno(x.response, "Is a weight named?")
