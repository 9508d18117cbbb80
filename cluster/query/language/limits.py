"""The budgets of the filter language. Each is checked before the work it bounds is done.

They are chosen so that the worst filter within all of them is parsed and run over 100,000 products in about
50 ms on one core.
"""

from __future__ import annotations

MAX_BYTES = 32 * 1024
"Length of a filter text in UTF-8."

MAX_CLAUSES = 1_024
"Clauses of a filter, Solr's own default, where the dearer ones count several times:"

RANGE_WEIGHT = 4
"a range, and a date as a value, which is one,"

WORD_WEIGHT = 4
"each word of a value for a text field,"

PATTERN_WEIGHT = 64
"a wildcard or a regular expression."

MAX_DEPTH = 64
"Nesting of groups, and height of the tree, which keeps every walk over it and its pickling off the stack's end."

MAX_FIELD = 512
"Characters of a field name."

MAX_SEGMENTS = 64
"Dots in a field name: no deeper than JSON may be."

MAX_POSITIONS = 512
"Characters and character classes of one pattern, counted repetitions written out."

MAX_GROUPS = 16
"Nesting of the groups of one regular expression."

MAX_STATES = 512
"States of the automaton of one pattern. `.*a.{12}` needs 2^13 of them and is refused; `.*red.*` needs 4."

MAX_EFFORT = 60_000
"Steps for building the automata of all patterns of one filter; a step is 0.1 to 0.3 microseconds."
