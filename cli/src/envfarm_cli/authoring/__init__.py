"""What can be said of tasks from their files alone: alikeness, shares, and mistakes of authors."""
