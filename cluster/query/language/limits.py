"""The budgets of the filter language. Each is checked before the work that it bounds.

With these values, the worst filter within all budgets is parsed and run over 100,000 products in about
50 ms on one core.
"""

from __future__ import annotations

MAX_BYTES = 32 * 1024
"Length of a filter text in UTF-8."

MAX_CLAUSES = 1_024
"Clauses of a filter, Solr's own default; expensive clauses count several times:"

RANGE_WEIGHT = 4
"a range, and a date as a value, which is one,"

WORD_WEIGHT = 4
"each word of a value for a text field,"

PATTERN_WEIGHT = 64
"a wildcard or a regular expression."

MAX_DEPTH = 64
"Nesting of groups, and height of the tree, which prevents stack overflow in tree walks and pickling."

MAX_FIELD = 512
"Characters of a field name."

MAX_SEGMENTS = 64
"Dots in a field name: no deeper than JSON is allowed to be."

MAX_POSITIONS = 512
"Characters and character classes of one pattern, with counted repetitions expanded."

MAX_GROUPS = 16
"Nesting of the groups of one regular expression."

MAX_STATES = 512
"States of the automaton of one pattern. `.*a.{12}` needs 2^13 of them and is refused; `.*red.*` needs 4."

MAX_EFFORT = 60_000
"Steps for building the automata of all patterns of one filter; a step is 0.1 to 0.3 microseconds."
