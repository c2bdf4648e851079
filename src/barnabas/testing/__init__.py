"""Fixtures and faults for test suites."""
