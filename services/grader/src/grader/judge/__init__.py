"""A narrow question, a constrained answer: the judge of `rubric` checks."""
