"""Reports as documents of blocks, rendered as one HTML file, as Markdown, and beside their JSON.

document.py says what a report is made of; plots.py draws; campaign.py, comparison.py, selection.py
and training.py put sections together; html.py and markdown.py render.
"""
