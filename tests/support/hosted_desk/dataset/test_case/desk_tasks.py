"""Tasks of a help desk, in the form in which a ThinkingBox dataset holds them."""

"""!
scenario: desk
"""


def validate_database(x):
    effects = x.effects["desk"]
    assert effects["result_db_hash"] == effects["golden_db_hash"], effects["diff"]


def test_badge(x, judge):
    """!
    query: I lost my badge.
    user_context: You are Ada. You lost your badge yesterday.
    init:
      desk:
        data_patch: {tickets: [{id: 7, about: keyboard}]}
        golden_test_case:
          tool_interactions:
          - {tool: open_ticket, parameters: {about: badge}}
        rubrics: {}
        rubrics_yesno: ["Is a ticket named?"]
    """
    validate_database(x)


def test_laptop(x, judge):
    """!
    query: My laptop is five years old.
    user_context: You are Bo.
    init:
      desk:
        golden_test_case:
          tool_interactions:
          - {tool: open_ticket, parameters: {about: laptop}}
          - {tool: open_ticket, parameters: {about: battery}}
    """
    validate_database(x)


def test_nothing(x, judge):
    """!
    query: Thank you for the help.
    user_context: You are Cleo. You want nothing.
    init:
      desk: {golden_test_case: {tool_interactions: []}}
    """
    validate_database(x)
