"""Benchmarks by hashes alone; see envfarm_numbers.benchmarks."""
