"""`./run checklist`: which lines of docs/internals/CHECKLIST.md are shown, and by which tests.

A test says what it shows: `@pytest.mark.shows("S4.23", breaks="barnabas.client...:RecordAccumulator.append")`.
docs/internals/checklist-states.json says which lines became something else here, or cannot be tested, and why.
"""
