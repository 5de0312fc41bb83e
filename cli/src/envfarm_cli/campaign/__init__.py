"""Campaigns: work of minutes to days that survives any kill. A folder, a hashed recipe, stages."""
