"""Regular expressions of clients (SubscribedTopicRegex, filters), matched in time linear in the text.

Python's `re` backtracks: one expression of a client could stop the broker. `parser.py` reads RE2's syntax, which has no
back references; `automaton.py` runs all alternatives at once; `matching.py` is what others call, with a cache.
"""
