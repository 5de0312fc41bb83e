"""How a conversation becomes tokens and how the policy's tokens become acts.

The one place of rendering and of tool-call interpretation: training, probing and evaluation use it.
"""
